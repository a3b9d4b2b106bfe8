//! The command line: the tree of commands, and what all of them share.
//!
//! Responsible for: names, values and their checks that need no server. Each noun keeps its own arguments beside what it
//! does with them.
//! Invariant: every flag has an environment name, made from its place: `TENURE_<COMMAND>_<FLAG>`, and `TENURE_<FLAG>` for
//! those of all commands.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use tenure_client::proto::Requirement;
use tenure_client::{OwnCertificate, TlsFiles};

use crate::exit::Failure;
use crate::{
    agent, apply, attempt, certs, completions, config, context, cron, dead, enqueue, health, inbox, job,
    kind, migrate, node, server, slot, tenant, up, webhook, workflow,
};

/// Leases work to machines that have room for it.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0 ok · 1 failed · 2 usage · 3 not found · 64 bad input · 69 unavailable ·
  75 refused for now (retry_after is printed) · 77 not allowed · 79 must detach ·
  124 a wait ran out

Each flag can be set by an environment variable of its name: --server by TENURE_SERVER,
`job wait --timeout` by TENURE_JOB_WAIT_TIMEOUT.";

/// What every command understands.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The address of the server; of several, with commas between. Default: the context's, else http://127.0.0.1:7070.
    #[arg(long, global = true, value_name = "ADDR")]
    pub(crate) server: Option<String>,
    /// The context to use: a server by its name. Default: the one of `tenure context use`.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Whether the command line itself names the context.
    #[arg(skip)]
    pub(crate) context_is_typed: bool,
    /// The file of contexts. Default: tenure/contexts.toml in the XDG configuration directory.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) context_file: Option<PathBuf>,
    /// The certificate of the authority that the server's is of. With it, addresses are https.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// One's own certificate.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Serves, or speaks, beyond loopback without TLS: everybody on the way may do everything.
    #[arg(long, global = true)]
    pub(crate) insecure: bool,
    /// The form of the output.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// The same as -o json. A refusal is then an object on stdout, too.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Shows instants instead of ages.
    #[arg(long, global = true)]
    pub(crate) absolute: bool,
    /// How long to go on trying while the server is unavailable. 0s: try once.
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) retry_for: Duration,
}

impl Global {
    /// The files of TLS, if they are named.
    pub(crate) fn tls(&self) -> Result<Option<TlsFiles>, Failure> {
        match (&self.tls_ca, &self.tls_cert, &self.tls_key) {
            (None, None, None) => Ok(None),
            (Some(ca), Some(cert), Some(key)) => {
                let own = OwnCertificate { cert: cert.clone(), key: key.clone() };
                Ok(Some(TlsFiles { ca: ca.clone(), own: Some(own) }))
            }
            _ => Err(Failure::Usage(
                "--tls-ca, --tls-cert and --tls-key belong together: name all three".to_owned(),
            )),
        }
    }
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For people, with more columns.
    Wide,
    /// The canonical JSON of the wire.
    Json,
    /// The same values as YAML.
    Yaml,
    /// Ids or names alone, one a line.
    Name,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a server and a node agent on this machine, in one process.
    Up(up::UpArgs),
    /// Runs a server, or tells about one.
    Server(server::ServerArgs),
    /// Runs a node agent.
    Agent(agent::AgentArgs),
    /// What a running command says of itself and asks, inside of a job.
    #[command(subcommand)]
    Attempt(attempt::AttemptCommand),
    /// The configuration files.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// The schema of the Postgres database.
    #[command(subcommand)]
    Migrate(migrate::MigrateCommand),
    /// Certificates for a fleet over several hosts.
    #[command(subcommand)]
    Certs(certs::CertsCommand),
    /// Servers by name.
    #[command(subcommand)]
    Context(context::ContextCommand),
    /// Prints what makes a shell complete commands and flags.
    Completions(completions::CompletionsArgs),
    #[command(flatten)]
    Ask(Ask),
}

/// What is asked of a server.
#[derive(Debug, Subcommand)]
pub(crate) enum Ask {
    /// Makes the kinds, slots, tenants, cron entries and webhooks those of a fleet file.
    Apply(apply::ApplyArgs),
    /// Enqueues a job and prints its id.
    Enqueue(Box<enqueue::EnqueueArgs>),
    /// Single jobs.
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Kinds: types of work and their policy.
    #[command(subcommand)]
    Kind(kind::KindCommand),
    /// Slots: what there is a limited number of.
    #[command(subcommand)]
    Slot(slot::SlotCommand),
    /// Workflows: jobs behind and beside each other.
    #[command(subcommand)]
    Workflow(workflow::WorkflowCommand),
    /// Tenants: whose work it is, and how much of the fleet each has.
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// Cron entries: timetables that enqueue jobs.
    #[command(subcommand)]
    Cron(cron::CronCommand),
    /// Webhooks: who is told when a job or a workflow ends.
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// The inbox: what producers in the server's database enqueue.
    #[command(subcommand)]
    Inbox(inbox::InboxCommand),
    /// Nodes: the machines that run jobs.
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Dead letters: jobs that failed for good.
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// The figures of every queue, and what needs attention.
    Health(health::HealthArgs),
    /// Checks the server and everything it can tell about itself.
    Doctor,
}

impl Ask {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Apply(args) => args.writes(),
            Self::Enqueue(args) => args.writes(),
            Self::Job(command) => command.writes(),
            Self::Kind(command) => command.writes(),
            Self::Slot(command) => command.writes(),
            Self::Cron(command) => command.writes(),
            Self::Workflow(command) => command.writes(),
            Self::Webhook(command) => command.writes(),
            Self::Node(command) => command.writes(),
            Self::Dead(command) => command.writes(),
            Self::Tenant(_) | Self::Inbox(_) | Self::Health(_) | Self::Doctor => false,
        }
    }
}

impl Cli {
    /// Reads the command line and the environment; ends the process with code 2 if they make no sense.
    pub(crate) fn from_environment() -> Self {
        let matches = command().get_matches();
        Self::of(&matches).unwrap_or_else(|error| error.exit())
    }

    fn of(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let mut cli = Self::from_arg_matches(matches)?;
        cli.global.context_is_typed = matches.value_source("context") == Some(ValueSource::CommandLine);
        Ok(cli)
    }
}

/// The tree of commands with its environment names.
pub(crate) fn command() -> clap::Command {
    with_environment(Cli::command(), "TENURE")
}

fn with_environment(command: clap::Command, prefix: &str) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| {
        let Some(long) = arg.get_long().filter(|long| !matches!(*long, "help" | "version")) else {
            return arg;
        };
        // Once per flag and process: clap wants names that live as long as it does.
        let name: &'static str = Box::leak(environment_name(prefix, long).into_boxed_str());
        let arg = arg.env(name).hide_env(true);
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            arg.value_parser(BoolishValueParser::new())
        } else {
            arg
        }
    });
    names.into_iter().fold(command, |command, name| {
        let prefix = environment_name(prefix, &name);
        command.mut_subcommand(name, |sub| with_environment(sub, &prefix))
    })
}

fn environment_name(prefix: &str, name: &str) -> String {
    format!("{prefix}_{}", name.replace('-', "_").to_ascii_uppercase())
}

/// `30s`, `5m`, `1h 30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write for example 90s, 5m or 1h"))
}

/// RFC 3339 with an offset: `2026-09-30T08:00:00Z`.
pub(crate) fn instant(text: &str) -> Result<SystemTime, String> {
    let parsed: jiff::Timestamp = text
        .parse()
        .map_err(|_| "write an instant with its offset, such as 2026-09-30T08:00:00Z".to_owned())?;
    Ok(parsed.into())
}

/// `name=value`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// What a node label must be.
pub(crate) fn requirement(text: &str) -> Result<Requirement, String> {
    text.parse().map_err(|problem: tenure_proto::requirement::Malformed| problem.to_string())
}

/// `slot=units`.
pub(crate) fn need(text: &str) -> Result<(String, u32), String> {
    let (slot, amount) = pair(text).map_err(|_| "write SLOT=UNITS".to_owned())?;
    match amount.parse() {
        Ok(amount) if amount > 0 => Ok((slot, amount)),
        _ => Err("the units are a whole number from 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        let matches = command().try_get_matches_from(line.split_whitespace())?;
        Cli::of(&matches)
    }

    fn flags(command: &clap::Command, into: &mut Vec<(String, Option<String>)>) {
        for arg in command.get_arguments().filter(|arg| arg.get_long().is_some_and(|long| long != "help")) {
            let env = arg.get_env().map(|name| name.to_string_lossy().into_owned());
            into.push((format!("{} --{}", command.get_name(), arg.get_long().unwrap_or_default()), env));
        }
        for sub in command.get_subcommands() {
            flags(sub, into);
        }
    }

    #[test]
    fn the_tree_of_commands_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_flag_has_its_own_environment_name() {
        let mut all = Vec::new();
        flags(&command(), &mut all);
        let mut seen = BTreeSet::new();
        for (flag, env) in all.into_iter().filter(|(flag, _)| !flag.ends_with("--version")) {
            let env = env.unwrap_or_else(|| panic!("{flag} has no environment name"));
            assert!(env.starts_with("TENURE_"), "{env}");
            assert!(seen.insert(env.clone()), "{env} is used twice");
        }
        for name in
            ["TENURE_SERVER", "TENURE_JOB_WAIT_TIMEOUT", "TENURE_UP_DATA", "TENURE_ENQUEUE_DEDUPE_KEY"]
        {
            assert!(seen.contains(name), "{name}");
        }
        // What a job finds in its environment must not steer the commands that it calls.
        for name in [
            "TENURE_SOCKET",
            "TENURE_WAIT",
            "TENURE_JOB_ID",
            "TENURE_KIND",
            "TENURE_ATTEMPT",
            "TENURE_PARENT_ID",
            "TENURE_RESULT",
        ] {
            assert!(!seen.contains(name), "{name}");
        }
    }

    #[test]
    fn global_flags_stand_before_or_behind_the_command() {
        for line in ["tenure -o json health", "tenure health -o json", "tenure health --output=json"] {
            assert_eq!(parse(line).unwrap().global.output, Format::Json, "{line}");
        }
        assert_eq!(
            parse("tenure job list --server localhost:1").unwrap().global.server.unwrap(),
            "localhost:1"
        );
    }

    #[test]
    fn a_context_is_typed_only_if_the_command_line_names_it() {
        for (line, typed) in [
            ("tenure --context prod job list", true),
            ("tenure job list --context=prod", true),
            ("tenure job list", false),
        ] {
            assert_eq!(parse(line).unwrap().global.context_is_typed, typed, "{line}");
        }
    }

    #[test]
    fn writes_are_told_from_reads_and_dry_runs() {
        for (line, writes) in [
            ("tenure apply f", true),
            ("tenure apply f --dry-run", false),
            ("tenure enqueue k", true),
            ("tenure enqueue --file f --dry-run", false),
            ("tenure job list", false),
            ("tenure job watch x", false),
            ("tenure job logs x -f", false),
            ("tenure job cancel x", true),
            ("tenure job delete x --dry-run", false),
            ("tenure kind pause k", true),
            ("tenure kind get k", false),
            ("tenure slot set s 3", true),
            ("tenure workflow submit f", true),
            ("tenure workflow submit f --dry-run", false),
            ("tenure workflow show w", false),
            ("tenure workflow requeue w 3", true),
            ("tenure node drain n", true),
            ("tenure node forget n --dry-run", false),
            ("tenure dead list", false),
            ("tenure dead purge --all", true),
            ("tenure dead requeue --all --dry-run", false),
            ("tenure health", false),
        ] {
            let Command::Ask(ask) = parse(line).unwrap().command else { panic!("{line} asks no server") };
            assert_eq!(ask.writes(), writes, "{line}");
        }
    }

    #[test]
    fn a_wrong_command_line_is_a_usage_error() {
        for line in [
            "tenure",
            "tenure nonsense",
            "tenure enqueue",
            "tenure enqueue k --need gpu",
            "tenure enqueue k --need gpu=0",
            "tenure enqueue k --delay soon",
            "tenure enqueue k --run-at tomorrow",
            "tenure enqueue k --delay 5s --run-at 2026-09-30T08:00:00Z",
            "tenure enqueue k --payload x --payload-file y",
            "tenure enqueue k --file jobs.jsonl",
            "tenure enqueue --file jobs.jsonl --priority 3",
            "tenure enqueue --file jobs.jsonl --run x",
            "tenure enqueue k --dry-run",
            "tenure enqueue k --priority 101",
            "tenure job get",
            "tenure job logs x --stdout --stderr",
            "tenure job logs x --attempt 0",
            "tenure slot set anthropic many",
            "tenure server info --config x.toml",
        ] {
            assert_eq!(parse(line).map(|_| ()).map_err(|error| error.exit_code()), Err(2), "{line}");
        }
    }

    #[test]
    fn negative_priorities_and_values_with_equal_signs_are_understood() {
        let line = "tenure enqueue k --priority -100 --label url=http://x/?a=b --need a=1 --need b=2";
        let Command::Ask(Ask::Enqueue(args)) = parse(line).unwrap().command else {
            panic!("another command")
        };
        assert_eq!(args.priority, Some(-100));
        assert_eq!(args.label, [("url".to_owned(), "http://x/?a=b".to_owned())]);
        assert_eq!(args.need, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
        assert!(parse("tenure job reprioritize 0198 -5").is_ok());
    }
}

//! `tenure attempt`: what a running command says of itself, and asks, through the socket of its attempt.
//!
//! Responsible for the calls of shell scripts; each is a process of one thread. Not responsible for anything that is kept:
//! the agent does that. Reading order: the commands here, `attempt/socket.rs` (the way to the agent), `attempt/children.rs`.

mod children;
mod socket;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tenure_proto::node::v1 as node;

use self::children::{EnqueueArgs, WaitArgs};
use self::socket::Agent;
use crate::args::{self, Global};
use crate::exit::{Exit, Failure};
use crate::human;
use crate::output::Output;

/// What a running command says and asks. The socket of its attempt is that of TENURE_SOCKET.
#[derive(Debug, Subcommand)]
pub(crate) enum AttemptCommand {
    /// Shows the running attempt.
    Get,
    /// Says how it gets on.
    Progress(ProgressArgs),
    /// Says what it used, such as tokens=1234. Added to what was said before.
    Usage(UsageArgs),
    /// Keeps bytes for the attempt that follows if this one fails, in the place of those before.
    Checkpoint(CheckpointArgs),
    /// Enqueues children, and prints their ids.
    Enqueue(Box<EnqueueArgs>),
    /// Waits for children, and shows how they ended. Exits 79 if the job has to detach instead.
    Wait(WaitArgs),
    /// Exits 0 while the lease lives, as far as this node knows, and 1 when it is lost; says if it was asked to wrap up.
    CheckLease,
    /// Says why it is about to fail: counts if the command then ends otherwise than with 0.
    Fail(FailArgs),
}

/// Arguments of `attempt progress`.
#[derive(Debug, Args)]
pub(crate) struct ProgressArgs {
    /// 0 to 100.
    #[arg(value_parser = percent)]
    percent: u32,
    /// For people.
    #[arg(default_value = "")]
    message: String,
}

/// Arguments of `attempt usage`.
#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// What and how much.
    #[arg(required = true, value_name = "COUNTER=AMOUNT", value_parser = counted)]
    counters: Vec<(String, u64)>,
}

/// Arguments of `attempt checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// The file with the bytes, at most 256 KiB; `-` reads stdin.
    #[arg(default_value = "-")]
    file: PathBuf,
}

/// Arguments of `attempt fail`.
#[derive(Debug, Args)]
pub(crate) struct FailArgs {
    /// Why, for people.
    reason: String,
    /// No further attempt would help: the job is dead at once.
    #[arg(long, conflicts_with_all = ["retry_after", "throttled"])]
    permanent: bool,
    /// Not to be tried again before this long.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    retry_after: Option<Duration>,
    /// A provider wants no more for that long: nothing that needs this fleet slot starts meanwhile.
    #[arg(long, value_name = "SLOT", requires = "retry_after")]
    throttled: Option<String>,
}

/// Speaks with the agent.
pub(crate) async fn run(command: AttemptCommand, global: &Global, output: &Output) -> Result<Exit, Failure> {
    let agent = Agent::of_environment(global.retry_for)?;
    match command {
        AttemptCommand::Get => get(&agent, output).await,
        AttemptCommand::Progress(ProgressArgs { percent, message }) => {
            let request = node::ReportProgressRequest { percent, message };
            agent.call(request, async |mut client, request| client.report_progress(request).await).await?;
            Ok(Exit::Ok)
        }
        AttemptCommand::Usage(args) => usage(args, &agent, output).await,
        AttemptCommand::Checkpoint(args) => checkpoint(&args, &agent).await,
        AttemptCommand::Enqueue(args) => children::enqueue(*args, &agent, output).await,
        AttemptCommand::Wait(args) => children::wait(args, &agent, output).await,
        AttemptCommand::CheckLease => check_lease(&agent, output).await,
        AttemptCommand::Fail(args) => fail(args, &agent).await,
    }
}

async fn get(agent: &Agent, output: &Output) -> Result<Exit, Failure> {
    let request = node::GetAttemptRequest {};
    let attempt = agent.call(request, async |mut client, request| client.get_attempt(request).await).await?;
    if output.is_data() {
        output.message(&attempt)?;
        return Ok(Exit::Ok);
    }
    let usage: Vec<String> =
        attempt.usage.iter().map(|(counter, amount)| format!("{counter}={amount}")).collect();
    for (name, value) in [
        ("job", attempt.job_id),
        ("kind", attempt.kind),
        ("attempt", attempt.attempt.to_string()),
        ("token", attempt.token.to_string()),
        ("idempotency_key", attempt.idempotency_key),
        ("tenant", attempt.tenant),
        ("parent", attempt.parent_id),
        ("node", attempt.node),
        ("usage", usage.join(" ")),
    ] {
        if !value.is_empty() {
            output.line(&format!("{name}: {value}"))?;
        }
    }
    Ok(Exit::Ok)
}

async fn usage(args: UsageArgs, agent: &Agent, output: &Output) -> Result<Exit, Failure> {
    let mut usage = BTreeMap::new();
    for (counter, amount) in args.counters {
        let sum: &mut u64 = usage.entry(counter).or_default();
        *sum = sum.saturating_add(amount);
    }
    // Under its id it is added once, however often it has to be said.
    let request = node::ReportUsageRequest { usage, report_id: tenure_client::new_job_id() };
    let sums = agent.call(request, async |mut client, request| client.report_usage(request).await).await?;
    if output.is_data() {
        output.message(&sums)?;
    }
    Ok(Exit::Ok)
}

async fn checkpoint(args: &CheckpointArgs, agent: &Agent) -> Result<Exit, Failure> {
    let read = if args.file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(&args.file)
    };
    let data = read.map_err(|source| Failure::Read { path: args.file.clone(), source })?;
    let request = node::SaveCheckpointRequest { data: data.into() };
    agent.call(request, async |mut client, request| client.save_checkpoint(request).await).await?;
    Ok(Exit::Ok)
}

async fn check_lease(agent: &Agent, output: &Output) -> Result<Exit, Failure> {
    let request = node::CheckLeaseRequest {};
    let lease = agent.call(request, async |mut client, request| client.check_lease(request).await).await?;
    let exit = if lease.live { Exit::Ok } else { Exit::Failed };
    if output.is_data() {
        output.message(&lease)?;
    } else if lease.live {
        let wrap_up = if lease.wrap_up { ", asked to wrap up" } else { "" };
        output.line(&format!("live for {}{wrap_up}", human::wire_length(lease.remaining.as_ref())))?;
    } else {
        output.line("lost")?;
    }
    Ok(exit)
}

async fn fail(args: FailArgs, agent: &Agent) -> Result<Exit, Failure> {
    let request = node::FailRequest {
        reason: args.reason,
        permanent: args.permanent,
        retry_after: args.retry_after.and_then(|length| length.try_into().ok()),
        throttled_slot: args.throttled.unwrap_or_default(),
    };
    agent.call(request, async |mut client, request| client.fail(request).await).await?;
    Ok(Exit::Ok)
}

/// A whole number, with or without its sign.
fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| *percent <= 100).ok_or_else(|| "it is a whole number from 0 to 100".to_owned())
}

/// `counter=amount`.
fn counted(text: &str) -> Result<(String, u64), String> {
    let (counter, amount) = args::pair(text).map_err(|_| "write COUNTER=AMOUNT".to_owned())?;
    let amount = amount.parse().map_err(|_| "the amount is a whole number".to_owned())?;
    Ok((counter, amount))
}

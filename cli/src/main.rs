//! `tenure`: server, node agent and command line in one binary.
//!
//! Responsible for: what a person or a script types, and how it ends. Not responsible for: anything that decides; the
//! server and the agent are libraries, the commands go through the client like everybody else.
//! Invariant: `shim` and `exec-stage` branch off before any thread or runtime exists.
//!
//! Reading order: `args` (the tree of commands), `exit` and `report` (how they end), `output`, then a file per noun.

mod agent;
mod apply;
mod args;
mod attempt;
mod certs;
mod clock;
mod completions;
mod config;
mod confirm;
mod context;
mod cron;
mod dead;
mod doctor;
mod enqueue;
mod exit;
mod health;
mod human;
mod inbox;
mod job;
mod json;
mod kind;
mod migrate;
mod node;
mod notify;
mod output;
mod part;
mod ready;
mod report;
mod server;
mod short;
mod signals;
mod slot;
mod target;
mod telemetry;
mod tenant;
mod up;
mod webhook;
mod workflow;
mod yaml;

use std::process::ExitCode;

use tenure_client::Client;
use tenure_server::config::Telemetry;
use tokio::runtime::{Builder, Runtime};

use args::{Ask, Cli, Command, Global};
use exit::{Exit, Failure};
use output::Output;
use server::{ServerArgs, ServerVerb};
use target::Target;
use telemetry::otlp::Exports;

fn main() -> ExitCode {
    // Shims too: they are told by their agent.
    #[cfg(feature = "failpoints")]
    let _points = fail::FailScenario::setup();
    // The processes that hold and become a job: no argument parser, no thread, no runtime before them.
    match std::env::args_os().nth(1).as_deref().and_then(|word| word.to_str()) {
        Some("shim") => return tenure_node_agent::shim::main(),
        Some("exec-stage") => return tenure_node_agent::exec_stage::main(),
        _ => {}
    }
    let Cli { global, command } = Cli::from_environment();
    let output = Output::new(&global);
    match run(command, &global, &output) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            report::failure(&failure, &output);
            failure.exit().into()
        }
    }
}

fn run(command: Command, global: &Global, output: &Output) -> Result<Exit, Failure> {
    match command {
        Command::Up(args) => staying("tenure", |telemetry| up::run(args, global.insecure, telemetry)),
        Command::Agent(args) => {
            let threads = agent::threads(std::env::var_os("TOKIO_WORKER_THREADS").is_some());
            staying_on(threads, "tenure-agent", |telemetry| agent::run(args, global, telemetry.traces))
        }
        Command::Server(ServerArgs { verb: Some(ServerVerb::Info), .. }) => {
            asking(Target::of(global)?, global, async |client| server::info(client, output).await)
        }
        Command::Server(args) => {
            staying("tenure-server", |telemetry| server::run(args, global.insecure, telemetry))
        }
        Command::Certs(command) => certs::run(command, output),
        Command::Config(command) => config::run(command, output),
        Command::Context(command) => context::run(command, global, output),
        Command::Completions(args) => completions::run(&args, output),
        Command::Migrate(command) => {
            telemetry::command()?;
            runtime(&mut Builder::new_current_thread())?.block_on(migrate::run(command, output))
        }
        Command::Attempt(command) => {
            let runtime = runtime(&mut Builder::new_current_thread())?;
            let outcome = runtime.block_on(attempt::run(command, global, output));
            // A read of stdin that nobody waits for any more would hold the process.
            runtime.shutdown_background();
            outcome
        }
        Command::Ask(ask) => {
            let target = Target::of(global)?;
            target.admit(&ask, global)?;
            asking(target, global, async |client| Box::pin(answer(ask, global, client, output)).await)
        }
    }
}

/// Runs a process that stays, on all cores.
fn staying<F: Future<Output = Result<Exit, Failure>>>(
    service: &'static str,
    run: impl FnOnce(Telemetry) -> F,
) -> Result<Exit, Failure> {
    staying_on(None, service, run)
}

/// Runs a process that stays: so many threads (none: as many as there are cores), logs for operators, spans and figures for
/// whom the environment names.
fn staying_on<F: Future<Output = Result<Exit, Failure>>>(
    threads: Option<usize>,
    service: &'static str,
    run: impl FnOnce(Telemetry) -> F,
) -> Result<Exit, Failure> {
    telemetry::daemon()?;
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    let runtime = runtime(&mut builder)?;
    let exports = {
        let _inside = runtime.enter();
        Exports::start(service)
    };
    let ended = runtime.block_on(run(exports.telemetry()));
    exports.flush(); // the runtime still carries the channel to the collector
    ended
}

/// Runs a command that asks a server: one thread, and a word on stderr only if something is amiss.
fn asking(
    target: Target,
    global: &Global,
    ask: impl AsyncFnOnce(&Client) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    telemetry::command()?;
    let runtime = runtime(&mut Builder::new_current_thread())?;
    let outcome = runtime.block_on(async {
        let client = target.client(global)?;
        ask(&client).await
    });
    // A read of stdin that nobody waits for any more would hold the process.
    runtime.shutdown_background();
    outcome
}

fn runtime(builder: &mut Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built.map_err(|source| Failure::Component { what: "no runtime", source: source.into() })
}

async fn answer(ask: Ask, global: &Global, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match ask {
        Ask::Apply(args) => apply::run(args, client, output).await,
        Ask::Enqueue(args) => enqueue::run(args, global.retry_for, client, output).await,
        Ask::Job(command) => job::run(command, client, output).await,
        Ask::Kind(command) => kind::run(command, client, output).await,
        Ask::Slot(command) => slot::run(command, client, output).await,
        Ask::Cron(command) => cron::run(command, client, output).await,
        Ask::Webhook(command) => webhook::run(command, client, output).await,
        Ask::Workflow(command) => workflow::run(command, client, output).await,
        Ask::Tenant(command) => tenant::run(command, client, output).await,
        Ask::Inbox(command) => inbox::run(command, client, output).await,
        Ask::Node(command) => node::run(command, client, output).await,
        Ask::Dead(command) => dead::run(command, client, output).await,
        Ask::Health(args) => health::run(args, client, output).await,
        Ask::Doctor => doctor::run(client, output).await,
    }
}

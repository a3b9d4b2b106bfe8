//! `tenure enqueue`: one job, its id on stdout; or many, a line each.
//!
//! Reading order: one job here, `enqueue/many.rs` (the lines of a file), `enqueue/lines.rs`, `enqueue/tally.rs`.

pub(crate) mod lines;
mod many;
mod tally;

use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;
use tenure_client::proto::{EnqueueResponse, Job, Requirement};
use tenure_client::{Client, Enqueued, NewJob};
use tenure_proto::trace_context::{self, Traceparent};

use crate::args;
use crate::exit::{Exit, Failure};
use crate::job;
use crate::output::{Output, note};
use crate::short;

/// What describes a single job, and goes with no file of many.
const OF_ONE_JOB: [&str; 22] = [
    "kind",
    "stdin",
    "payload",
    "payload_file",
    "content_type",
    "dedupe_key",
    "concurrency_key",
    "id",
    "priority",
    "delay",
    "run_at",
    "stale_after",
    "hard_time_limit",
    "soft_time_limit",
    "label",
    "selector",
    "prefer",
    "need",
    "parent",
    "keep_on_parent_cancel",
    "cancel_on_parent_lost",
    "tenant",
];

/// Arguments of `enqueue`.
#[derive(Debug, Args)]
pub(crate) struct EnqueueArgs {
    /// What kind of work it is.
    #[arg(required_unless_present = "file")]
    kind: Option<String>,
    /// `-` reads the payload from stdin.
    #[arg(value_name = "-", value_parser = ["-"], hide_possible_values = true, conflicts_with_all = ["payload", "payload_file"])]
    stdin: Option<String>,
    /// The payload itself.
    #[arg(long, value_name = "TEXT", conflicts_with = "payload_file")]
    payload: Option<String>,
    /// A file with the payload; `-` reads stdin.
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// Many jobs: a file with one on each line, as JSON of JobSpec; `-` reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_ONE_JOB)]
    file: Option<PathBuf>,
    /// Goes on with a run of a file that broke off: what it stored is not stored again.
    #[arg(long, value_name = "RUN", requires = "file", conflicts_with = "kind", value_parser = lines::run_id)]
    run: Option<uuid::Uuid>,
    /// Checks the file only.
    #[arg(long, requires = "file", conflicts_with = "kind")]
    dry_run: bool,
    /// The media type of the payload. Default: application/octet-stream.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// The identity of the business work: the first job with it answers for all others.
    #[arg(long, value_name = "KEY")]
    dedupe_key: Option<String>,
    /// What it shares with jobs of its kind that may not all run at once, as the kind's `concurrency` says.
    #[arg(long, value_name = "KEY")]
    concurrency_key: Option<String>,
    /// The id of the job, a UUID v7; the same id is the same call. Default: a fresh one.
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
    /// −100 to 100, higher first. Default: the kind's.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-100..=100))]
    pub(crate) priority: Option<i32>,
    /// Not to be started before this long after now.
    #[arg(long, value_name = "DURATION", value_parser = args::duration, conflicts_with = "run_at")]
    delay: Option<Duration>,
    /// Not to be started before this instant.
    #[arg(long, value_name = "INSTANT", value_parser = args::instant)]
    run_at: Option<SystemTime>,
    /// Expires if not started within this long.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    stale_after: Option<Duration>,
    /// Kills each attempt after this long; may only shorten the kind's.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    hard_time_limit: Option<Duration>,
    /// Asks each attempt to wrap up after this long; may only shorten the kind's, and is below the hard limit.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    soft_time_limit: Option<Duration>,
    /// A label, for people and filters. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = args::pair)]
    pub(crate) label: Vec<(String, String)>,
    /// What a node label must be: os=linux, os!=linux, 'gpu in (a100, h100)', 'gpu not in (a100, h100)', gpu (has it) or
    /// '!gpu'. May be given several times, once for a label.
    #[arg(long, value_name = "REQUIREMENT", value_parser = args::requirement)]
    selector: Vec<Requirement>,
    /// Which nodes it would rather have, in the words of --selector. May be given several times; the first counts most.
    #[arg(long, value_name = "REQUIREMENT", value_parser = args::requirement)]
    prefer: Vec<Requirement>,
    /// Units of a slot, instead of what the kind needs. May be given several times.
    #[arg(long, value_name = "SLOT=UNITS", value_parser = args::need)]
    pub(crate) need: Vec<(String, u32)>,
    /// A live job that this one belongs to.
    #[arg(long, value_name = "JOB")]
    parent: Option<String>,
    /// It goes on when its parent is cancelled; else it is cancelled, too.
    #[arg(long, requires = "parent")]
    keep_on_parent_cancel: bool,
    /// It is cancelled when an execution of its parent is lost; else it goes on.
    #[arg(long, requires = "parent")]
    cancel_on_parent_lost: bool,
    /// Whose work it is.
    #[arg(long)]
    tenant: Option<String>,
    /// The W3C traceparent that its attempts are linked to. Default: that of TRACEPARENT, with TRACESTATE, if the
    /// environment has a well-formed one.
    #[arg(long, value_name = "TRACEPARENT")]
    traceparent: Option<String>,
    /// The W3C tracestate beside it.
    #[arg(long, value_name = "TRACESTATE", requires = "traceparent")]
    tracestate: Option<String>,
    /// Waits until the job is final; exits 1 if it did not succeed.
    #[arg(long, conflicts_with = "file")]
    wait: bool,
    /// Waits no longer than this; exits 124 then.
    #[arg(long, value_name = "DURATION", value_parser = args::duration, requires = "wait")]
    timeout: Option<Duration>,
}

impl EnqueueArgs {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        !self.dry_run
    }
}

/// Enqueues the job, and waits for it if asked.
pub(crate) async fn run(
    args: Box<EnqueueArgs>,
    retry_for: Duration,
    client: &Client,
    output: &Output,
) -> Result<Exit, Failure> {
    if let Some(file) = args.file {
        let options = many::Options { file, run: args.run, dry_run: args.dry_run, retry_for };
        return many::run(options, client, output).await;
    }
    let mut args = args;
    if let Some(parent) = &mut args.parent {
        *parent = short::whole(client, parent).await?;
    }
    let (wait, timeout) = (args.wait, args.timeout);
    let new = describe(args)?;
    let enqueued = client.enqueue(&new).await.inspect_err(|error| {
        if matches!(error, tenure_client::Error::Unavailable { .. }) {
            note(format!(
                "nobody knows whether it was stored: with --id {} the same command is the same job",
                new.id()
            ));
        }
    })?;
    if !output.is_data() {
        output.line(&enqueued.job.id)?;
        if enqueued.deduplicated && !output.is_name() {
            note(format!(
                "deduplicated: this job was there already and is {}",
                job::state_word(&enqueued.job)
            ));
        }
    }
    if !wait {
        return print(output, enqueued, Exit::Ok);
    }
    let waited = client.wait(&enqueued.job.id, timeout).await?;
    let exit = job::verdict(&waited);
    if !output.is_data() {
        note(job::end_sentence(&waited));
    }
    print(output, Enqueued { job: waited.job, ..enqueued }, exit)
}

fn print(output: &Output, enqueued: Enqueued, exit: Exit) -> Result<Exit, Failure> {
    if output.is_data() {
        let Enqueued { job, deduplicated } = enqueued;
        output.message(&EnqueueResponse { job: Some::<Job>(job), deduplicated })?;
    }
    Ok(exit)
}

fn describe(args: Box<EnqueueArgs>) -> Result<NewJob, Failure> {
    let payload = payload(&args)?;
    let mut job = NewJob::new(args.kind.unwrap_or_default());
    if let Some(payload) = payload {
        job = job.payload(payload);
    }
    if let Some(id) = args.id {
        job = job.with_id(id);
    }
    if let Some(content_type) = args.content_type {
        job = job.content_type(content_type);
    }
    if let Some(key) = args.dedupe_key {
        job = job.dedupe_key(key);
    }
    if let Some(key) = args.concurrency_key {
        job = job.concurrency_key(key);
    }
    if let Some(priority) = args.priority {
        job = job.priority(priority);
    }
    if let Some(delay) = args.delay {
        job = job.delay(delay);
    }
    if let Some(at) = args.run_at {
        job = job.run_at(at);
    }
    if let Some(after) = args.stale_after {
        job = job.stale_after(after);
    }
    if let Some(limit) = args.hard_time_limit {
        job = job.hard_time_limit(limit);
    }
    if let Some(limit) = args.soft_time_limit {
        job = job.soft_time_limit(limit);
    }
    if let Some(parent) = args.parent {
        job = job.parent(parent);
    }
    if args.keep_on_parent_cancel {
        job = job.keep_on_parent_cancel();
    }
    if args.cancel_on_parent_lost {
        job = job.cancel_on_parent_lost();
    }
    if let Some(tenant) = args.tenant {
        job = job.tenant(tenant);
    }
    let trace = args.traceparent.zip(Some(args.tracestate));
    if let Some((parent, state)) = trace.or_else(|| ambient_trace(|name| std::env::var(name).ok())) {
        job = job.traceparent(parent).tracestate(state.unwrap_or_default());
    }
    job = args.label.into_iter().fold(job, |job, (name, value)| job.label(name, value));
    job = args.selector.into_iter().fold(job, NewJob::require);
    job = args.prefer.into_iter().fold(job, NewJob::prefer);
    Ok(args.need.into_iter().fold(job, |job, (slot, amount)| job.need(slot, amount)))
}

/// The trace that this command runs in, by the variables that tracing tools set. What is malformed there was not meant
/// for us, so that it is ignored; what a flag names the server judges.
fn ambient_trace(own: impl Fn(&str) -> Option<String>) -> Option<(String, Option<String>)> {
    let parent = own("TRACEPARENT").filter(|parent| !parent.is_empty())?;
    if let Err(problem) = Traceparent::parse(&parent) {
        note(format!("TRACEPARENT of the environment {problem}; it is ignored"));
        return None;
    }
    let state = own("TRACESTATE").filter(|state| trace_context::check_state(state).is_ok());
    Some((parent, state))
}

fn payload(args: &EnqueueArgs) -> Result<Option<Vec<u8>>, Failure> {
    if let Some(text) = &args.payload {
        return Ok(Some(text.clone().into_bytes()));
    }
    let stdin = args.stdin.as_ref().map(PathBuf::from);
    let Some(path) = stdin.or_else(|| args.payload_file.clone()) else { return Ok(None) };
    let read = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(&path)
    };
    read.map(Some).map_err(|source| Failure::Read { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_of_the_environment_is_taken_if_it_is_one() {
        const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let of = |parent: &'static str, state: &'static str| {
            ambient_trace(|name| Some(if name == "TRACEPARENT" { parent } else { state }.to_owned()))
        };
        assert_eq!(of(PARENT, "a=1"), Some((PARENT.to_owned(), Some("a=1".to_owned()))));
        assert_eq!(of(PARENT, "nothing"), Some((PARENT.to_owned(), None)));
        assert_eq!(of("00-ab-cd-01", "a=1"), None);
        assert_eq!(of("", ""), None);
        assert_eq!(ambient_trace(|_| None), None);
    }
}

//! Children of the running job: enqueueing them, and waiting for them.
//!
//! Invariant: with a step, the ids of children are those of (job, step, place), so that an attempt that comes after another
//! finds them there; without one each call makes new ones, and a call that is repeated makes them once.

use std::io::{BufRead as _, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use prost::Message as _;
use tenure_client::{NewJob, Refusal};
use tenure_proto::limits;
use tenure_proto::node::v1 as node;
use tenure_proto::v1::{EnqueueBatchItem, EnqueueBatchResponse, JobSpec, WaitPolicy, enqueue_batch_item};
use uuid::Uuid;

use super::socket::Agent;
use crate::args;
use crate::enqueue::lines::{Line, Lines};
use crate::exit::{Exit, Failure, of_refusal};
use crate::output::{Output, Table, note};
use crate::report;

/// Arguments of `attempt enqueue`.
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
    /// Many children: a file with one on each line, as JSON of JobSpec; `-` reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "stdin", "payload", "payload_file", "content_type", "dedupe_key", "priority", "delay", "hard_time_limit", "label", "need", "keep_on_parent_cancel", "cancel_on_parent_lost"])]
    file: Option<PathBuf>,
    /// What the job does here. An attempt that comes after another and names the same step finds the children that are
    /// there, in their order, instead of new ones. Once for each call of a job.
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
    /// The media type of the payload. Default: application/octet-stream.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// The identity of the business work: the first job with it answers for all others.
    #[arg(long, value_name = "KEY")]
    dedupe_key: Option<String>,
    /// −100 to 100, higher first. Default: one more than this job's.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-100..=100))]
    priority: Option<i32>,
    /// Not to be started before this long after now.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    delay: Option<Duration>,
    /// Kills each attempt after this long; may only shorten the kind's.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    hard_time_limit: Option<Duration>,
    /// A label, for people and filters. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = args::pair)]
    label: Vec<(String, String)>,
    /// Units of a slot, instead of what the kind needs. May be given several times.
    #[arg(long, value_name = "SLOT=UNITS", value_parser = args::need)]
    need: Vec<(String, u32)>,
    /// It goes on when this job is cancelled; else it is cancelled, too.
    #[arg(long)]
    keep_on_parent_cancel: bool,
    /// It is cancelled when an execution of this job is lost; else it goes on.
    #[arg(long)]
    cancel_on_parent_lost: bool,
}

/// Arguments of `attempt wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Children of this job; `-` reads their ids from stdin, one a line.
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Until one has succeeded, or none can any more.
    #[arg(long, conflicts_with_all = ["at_least", "first_failure"])]
    any: bool,
    /// Until so many have succeeded, or so many cannot any more.
    #[arg(long, value_name = "COUNT", conflicts_with = "first_failure", value_parser = clap::value_parser!(u32).range(1..))]
    at_least: Option<u32>,
    /// Until one has ended otherwise than well, or all have ended.
    #[arg(long)]
    first_failure: bool,
    /// No longer than this: then with the ends that there are.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    max_wait: Option<Duration>,
}

/// Enqueues one child, or the lines of a file.
pub(super) async fn enqueue(args: EnqueueArgs, agent: &Agent, output: &Output) -> Result<Exit, Failure> {
    let step = args.step.clone();
    let mut specs = match &args.file {
        Some(file) => read(file).await?,
        None => vec![one(args)?],
    };
    name(&mut specs, step.as_deref(), agent).await?;
    let mut items: Vec<EnqueueBatchItem> = Vec::with_capacity(specs.len());
    for batch in batches(specs) {
        let asked = items.len() + batch.len();
        let request = node::AttemptServiceEnqueueChildrenRequest { jobs: batch };
        // Their ids are made already: it is the same call, however often it arrives.
        let called = agent.call(request, async |mut client, request| client.enqueue_children(request).await);
        match called.await {
            Ok(answer) => items.extend(answer.items),
            Err(failure) => {
                // Those before it are stored, and whoever asked has to know them.
                if !items.is_empty() {
                    told(items, output)?;
                }
                return Err(failure);
            }
        }
        items.resize_with(asked, EnqueueBatchItem::default);
    }
    told(items, output)
}

/// Says what became of each: the ids of those that are stored, in order.
fn told(items: Vec<EnqueueBatchItem>, output: &Output) -> Result<Exit, Failure> {
    let (all, mut failed, mut exit) = (items.len(), 0, Exit::Ok);
    for (index, item) in items.iter().enumerate() {
        match &item.answer {
            Some(enqueue_batch_item::Answer::Enqueued(enqueued)) => {
                if let Some(job) = enqueued.job.as_ref().filter(|_| !output.is_data()) {
                    output.line(&job.id)?;
                }
            }
            Some(enqueue_batch_item::Answer::Refused(status)) => {
                let refusal = Refusal::from_item(status);
                if failed == 0 {
                    exit = of_refusal(&refusal);
                }
                failed += 1;
                let failure = Failure::Client(tenure_client::Error::from(Box::new(refusal)));
                if all == 1 && !output.is_data() {
                    return Err(failure);
                }
                report::one(&format!("child {index}"), &failure);
            }
            None => {
                if failed == 0 {
                    exit = Exit::Failed;
                }
                failed += 1;
                note(format!("child {index}: the server said nothing of it"));
            }
        }
    }
    if output.is_data() {
        output.message(&EnqueueBatchResponse { items })?;
    }
    if failed > 0 { Err(Failure::Some { failed, all, exit }) } else { Ok(Exit::Ok) }
}

/// Waits for children, and shows how they ended.
pub(super) async fn wait(args: WaitArgs, agent: &Agent, output: &Output) -> Result<Exit, Failure> {
    let (policy, at_least) = match (args.any, args.at_least, args.first_failure) {
        (true, ..) => (WaitPolicy::Any, 0),
        (_, Some(count), _) => (WaitPolicy::AtLeast, count),
        (.., true) => (WaitPolicy::FirstFailure, 0),
        _ => (WaitPolicy::All, 0),
    };
    let job_ids = named(args.jobs)?;
    let terms = node::WaitTerms {
        job_ids: job_ids.clone(),
        policy: policy.into(),
        at_least,
        max_wait: args.max_wait.and_then(|length| length.try_into().ok()),
    };
    // However often it is asked, it is one wait.
    let request = node::WaitForJobsRequest { terms: Some(terms), wait_id: Uuid::new_v4().to_string() };
    let waited = agent.wait(request, async |mut client, request| client.wait_for_jobs(request).await).await?;
    match waited.answer() {
        node::WaitAnswer::Go => show(job_ids, agent, output).await,
        node::WaitAnswer::MustDetach | node::WaitAnswer::Unspecified | node::WaitAnswer::Parked => {
            note("the job may not stay: leave what it needs in the file of TENURE_WAIT, and exit with 79");
            Ok(Exit::MustDetach)
        }
    }
}

async fn show(job_ids: Vec<String>, agent: &Agent, output: &Output) -> Result<Exit, Failure> {
    let mut all = node::AttemptServiceGetChildResultsResponse::default();
    for chunk in job_ids.chunks(limits::BATCH_JOBS) {
        let before = u32::try_from(all.results.len()).unwrap_or(u32::MAX);
        let mut from_index = 0;
        loop {
            let request = node::AttemptServiceGetChildResultsRequest { job_ids: chunk.to_vec(), from_index };
            let page =
                agent.call(request, async |mut client, request| client.get_child_results(request).await);
            let mut page = page.await?;
            // A table shows no bytes.
            page.results.iter_mut().for_each(|result| result.index += before);
            all.results.extend(page.results);
            from_index = page.next_index;
            if from_index == 0 {
                break;
            }
        }
    }
    if output.is_data() {
        output.message(&all)?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["INDEX", "JOB", "STATE", "ERROR"]);
    for result in &all.results {
        let state = result.state().as_str_name().trim_start_matches("JOB_STATE_").to_ascii_lowercase();
        let state = if state == "unspecified" { "missing".to_owned() } else { state };
        let error = match &result.answer {
            Some(node::input_result::Answer::Error(error)) => error.as_str(),
            Some(node::input_result::Answer::Result(_)) | None => "",
        };
        let index = crate::output::Field::figure(result.index);
        table.row([index, result.job_id.as_str().into(), state.into(), error.into()]);
    }
    output.table(&table)?;
    Ok(Exit::Ok)
}

fn named(jobs: Vec<String>) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for job in jobs {
        if job != "-" {
            all.push(job);
            continue;
        }
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|source| Failure::Read { path: "-".into(), source })?;
            all.extend(Some(line.trim().to_owned()).filter(|line| !line.is_empty()));
        }
    }
    Ok(all)
}

async fn read(file: &std::path::Path) -> Result<Vec<JobSpec>, Failure> {
    let failed = |source| Failure::Read { path: file.to_owned(), source };
    let (mut lines, _) = Lines::open(file).await.map_err(failed)?;
    let mut specs = Vec::new();
    while let Some(Line { number, job }) = lines.next().await.map_err(failed)? {
        let job = job.map_err(|problem| Failure::Config {
            what: format!("line {number} of {}", file.display()),
            source: problem.into(),
        })?;
        specs.push(*job);
    }
    if specs.is_empty() {
        return Err(Failure::Usage(format!("{} has no line", file.display())));
    }
    Ok(specs)
}

fn one(args: EnqueueArgs) -> Result<JobSpec, Failure> {
    let payload = match (&args.payload, &args.stdin, &args.payload_file) {
        (Some(text), ..) => Some(text.clone().into_bytes()),
        (None, None, None) => None,
        (None, None, Some(path)) if path.as_os_str() != "-" => {
            Some(std::fs::read(path).map_err(|source| Failure::Read { path: path.clone(), source })?)
        }
        (None, ..) => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|source| Failure::Read { path: "-".into(), source })?;
            Some(bytes)
        }
    };
    let mut job = NewJob::new(args.kind.unwrap_or_default());
    if let Some(payload) = payload {
        job = job.payload(payload);
    }
    if let Some(content_type) = args.content_type {
        job = job.content_type(content_type);
    }
    if let Some(key) = args.dedupe_key {
        job = job.dedupe_key(key);
    }
    if let Some(priority) = args.priority {
        job = job.priority(priority);
    }
    if let Some(delay) = args.delay {
        job = job.delay(delay);
    }
    if let Some(limit) = args.hard_time_limit {
        job = job.hard_time_limit(limit);
    }
    if args.keep_on_parent_cancel {
        job = job.keep_on_parent_cancel();
    }
    if args.cancel_on_parent_lost {
        job = job.cancel_on_parent_lost();
    }
    job = args.label.into_iter().fold(job, |job, (name, value)| job.label(name, value));
    job = args.need.into_iter().fold(job, |job, (slot, amount)| job.need(slot, amount));
    Ok(JobSpec { job_id: String::new(), ..job.spec().clone() })
}

/// Gives each its id, unless it has one.
async fn name(specs: &mut [JobSpec], step: Option<&str>, agent: &Agent) -> Result<(), Failure> {
    let parent = match step {
        Some(_) => {
            let request = node::GetAttemptRequest {};
            let attempt = agent.call(request, async |mut client, request| client.get_attempt(request).await);
            Uuid::try_parse(&attempt.await?.job_id).ok()
        }
        None => None,
    };
    for (index, spec) in (0..).zip(specs).filter(|(_, spec)| spec.job_id.is_empty()) {
        spec.job_id = match (parent, step) {
            (Some(parent), Some(step)) => tenure_client::child_id(parent, step, index).to_string(),
            _ => tenure_client::new_job_id(),
        };
    }
    Ok(())
}

fn batches(specs: Vec<JobSpec>) -> Vec<Vec<JobSpec>> {
    let mut all = Vec::new();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for spec in specs {
        let size = spec.encoded_len() + 8;
        if batch.len() >= limits::BATCH_JOBS || (bytes + size > limits::BATCH_BYTES && !batch.is_empty()) {
            all.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push(spec);
    }
    all.extend(Some(batch).filter(|batch| !batch.is_empty()));
    all
}

#[cfg(test)]
mod tests {
    use tenure_proto::v1::Payload;

    use super::*;

    #[test]
    fn batches_stay_below_a_message_and_a_thousand_jobs() {
        let spec = |bytes| JobSpec {
            payload: Some(Payload { data: vec![0; bytes].into(), content_type: String::new() }),
            ..JobSpec::default()
        };
        let sizes = |specs| batches(specs).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(vec![spec(0); 2_001]), [1_000, 1_000, 1]);
        assert_eq!(sizes(vec![spec(256 * 1024); 5]), [2, 2, 1]);
        assert_eq!(sizes(Vec::new()), [0; 0]);
    }
}

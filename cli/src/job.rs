//! `tenure job`: single jobs after their enqueue.
//!
//! Reading order: the verbs here, `job/show.rs` (tables), `job/explain.rs` (why not yet),
//! `job/watch.rs`, `job/logs.rs`.

mod explain;
mod logs;
mod result;
mod show;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use tenure_client::proto::{
    DeleteJobResponse, GetJobResponse, Job, JobState, ListAttemptsResponse, ListJobsRequest,
    ListJobsResponse, WaitJobResponse,
};
use tenure_client::{Client, Waited};

use crate::exit::{Exit, Failure};
use crate::output::{Output, note};
use crate::{args, clock, human, report, short};

/// Jobs shown by `list` unless the caller asks for more.
const LIST_LIMIT: usize = 50;
/// Jobs asked for in one page.
const PAGE: i32 = 500;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Jobs, newest first.
    List(ListArgs),
    /// One job.
    Get {
        /// Its id.
        job: String,
    },
    /// Prints a job as it stands, and again at each change until it is final; exits as wait does.
    Watch {
        /// Its id.
        job: String,
        /// Watches no longer than this; exits 124 then. Default: as long as it takes.
        #[arg(long, value_name = "DURATION", value_parser = args::duration)]
        timeout: Option<Duration>,
    },
    /// Waits until jobs are final; exits 1 if one did not succeed, 124 if the wait ran out.
    Wait {
        /// Their ids.
        #[arg(required = true)]
        jobs: Vec<String>,
        /// For all of them together. Default: as long as it takes.
        #[arg(long, value_name = "DURATION", value_parser = args::duration)]
        timeout: Option<Duration>,
    },
    /// Why a job does not run yet, and what would have to change.
    Explain {
        /// Its id.
        job: String,
    },
    /// Asks for the end of jobs. A running one is told to stop.
    Cancel {
        /// Their ids.
        #[arg(required = true)]
        jobs: Vec<String>,
        /// Kept with the job.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Takes dead or cancelled jobs back to their queue, as a new round.
    Requeue {
        /// Their ids.
        #[arg(required = true)]
        jobs: Vec<String>,
        /// Also frees a job whose last processes are not known to be gone.
        #[arg(long)]
        force: bool,
    },
    /// Changes the priority of a job that is not final.
    Reprioritize {
        /// Its id.
        job: String,
        /// −100 to 100, higher first.
        #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-100..=100))]
        priority: i32,
    },
    /// The result of a succeeded job, as it is.
    Result {
        /// Its id.
        job: String,
        /// Writes it to a file instead of stdout.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Every ended execution of a job.
    Attempts {
        /// Its id.
        job: String,
    },
    /// What the executions of a job print: live from the node of the one that runs, else the end that was kept.
    Logs(logs::LogsArgs),
    /// Removes final jobs with payload, attempts and result.
    Delete {
        /// Their ids.
        #[arg(required = true)]
        jobs: Vec<String>,
        /// Checks only.
        #[arg(long)]
        dry_run: bool,
    },
}

/// Filters of `list`, and-ed.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only jobs of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Only jobs in this state. May be given several times.
    #[arg(long, value_enum)]
    state: Vec<State>,
    /// Only jobs of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only jobs with this dedupe key.
    #[arg(long, value_name = "KEY")]
    dedupe_key: Option<String>,
    /// Only children of this job.
    #[arg(long, value_name = "JOB")]
    parent: Option<String>,
    /// Only members of this workflow.
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// Only jobs whose newest execution is or was on this node.
    #[arg(long)]
    node: Option<String>,
    /// Shows at most this many.
    #[arg(long, default_value_t = LIST_LIMIT)]
    limit: usize,
    /// Shows all of them.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

/// The states of a job.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum State {
    Scheduled,
    Blocked,
    Queued,
    Running,
    Waiting,
    Succeeded,
    Dead,
    Cancelled,
    Expired,
}

impl From<State> for JobState {
    fn from(state: State) -> Self {
        match state {
            State::Scheduled => Self::Scheduled,
            State::Blocked => Self::Blocked,
            State::Queued => Self::Queued,
            State::Running => Self::Running,
            State::Waiting => Self::Waiting,
            State::Succeeded => Self::Succeeded,
            State::Dead => Self::Dead,
            State::Cancelled => Self::Cancelled,
            State::Expired => Self::Expired,
        }
    }
}

impl JobCommand {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::List(_)
            | Self::Get { .. }
            | Self::Watch { .. }
            | Self::Wait { .. }
            | Self::Explain { .. }
            | Self::Result { .. }
            | Self::Attempts { .. }
            | Self::Logs(_) => false,
            Self::Cancel { .. } | Self::Requeue { .. } | Self::Reprioritize { .. } => true,
            Self::Delete { dry_run, .. } => !dry_run,
        }
    }
}

/// Runs one verb.
pub(crate) async fn run(command: JobCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match command {
        JobCommand::List(args) => return list(args, client, output).await,
        JobCommand::Get { job } => {
            let job = client.get(&short::whole(client, &job).await?).await?;
            let answer = GetJobResponse { job: Some(job.clone()) };
            output.show(&answer, [job.id.as_str()], || output.table(&show::details(&job, output)))?;
        }
        JobCommand::Wait { jobs, timeout } => return wait(&jobs, timeout, client, output).await,
        JobCommand::Watch { job, timeout } => {
            return watch::run(&short::whole(client, &job).await?, timeout, client, output).await;
        }
        JobCommand::Explain { job } => {
            let job = short::whole(client, &job).await?;
            let explanation = client.explain(&job).await?;
            output.show(&explanation, [job.as_str()], || explain::print(&explanation, output))?;
        }
        JobCommand::Cancel { jobs, reason } => {
            return each(&jobs, client, output, async |id| {
                let answer = client.cancel(id, &reason).await?;
                let job = answer.job.clone().unwrap_or_default();
                let told = job.cancel_requested && job.state() == JobState::Running;
                let sentence = match (answer.changed, told) {
                    (true, true) => format!("{id}: told to stop"),
                    (true, false) => format!("{id}: cancelled"),
                    (false, true) => format!("{id}: was told to stop already"),
                    (false, false) => format!("{id}: is {} already", state_word(&job)),
                };
                output.did(&answer, id, sentence)
            })
            .await;
        }
        JobCommand::Requeue { jobs, force } => {
            return each(&jobs, client, output, async |id| {
                let answer = client.requeue(id, force).await?;
                let job = answer.job.clone().unwrap_or_default();
                let sentence = if answer.changed {
                    format!("{id}: {} again, round {}", state_word(&job), job.round)
                } else {
                    format!("{id}: is {} already", state_word(&job))
                };
                output.did(&answer, id, sentence)
            })
            .await;
        }
        JobCommand::Reprioritize { job, priority } => {
            let job = short::whole(client, &job).await?;
            let answer = client.reprioritize(&job, priority).await?;
            let verb = if answer.changed { "has now" } else { "had already" };
            output.did(&answer, &job, format!("{job} {verb} priority {priority}"))?;
        }
        JobCommand::Result { job, out } => {
            return result::show(&short::whole(client, &job).await?, out, client, output).await;
        }
        JobCommand::Attempts { job } => {
            let attempts = client.attempts(&short::whole(client, &job).await?).await?;
            let tokens: Vec<String> = attempts.iter().map(|attempt| attempt.token.to_string()).collect();
            let answer = ListAttemptsResponse { attempts, next_page_token: String::new() };
            output.show(&answer, tokens.iter().map(String::as_str), || {
                if answer.attempts.is_empty() {
                    note("no execution of it has ended yet");
                    return Ok(());
                }
                output.table(&show::attempts(&answer.attempts, output))
            })?;
        }
        JobCommand::Logs(args) => {
            return logs::run(&short::whole(client, &args.job).await?, &args, client, output).await;
        }
        JobCommand::Delete { jobs, dry_run } => {
            return each(&jobs, client, output, async |id| {
                let job = client.delete(id, dry_run).await?;
                let verb = if dry_run { "would be deleted (--dry-run)" } else { "deleted" };
                output.did(&DeleteJobResponse { job: Some(job) }, id, format!("{id}: {verb}"))
            })
            .await;
        }
    }
    Ok(Exit::Ok)
}

/// Does the same to each job; one that fails keeps none of the others from their turn.
async fn each(
    ids: &[String],
    client: &Client,
    output: &Output,
    act: impl AsyncFn(&str) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let [id] = ids else {
        let mut failures = Vec::new();
        for id in ids {
            let done = match short::whole(client, id).await {
                Ok(whole) => act(&whole).await,
                Err(failure) => Err(failure),
            };
            match done {
                Ok(()) => {}
                Err(failure @ Failure::Output(_)) => return Err(failure),
                Err(failure) => {
                    if output.is_data() {
                        report::failure(&failure, output);
                    } else {
                        report::one(id, &failure);
                    }
                    failures.push(failure.exit());
                }
            }
        }
        return match failures.first() {
            Some(first) => Err(Failure::Some { failed: failures.len(), all: ids.len(), exit: *first }),
            None => Ok(Exit::Ok),
        };
    };
    act(&short::whole(client, id).await?).await.map(|()| Exit::Ok)
}

async fn list(args: ListArgs, client: &Client, output: &Output) -> Result<Exit, Failure> {
    let limit = if args.all { usize::MAX } else { args.limit };
    let filter = ListJobsRequest {
        kind: args.kind.unwrap_or_default(),
        states: args.state.into_iter().map(|state| JobState::from(state).into()).collect(),
        tenant: args.tenant.unwrap_or_default(),
        dedupe_key: args.dedupe_key.unwrap_or_default(),
        parent_id: match args.parent {
            Some(parent) => short::whole(client, &parent).await?,
            None => String::new(),
        },
        workflow_id: args.workflow.unwrap_or_default(),
        node: args.node.unwrap_or_default(),
        page_size: i32::try_from(limit).unwrap_or(PAGE).clamp(1, PAGE),
        ..ListJobsRequest::default()
    };
    // One more than asked for tells whether there are more.
    let mut jobs = client.list(filter).take(limit.saturating_add(1)).await?;
    let more = jobs.len() > limit;
    jobs.truncate(limit);
    let answer = ListJobsResponse { jobs, next_page_token: String::new() };
    output.show(&answer, answer.jobs.iter().map(|job| job.id.as_str()), || {
        if answer.jobs.is_empty() {
            note("no such jobs");
            return Ok(());
        }
        output.table(&show::list(&answer.jobs, output))
    })?;
    if more {
        note(format!("the first {limit}; --limit or --all shows more"));
    }
    Ok(Exit::Ok)
}

async fn wait(
    ids: &[String],
    timeout: Option<Duration>,
    client: &Client,
    output: &Output,
) -> Result<Exit, Failure> {
    let deadline = timeout.map(clock::after);
    let mut worst = Exit::Ok;
    // A slip in one of them is told before anything is waited for.
    let mut whole = Vec::with_capacity(ids.len());
    for id in ids {
        whole.push(short::whole(client, id).await?);
    }
    for id in whole {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(clock::mono()));
        let waited = client.wait(&id, left).await?;
        let exit = verdict(&waited);
        let sentence = end_sentence(&waited);
        let answer = WaitJobResponse { job: Some(waited.job), done: waited.done };
        output.show(&answer, [id.as_str()], || output.line(&sentence))?;
        // A wait that ran out says more than a failure: the caller does not know yet.
        if worst != Exit::WaitRanOut && exit != Exit::Ok {
            worst = exit;
        }
    }
    Ok(worst)
}

/// The exit code of a wait.
pub(crate) fn verdict(waited: &Waited) -> Exit {
    if waited.done { of_end(waited.job.state()) } else { Exit::WaitRanOut }
}

/// The exit code of a wait that saw the end of its job.
fn of_end(state: JobState) -> Exit {
    match state {
        JobState::Succeeded => Exit::Ok,
        JobState::Unspecified
        | JobState::Scheduled
        | JobState::Blocked
        | JobState::Queued
        | JobState::Running
        | JobState::Waiting
        | JobState::Dead
        | JobState::Cancelled
        | JobState::Expired => Exit::Failed,
    }
}

/// What became of a wait, in a sentence.
pub(crate) fn end_sentence(waited: &Waited) -> String {
    let job = &waited.job;
    let why = job.deferral.as_ref().map_or(job.reason.as_str(), |deferral| deferral.message.as_str());
    let why = if why.is_empty() { String::new() } else { format!(": {}", human::brief(why, 200)) };
    if waited.done {
        let word = state_word(job);
        match job.state() {
            JobState::Succeeded => format!("{} {word} in attempt {}{why}", job.id, job.attempt),
            JobState::Dead => {
                format!("{} {word} after {}{why}", job.id, human::count(show::tries(job), "attempt"))
            }
            JobState::Unspecified
            | JobState::Scheduled
            | JobState::Blocked
            | JobState::Queued
            | JobState::Running
            | JobState::Waiting
            | JobState::Cancelled
            | JobState::Expired => format!("{} {word}{why}", job.id),
        }
    } else {
        format!("{} is still {}{why}", job.id, state_word(job))
    }
}

/// The word of the job's state.
pub(crate) fn state_word(job: &Job) -> String {
    human::word(job.state().as_str_name(), "JOB_STATE_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(state: JobState, done: bool) -> Waited {
        Waited { job: Job { state: state.into(), ..Job::default() }, done }
    }

    #[test]
    fn only_success_is_success() {
        assert_eq!(verdict(&waited(JobState::Succeeded, true)), Exit::Ok);
        for state in [JobState::Dead, JobState::Cancelled, JobState::Expired] {
            assert_eq!(verdict(&waited(state, true)), Exit::Failed);
        }
        assert_eq!(verdict(&waited(JobState::Running, false)), Exit::WaitRanOut);
    }

    #[test]
    fn the_end_of_a_job_counts_the_attempts_that_there_were() {
        let job = |state: JobState, attempt| Job {
            id: "x".to_owned(),
            state: state.into(),
            attempt,
            failures: 2,
            losses: 1,
            ..Job::default()
        };
        let sentence = |state, attempt| end_sentence(&Waited { job: job(state, attempt), done: true });
        assert_eq!(sentence(JobState::Succeeded, 4), "x succeeded in attempt 4");
        assert_eq!(sentence(JobState::Dead, 4), "x dead after 3 attempts");
        assert_eq!(sentence(JobState::Cancelled, 4), "x cancelled");
        assert_eq!(show::tries(&job(JobState::Running, 4)), 4, "the present one");
    }

    #[test]
    fn a_wait_without_a_sensible_end_is_no_panic() {
        assert!(clock::after(Duration::MAX) > clock::mono());
    }
}

//! `tenure job watch`: a line per change of a job, as it happens.

use std::time::Duration;

use tenure_client::Client;
use tenure_client::proto::{Job, WatchJobResponse};

use super::{of_end, show, state_word};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{clock, human};

/// Characters of a reason on a line.
const WHY_SHOWN: usize = 120;

/// Prints each change until the job is final.
pub(super) async fn run(
    id: &str,
    timeout: Option<Duration>,
    client: &Client,
    output: &Output,
) -> Result<Exit, Failure> {
    let give_up = timeout.map(clock::after);
    let mut watch = client.watch(id);
    let mut exit = Exit::Failed;
    loop {
        let change = match give_up {
            None => watch.next().await?,
            Some(at) => match tokio::time::timeout_at(at.into(), watch.next()).await {
                Ok(change) => change?,
                Err(_) => return Ok(Exit::WaitRanOut),
            },
        };
        let Some(job) = change else { return Ok(exit) };
        exit = of_end(job.state());
        if output.is_data() {
            output.message_line(&WatchJobResponse { job: Some(job) })?;
        } else if output.is_name() {
            output.line(&job.id)?;
        } else {
            output.line(&line(&job, &human::absolute(clock::wall())))?;
        }
    }
}

/// `2026-09-30T08:00:00Z  running    attempt 2 on mini-1`, for people: the instant is that of the reading.
fn line(job: &Job, at: &str) -> String {
    let mut line = format!("{at}  {:<9}  attempt {}", state_word(job), show::tries(job));
    if !job.node.is_empty() {
        line = format!("{line} on {}", human::clean(&job.node));
    }
    if let Some(progress) = &job.progress {
        line = format!("{line}  {}", human::brief(&show::gets_on(progress), WHY_SHOWN));
    }
    let why = show::why(job);
    if why.is_empty() || why == "-" {
        return line;
    }
    format!("{line}: {}", human::brief(&why, WHY_SHOWN))
}

#[cfg(test)]
mod tests {
    use tenure_client::proto::JobState;

    use super::*;

    #[test]
    fn a_change_is_one_line_that_paints_nothing() {
        let running = Job {
            state: JobState::Running.into(),
            attempt: 2,
            node: "mini-1".to_owned(),
            reason: "boom\u{1b}[2J\nsecond".to_owned(),
            ..Job::default()
        };
        let line = line(&running, "2026-09-30T08:00:00Z");
        assert!(line.starts_with("2026-09-30T08:00:00Z  running    attempt 2 on mini-1"), "{line}");
        assert!(!line.contains('\n') && !line.contains('\u{1b}'), "{line}");
    }
}

//! Jobs and their attempts as tables.

use std::collections::BTreeMap;

use tenure_client::proto::{Attempt, ChildWait, DeferralShare, Job, JobState, Outcome, WaitPolicy};
use tenure_client::wire;

use super::state_word;
use crate::human;
use crate::output::{Field, Output, Table, Tone};

/// Characters of an error that a table shows; `-o json` has all of it.
const ERROR_SHOWN: usize = 100;

/// A job per row.
pub(super) fn list(jobs: &[Job], output: &Output) -> Table {
    let headers = ["JOB", "KIND", "STATE", "ATTEMPT", "PRIORITY", "AGE", "NODE", "WHY"];
    let more = output.wide(|| ["ROUND", "TENANT", "PRODUCER", "DEDUPE KEY", "NEEDS", "LABELS", "PARENT"]);
    let mut table = Table::new(headers.into_iter().chain(more));
    for job in jobs {
        let fields = [
            job.id.as_str().into(),
            job.kind.as_str().into(),
            state(job),
            Field::figure(tries(job)),
            Field::figure(job.priority),
            output.age(job.create_time.as_ref()).into(),
            if job.node.is_empty() { "-".into() } else { job.node.as_str().into() },
            why(job).into(),
        ];
        let or_dash = |text: &str| Field::from(if text.is_empty() { "-" } else { text });
        let more = output.wide(|| {
            [
                Field::figure(job.round),
                job.tenant.as_str().into(),
                job.producer.as_str().into(),
                or_dash(&job.dedupe_key),
                human::needs(job.needs.as_ref()).into(),
                human::pairs(&job.labels).into(),
                or_dash(&job.parent_id),
            ]
        });
        table.row(fields.into_iter().chain(more));
    }
    table
}

/// The state in its tone.
pub(super) fn state(job: &Job) -> Field {
    let tone = match job.state() {
        JobState::Succeeded | JobState::Running => Tone::Good,
        JobState::Dead => Tone::Bad,
        JobState::Cancelled | JobState::Expired => Tone::Notice,
        JobState::Unspecified
        | JobState::Scheduled
        | JobState::Blocked
        | JobState::Queued
        | JobState::Waiting => Tone::Plain,
    };
    Field::toned(state_word(job), tone)
}

/// Why it stands where it stands: the deferral of one that waits, else its reason.
pub(super) fn why(job: &Job) -> String {
    let text = job.deferral.as_ref().map_or(job.reason.as_str(), |deferral| deferral.message.as_str());
    if text.is_empty() { "-".to_owned() } else { human::brief(text, ERROR_SHOWN) }
}

/// One job, a line per fact.
pub(super) fn details(job: &Job, output: &Output) -> Table {
    let mut table = Table::default();
    let mut row = |name: &str, value: Field| table.row([name.into(), value]);
    row("job", job.id.as_str().into());
    row("kind", job.kind.as_str().into());
    row("state", state(job));
    if !job.reason.is_empty() {
        row("reason", human::brief(&job.reason, 500).into());
    }
    if let Some(deferral) = &job.deferral {
        row("waits for", deferral.message.as_str().into());
    }
    if !waits(job).is_empty() {
        row("waited", waited(waits(job)).into());
    }
    row("attempt", attempt(job).into());
    if job.round > 0 {
        row("round", job.round.to_string().into());
    }
    row("priority", job.priority.to_string().into());
    row("needs", human::needs(job.needs.as_ref()).into());
    if !job.selector.is_empty() || !job.requirements.is_empty() {
        row("selector", human::selector(&job.selector, &job.requirements).into());
    }
    if !job.prefer.is_empty() {
        row("prefers", human::selector(&BTreeMap::new(), &job.prefer).into());
    }
    if !job.labels.is_empty() {
        row("labels", human::pairs(&job.labels).into());
    }
    row("tenant", format!("{} (producer {})", job.tenant, job.producer).into());
    if !job.dedupe_key.is_empty() {
        let held = if job.dedupe_held { "answers for it" } else { "released" };
        row("dedupe key", format!("{} ({held})", job.dedupe_key).into());
    }
    if !job.concurrency_key.is_empty() {
        row("concurrency key", job.concurrency_key.as_str().into());
    }
    if !job.parent_id.is_empty() {
        row("parent", job.parent_id.as_str().into());
    }
    if let Some(wait) = &job.waiting_for {
        row("children", children(wait, output).into());
    }
    if !job.node.is_empty() {
        row("node", job.node.as_str().into());
    }
    if job.token > 0 {
        row("token", job.token.to_string().into());
    }
    if job.cancel_requested {
        row("cancel", "requested".into());
    }
    row("created", output.when(job.create_time.as_ref()).into());
    for (name, at) in [
        ("run at", &job.run_at),
        ("stale", &job.stale_at),
        ("started", &job.start_time),
        ("finished", &job.finish_time),
    ] {
        if at.is_some() {
            row(name, output.when(at.as_ref()).into());
        }
    }
    row("time limit", human::wire_length(job.hard_time_limit.as_ref()).into());
    if job.soft_time_limit.is_some() {
        row("soft time limit", human::wire_length(job.soft_time_limit.as_ref()).into());
    }
    row("payload", human::bytes(job.payload_size).into());
    table
}

/// Everything that a job has waited for, the longest first. The history of a present deferral holds the waits of before.
pub(super) fn waits(job: &Job) -> &[DeferralShare] {
    let history = job.deferral.as_ref().map_or(&[][..], |deferral| &deferral.history);
    if history.is_empty() { &job.waits } else { history }
}

/// `deferred 38 times: 25m uid_procs on mini-1, 14m slot anthropic 6/6`.
pub(super) fn waited(waits: &[DeferralShare]) -> String {
    let times = waits.iter().map(|share| share.count).fold(0, u64::saturating_add);
    let shares: Vec<String> = waits
        .iter()
        .map(|share| format!("{} {}", human::wire_length(share.duration.as_ref()), subject(share)))
        .collect();
    format!("deferred {}: {}", human::count(times, "time"), shares.join(", "))
}

/// What a share of the waiting is about.
pub(super) fn subject(share: &DeferralShare) -> &str {
    if share.message.is_empty() { &share.reason } else { &share.message }
}

/// The number of its present or next attempt; of one that ended without success, of how many there were.
pub(super) fn tries(job: &Job) -> u32 {
    match job.state() {
        JobState::Dead | JobState::Cancelled | JobState::Expired => job.failures.saturating_add(job.losses),
        JobState::Unspecified
        | JobState::Scheduled
        | JobState::Blocked
        | JobState::Queued
        | JobState::Running
        | JobState::Waiting
        | JobState::Succeeded => job.attempt,
    }
}

/// `2 of 10 not ended (01ab…, 01cd…), goes on when all have ended`.
fn children(wait: &ChildWait, output: &Output) -> String {
    let mut text = format!("{} of {} not ended", wait.unfinished, wait.children);
    if !wait.unfinished_job_ids.is_empty() {
        let shown = wait.unfinished_job_ids.join(", ");
        let more = wait.unfinished > u32::try_from(wait.unfinished_job_ids.len()).unwrap_or(u32::MAX);
        text += &format!(" ({shown}{})", if more { ", and more" } else { "" });
    }
    text += &match wait.policy() {
        WaitPolicy::Any => ", goes on when one has succeeded".to_owned(),
        WaitPolicy::AtLeast => format!(", goes on when {} have succeeded", wait.at_least),
        WaitPolicy::FirstFailure => ", goes on when one has failed, or all have ended".to_owned(),
        WaitPolicy::All | WaitPolicy::Unspecified => ", goes on when all have ended".to_owned(),
    };
    if wait.parked {
        text += ", its process stays";
    }
    if wait.until.is_some() {
        text += &format!(", at the latest {}", output.when(wait.until.as_ref()));
    }
    text
}

/// `2, with 1 of 3 failures, 0 of 3 losses, 4 returns`.
fn attempt(job: &Job) -> String {
    format!(
        "{} ({} of {} failures, {} of {} losses, {} returns)",
        tries(job),
        job.failures,
        job.max_failures,
        job.losses,
        job.max_losses,
        job.returns
    )
}

/// An execution per row, oldest first.
pub(super) fn attempts(attempts: &[Attempt], output: &Output) -> Table {
    let headers = ["ATTEMPT", "ROUND", "NODE", "OUTCOME", "CAUSE", "EXIT", "RAN", "ENDED", "ERROR"];
    let mut table =
        Table::new(headers.into_iter().chain(output.wide(|| ["TOKEN", "GRANTED", "USED", "CHECKPOINT"])));
    for attempt in attempts {
        let fields = [
            Field::figure(attempt.attempt),
            Field::figure(attempt.round),
            attempt.node.as_str().into(),
            outcome(attempt),
            if attempt.cause.is_empty() { "-".into() } else { attempt.cause.as_str().into() },
            Field::figure(attempt.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string())),
            ran(attempt).into(),
            output.when(attempt.end_time.as_ref()).into(),
            if attempt.error.is_empty() {
                "-".into()
            } else {
                human::brief(&attempt.error, ERROR_SHOWN).into()
            },
        ];
        let more = output.wide(|| {
            let granted = output.when(attempt.grant_time.as_ref());
            [Field::figure(attempt.token), granted.into(), used(attempt).into(), checkpoint(attempt).into()]
        });
        table.row(fields.into_iter().chain(more));
    }
    table
}

/// The size of the newest checkpoint that it saved.
fn checkpoint(attempt: &Attempt) -> String {
    if attempt.checkpoint_size == 0 { "-".to_owned() } else { human::bytes(attempt.checkpoint_size) }
}

/// `pages=3 tokens=1200`.
fn used(attempt: &Attempt) -> String {
    let mut used: Vec<String> =
        attempt.usage.iter().map(|(counter, amount)| format!("{counter}={amount}")).collect();
    used.sort();
    if used.is_empty() { "-".to_owned() } else { used.join(" ") }
}

fn outcome(attempt: &Attempt) -> Field {
    let (word, tone) = match attempt.outcome() {
        Outcome::Succeeded if attempt.partial => ("succeeded in part", Tone::Good),
        Outcome::TimedOut if attempt.partial => ("timed out, partial result", Tone::Bad),
        Outcome::Stalled if attempt.partial => ("stalled, partial result", Tone::Bad),
        Outcome::Stalled => ("stalled", Tone::Bad),
        Outcome::FailedRetryable if attempt.partial => ("failed, partial result", Tone::Bad),
        Outcome::Succeeded => ("succeeded", Tone::Good),
        Outcome::FailedRetryable => ("failed", Tone::Bad),
        Outcome::FailedPermanent => ("failed for good", Tone::Bad),
        Outcome::TimedOut => ("timed out", Tone::Bad),
        Outcome::Lost => ("lost", Tone::Bad),
        Outcome::Returned => ("returned", Tone::Notice),
        Outcome::Cancelled => ("cancelled", Tone::Notice),
        Outcome::Detached => ("detached", Tone::Plain),
        Outcome::Unspecified => ("unknown", Tone::Notice),
    };
    Field::toned(word, tone)
}

fn ran(attempt: &Attempt) -> String {
    let (Some(start), Some(end)) = (&attempt.start_time, &attempt.end_time) else {
        // Only a return says that nothing was started; of a loss nobody can know.
        let never = attempt.outcome() == Outcome::Returned && !attempt.started;
        return if never { "never" } else { "unknown" }.to_owned();
    };
    let ran = wire::system_time(end).duration_since(wire::system_time(start)).unwrap_or_default();
    human::length(ran)
}

#[cfg(test)]
mod tests {
    use tenure_client::proto::Deferral;

    fn share(message: &str, count: u64, seconds: i64) -> DeferralShare {
        let duration = Some(prost_types::Duration { seconds, nanos: 0 });
        DeferralShare { reason: "slot".to_owned(), message: message.to_owned(), count, duration }
    }

    use super::*;

    #[test]
    fn a_waiting_job_says_why_and_a_dead_one_its_last_error() {
        let waits = Job {
            state: JobState::Queued.into(),
            reason: "old".to_owned(),
            deferral: Some(Deferral { message: "slot anthropic 6/6".to_owned(), ..Deferral::default() }),
            ..Job::default()
        };
        assert_eq!(why(&waits), "slot anthropic 6/6");
        let dead = Job { reason: "Traceback\nboom\n".to_owned(), ..Job::default() };
        assert_eq!(why(&dead), "boom");
    }

    #[test]
    fn a_job_that_runs_or_has_ended_tells_what_it_waited_for() {
        let waits = vec![share("uid_procs on mini-1", 37, 1500), share("", 1, 840)];
        let job = Job { state: JobState::Succeeded.into(), waits, ..Job::default() };
        assert_eq!(waited(super::waits(&job)), "deferred 38 times: 25m uid_procs on mini-1, 14m slot");
        let mut waiting = Job { deferral: Some(Deferral::default()), ..job };
        assert_eq!(super::waits(&waiting).len(), 2, "a deferral that came without its history");
        let history = vec![share("slot anthropic 6/6", 1, 5)];
        waiting.deferral = Some(Deferral { history, ..Deferral::default() });
        assert_eq!(waited(super::waits(&waiting)), "deferred 1 time: 5s slot anthropic 6/6");
    }

    #[test]
    fn an_attempt_that_never_started_ran_never() {
        let returned = Attempt { outcome: Outcome::Returned.into(), ..Attempt::default() };
        assert_eq!(ran(&returned), "never");
        assert_eq!(ran(&Attempt { started: true, ..returned }), "unknown");
        assert_eq!(ran(&Attempt { outcome: Outcome::Lost.into(), ..Attempt::default() }), "unknown");
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        assert_eq!(ran(&Attempt { start_time: at(10), end_time: at(55), ..Attempt::default() }), "45s");
    }
}

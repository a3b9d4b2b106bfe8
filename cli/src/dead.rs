//! `tenure dead`: jobs that failed for good, one by one or by the hundred.
//!
//! Reading order: the verbs here, `dead/groups.rs` (what belongs together), `dead/bulk.rs` (one verb on many jobs).

mod bulk;
mod groups;

use clap::{Args, Subcommand};
use tenure_client::Client;
use tenure_client::proto::{Job, JobState, ListJobsRequest, ListJobsResponse};
use tenure_client::wire;

use crate::exit::{Exit, Failure};
use crate::output::{Output, note};
use crate::{args, clock};
use bulk::Verb;

/// Jobs asked for in one page.
const PAGE: i32 = 1_000;
/// Jobs that `list --jobs` shows unless the caller asks for more.
const LIST_LIMIT: usize = 50;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// Dead letters, grouped by kind and reason, and how many there were day by day.
    List {
        #[command(flatten)]
        filter: Filter,
        /// Lists the jobs instead of groups.
        #[arg(long)]
        jobs: bool,
        /// Lists at most this many jobs.
        #[arg(long, default_value_t = LIST_LIMIT, requires = "jobs")]
        limit: usize,
    },
    /// Takes dead letters back to their queues, as a new round each.
    Requeue(BulkArgs),
    /// Removes dead letters with payload and attempts.
    Purge(BulkArgs),
}

/// Which dead letters; and-ed.
#[derive(Clone, Debug, Args)]
pub(crate) struct Filter {
    /// Only of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Only those whose reason contains this text.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only those whose newest execution was on this node.
    #[arg(long)]
    node: Option<String>,
    /// Only those that died at least this long ago.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    older_than: Option<std::time::Duration>,
}

/// Arguments of a verb on many jobs.
#[derive(Debug, Args)]
pub(crate) struct BulkArgs {
    #[command(flatten)]
    filter: Filter,
    /// All dead letters there are, in place of a filter.
    #[arg(long)]
    all: bool,
    /// Counts only.
    #[arg(long)]
    dry_run: bool,
    /// Does not ask.
    #[arg(long, short)]
    yes: bool,
}

impl DeadCommand {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::List { .. } => false,
            Self::Requeue(args) | Self::Purge(args) => !args.dry_run,
        }
    }
}

/// Runs one verb.
pub(crate) async fn run(command: DeadCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match command {
        DeadCommand::List { filter, jobs: false, .. } => list_groups(&filter, client, output).await,
        DeadCommand::List { filter, limit, jobs: true } => list_jobs(&filter, limit, client, output).await,
        DeadCommand::Requeue(args) => many(Verb::Requeue, args, client, output).await,
        DeadCommand::Purge(args) => many(Verb::Purge, args, client, output).await,
    }
}

async fn list_groups(filter: &Filter, client: &Client, output: &Output) -> Result<Exit, Failure> {
    let mut groups = groups::Groups::default();
    each_matching(filter, client, |job| {
        groups.add(&job);
        true
    })
    .await?;
    let health = client.queue_health(filter.kind.as_deref()).await?;
    if output.is_data() {
        output.value(&groups.listed(&health))?;
        return Ok(Exit::Ok);
    }
    if output.is_name() {
        groups.examples().try_for_each(|id| output.line(id))?;
        return Ok(Exit::Ok);
    }
    if groups.is_empty() {
        note("no dead letters");
    } else {
        output.table(&groups.table(output))?;
    }
    let days = groups::days(&health);
    if !days.is_empty() {
        output.line("\ndied per day (UTC)")?;
        output.table(&days)?;
    }
    Ok(Exit::Ok)
}

async fn list_jobs(filter: &Filter, limit: usize, client: &Client, output: &Output) -> Result<Exit, Failure> {
    let mut jobs = Vec::new();
    each_matching(filter, client, |job| {
        jobs.push(job);
        jobs.len() <= limit
    })
    .await?;
    let more = jobs.len() > limit;
    jobs.truncate(limit);
    let answer = ListJobsResponse { jobs, next_page_token: String::new() };
    output.show(&answer, answer.jobs.iter().map(|job| job.id.as_str()), || {
        if answer.jobs.is_empty() {
            note("no dead letters");
            return Ok(());
        }
        output.table(&groups::jobs(&answer.jobs, output))
    })?;
    if more {
        note(format!("the first {limit}; --limit shows more"));
    }
    Ok(Exit::Ok)
}

async fn many(verb: Verb, args: BulkArgs, client: &Client, output: &Output) -> Result<Exit, Failure> {
    if args.filter.is_empty() && !args.all {
        return Err(Failure::Usage(
            "name a filter (--kind, --reason …), or --all for every dead letter".to_owned(),
        ));
    }
    let mut ids = Vec::new();
    each_matching(&args.filter, client, |job| {
        ids.push(job.id);
        true
    })
    .await?;
    if let Some(name) = args.filter.kind.as_ref().filter(|_| ids.is_empty()) {
        let kinds = client.kinds().await?;
        if kinds.iter().all(|kind| kind.name != *name) {
            let known = kinds.into_iter().map(|kind| kind.name).collect();
            return Err(Failure::Unknown { noun: "kind", name: name.clone(), known });
        }
    }
    bulk::run(verb, ids, args.dry_run, args.yes, client, output).await
}

/// Calls `seen` with each matching job, newest first, until it says false.
async fn each_matching(
    filter: &Filter,
    client: &Client,
    mut seen: impl FnMut(Job) -> bool,
) -> Result<(), Failure> {
    let mut jobs = client.list(ListJobsRequest {
        kind: filter.kind.clone().unwrap_or_default(),
        states: vec![JobState::Dead.into()],
        tenant: filter.tenant.clone().unwrap_or_default(),
        node: filter.node.clone().unwrap_or_default(),
        page_size: PAGE,
        ..ListJobsRequest::default()
    });
    while let Some(job) = jobs.next().await? {
        if filter.matches(&job) && !seen(job) {
            break;
        }
    }
    Ok(())
}

impl Filter {
    fn is_empty(&self) -> bool {
        let Self { kind, reason, tenant, node, older_than } = self;
        kind.is_none() && reason.is_none() && tenant.is_none() && node.is_none() && older_than.is_none()
    }

    /// The part of the filter that the server does not know.
    fn matches(&self, job: &Job) -> bool {
        let reason = self
            .reason
            .as_ref()
            .is_none_or(|wanted| job.reason.to_lowercase().contains(&wanted.to_lowercase()));
        let old = self.older_than.is_none_or(|least| {
            let died = job.finish_time.as_ref().map(wire::system_time);
            let age = died.and_then(|died| clock::wall().duration_since(died).ok());
            age.is_some_and(|age| age >= least)
        });
        reason && old
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn filter() -> Filter {
        Filter { kind: None, reason: None, tenant: None, node: None, older_than: None }
    }

    #[test]
    fn a_reason_matches_whatever_its_case() {
        let job = Job { reason: "Exit 1: Connection REFUSED".to_owned(), ..Job::default() };
        assert!(Filter { reason: Some("connection refused".to_owned()), ..filter() }.matches(&job));
        assert!(!Filter { reason: Some("timeout".to_owned()), ..filter() }.matches(&job));
    }

    #[test]
    fn a_job_without_a_time_of_death_is_never_old_enough() {
        let old = Filter { older_than: Some(Duration::from_secs(60)), ..filter() };
        assert!(!old.matches(&Job::default()));
        let died = wire::timestamp(clock::wall() - Duration::from_secs(61));
        assert!(old.matches(&Job { finish_time: Some(died), ..Job::default() }));
        assert!(filter().is_empty() && !old.is_empty());
    }
}

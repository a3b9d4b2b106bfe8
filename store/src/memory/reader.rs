//! The reader of the store in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use tenure_scheduler::{
    Attempt, DueResult, FencingToken, Job, JobId, JobState, KindName, Wall, Workflow, WorkflowId,
};

use super::{Memory, Tables};
use crate::{
    JobCursor, JobFilter, KindCutoff, Left, LogTail, MemberState, ObjectName, Payload, ResultBytes,
    StoredResult, Violation, WorkflowCursor, WorkflowFilter, reader::Error,
};

/// A reader of a store in memory.
#[derive(Debug, Clone)]
pub struct MemoryReader {
    store: Memory,
}

impl MemoryReader {
    pub(super) fn new(store: Memory) -> Self {
        Self { store }
    }

    pub(super) fn read<T>(&self, look: impl FnOnce(&Tables) -> T) -> Result<T, Error> {
        let shared = self.store.lock();
        if shared.away {
            return Err(Error::Unavailable("the store in memory was told to be away".into()));
        }
        Ok(look(&shared.tables))
    }

    pub(crate) async fn get_job(&self, id: JobId) -> Result<Option<Job>, Error> {
        self.read(|tables| tables.jobs.get(&id).cloned())
    }

    pub(crate) async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<JobCursor>,
        limit: u32,
    ) -> Result<Vec<Job>, Error> {
        self.read(|tables| {
            let shown =
                |job: &&Job| matches(filter, job) && after.is_none_or(|after| JobCursor::after(job) < after);
            let mut jobs: Vec<&Job> = tables.jobs.rows().values().filter(shown).collect();
            jobs.sort_by_key(|job| std::cmp::Reverse(JobCursor::after(job)));
            jobs.into_iter().take(rows(limit)).cloned().collect()
        })
    }

    pub(crate) async fn attempts(
        &self,
        job: JobId,
        after: Option<FencingToken>,
        limit: u32,
    ) -> Result<Vec<Attempt>, Error> {
        self.read(|tables| {
            let from = Bound::Excluded((job, after.unwrap_or(FencingToken::NONE)));
            let to = Bound::Included((job, FencingToken(u64::MAX)));
            tables.attempts.rows().range((from, to)).map(|(_, row)| row.clone()).take(rows(limit)).collect()
        })
    }

    pub(crate) async fn payloads(&self, jobs: &[JobId]) -> Result<BTreeMap<JobId, Payload>, Error> {
        self.read(|tables| {
            jobs.iter().filter_map(|id| Some((*id, tables.payloads.get(id)?.clone()))).collect()
        })
    }

    pub(crate) async fn left(&self, jobs: &[JobId]) -> Result<BTreeMap<JobId, Left>, Error> {
        self.read(|tables| {
            let of = |job: &JobId| {
                let all = (*job, FencingToken::NONE)..=(*job, FencingToken(u64::MAX));
                let partial = tables.results.rows().range(all).rfind(|(_, row)| row.stored.partial);
                let partial = partial.filter(|(_, row)| row.stored.object.is_none());
                let bytes = |row: &StoredResult| ResultBytes {
                    data: row.data.clone(),
                    content_type: row.content_type.clone(),
                    object: None,
                };
                let left = Left {
                    checkpoint: tables.checkpoints.get(job).cloned(),
                    partial: partial.map(|(_, row)| bytes(&row.stored)),
                };
                (left != Left::default()).then_some((*job, left))
            };
            jobs.iter().filter_map(of).collect()
        })
    }

    pub(crate) async fn result(&self, job: JobId) -> Result<Option<StoredResult>, Error> {
        self.read(|tables| {
            let all = (job, FencingToken::NONE)..=(job, FencingToken(u64::MAX));
            let results = tables.results.rows().range(all).filter(|(_, row)| !row.of_wait);
            results.map(|(_, row)| row.stored.clone()).next_back()
        })
    }

    pub(crate) async fn state(&self, job: JobId, token: FencingToken) -> Result<Option<StoredResult>, Error> {
        self.read(|tables| {
            let state = tables.results.get(&(job, token)).filter(|row| row.of_wait);
            state.map(|row| row.stored.clone())
        })
    }

    pub(crate) async fn log_tail(&self, job: JobId, token: FencingToken) -> Result<Option<LogTail>, Error> {
        self.read(|tables| tables.log_tails.get(&(job, token)).cloned())
    }

    pub(crate) async fn objects(
        &self,
        after: Option<(JobId, FencingToken)>,
        limit: u32,
    ) -> Result<Vec<ObjectName>, Error> {
        self.read(|tables| {
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let behind = tables.results.rows().range((from, Bound::Unbounded));
            behind.filter_map(|(_, row)| row.stored.object_name()).take(rows(limit)).collect()
        })
    }

    pub(crate) async fn objects_of(&self, jobs: &[JobId]) -> Result<Vec<ObjectName>, Error> {
        self.read(|tables| {
            let of = |job: &JobId| {
                let all = (*job, FencingToken::NONE)..=(*job, FencingToken(u64::MAX));
                tables.results.rows().range(all).filter_map(|(_, row)| row.stored.object_name())
            };
            jobs.iter().flat_map(of).collect()
        })
    }

    pub(crate) async fn wanted_objects(&self, asked: &[ObjectName]) -> Result<BTreeSet<ObjectName>, Error> {
        self.read(|tables| {
            let named = |name: &ObjectName| {
                let row = tables.results.get(&(name.job, name.token));
                row.and_then(|row| row.stored.object_name()) == Some(*name)
            };
            let open = |name: &ObjectName| {
                let job = tables.jobs.get(&name.job);
                job.is_some_and(|job| job.token == name.token && !job.state.is_final())
            };
            asked.iter().filter(|name| named(name) || open(name)).copied().collect()
        })
    }

    pub(crate) async fn due_jobs(
        &self,
        cutoffs: &[KindCutoff],
        others: Wall,
        limit: u32,
    ) -> Result<Vec<Job>, Error> {
        self.read(|tables| {
            let due = |job: &&Job| {
                let cutoff = cutoffs.iter().find(|cutoff| cutoff.kind == job.kind);
                let until = cutoff.map_or(others, |cutoff| cutoff.finished_until);
                job.state.finished_at().is_some_and(|at| at <= until)
                    && !tables.leases.rows().values().any(|lease| lease.job == job.id)
                    && !is_live(tables, job.parent)
                    && !lives(tables, job)
            };
            tables.jobs.rows().values().filter(due).take(rows(limit)).cloned().collect()
        })
    }

    pub(crate) async fn due_results(&self, now: Wall, limit: u32) -> Result<Vec<DueResult>, Error> {
        self.read(|tables| {
            let all = tables.results.rows().values().map(|row| &row.stored);
            let mut due: Vec<(Wall, DueResult)> = Vec::new();
            for row in all.filter(|row| row.expires_at <= now) {
                let Some(job) = tables.jobs.get(&row.job) else { continue };
                let (parent, workflow) = (job.parent, job.workflow.map(|member| member.workflow));
                if !is_live(tables, parent) && !lives(tables, job) {
                    let result = DueResult { job: row.job, token: row.token, parent, workflow };
                    due.push((row.expires_at, result));
                }
            }
            due.sort();
            due.into_iter().take(rows(limit)).map(|(_, due)| due).collect()
        })
    }

    pub(crate) async fn get_workflow(&self, id: WorkflowId) -> Result<Option<Workflow>, Error> {
        self.read(|tables| tables.workflow(id))
    }

    pub(crate) async fn list_workflows(
        &self,
        filter: &WorkflowFilter,
        after: Option<WorkflowCursor>,
        limit: u32,
    ) -> Result<Vec<Workflow>, Error> {
        self.read(|tables| {
            let shown = |workflow: &&Workflow| {
                (filter.states.is_empty() || filter.states.contains(&workflow.state.name()))
                    && filter.producer.as_ref().is_none_or(|producer| workflow.producer == *producer)
                    && after.is_none_or(|after| WorkflowCursor::after(workflow) < after)
            };
            let mut all: Vec<&Workflow> = tables.workflows.rows().values().filter(shown).collect();
            all.sort_by_key(|workflow| std::cmp::Reverse(WorkflowCursor::after(workflow)));
            all.into_iter().take(rows(limit)).cloned().collect()
        })
    }

    pub(crate) async fn members(&self, id: WorkflowId) -> Result<Vec<MemberState>, Error> {
        self.read(|tables| {
            let member = |job: &Job| {
                let place = job.workflow.filter(|member| member.workflow == id)?.place;
                let (kind, state) = (job.kind.clone(), job.state.name().into());
                let reason =
                    job.reason.as_ref().map(|reason| reason.chars().take(256).collect::<String>().into());
                Some(MemberState { place, kind, state, reason })
            };
            let mut all: Vec<MemberState> = tables.jobs.rows().values().filter_map(member).collect();
            all.sort_by_key(|member| member.place);
            all
        })
    }

    pub(crate) async fn member_counts(
        &self,
        ids: &[WorkflowId],
    ) -> Result<Vec<(WorkflowId, String, u32)>, Error> {
        self.read(|tables| {
            let mut counts: BTreeMap<(WorkflowId, String), u32> = BTreeMap::new();
            for job in tables.jobs.rows().values() {
                if let Some(member) = job.workflow.filter(|member| ids.contains(&member.workflow)) {
                    *counts.entry((member.workflow, job.state.name().to_owned())).or_default() += 1;
                }
            }
            counts.into_iter().map(|((id, state), count)| (id, state, count)).collect()
        })
    }

    pub(crate) async fn due_workflows(&self, limit: u32) -> Result<Vec<WorkflowId>, Error> {
        self.read(|tables| {
            let has_jobs = |id: WorkflowId| {
                tables.jobs.rows().values().any(|job| job.workflow.is_some_and(|of| of.workflow == id))
            };
            let finals = tables.workflows.rows().values().filter(|workflow| workflow.state.is_final());
            finals.map(|workflow| workflow.id).filter(|id| !has_jobs(*id)).take(rows(limit)).collect()
        })
    }

    pub(crate) async fn dead_by_kind(&self) -> Result<BTreeMap<KindName, u64>, Error> {
        self.read(|tables| {
            let mut counts = BTreeMap::new();
            for job in tables.jobs.rows().values().filter(|job| matches!(job.state, JobState::Dead { .. })) {
                *counts.entry(job.kind.clone()).or_default() += 1;
            }
            counts
        })
    }

    pub(crate) async fn violations(&self) -> Result<Vec<Violation>, Error> {
        self.read(|_| Vec::new())
    }

    pub(crate) async fn lease_violations(&self) -> Result<Vec<Violation>, Error> {
        self.violations().await
    }

    pub(crate) async fn schema_version(&self) -> Result<u64, Error> {
        self.read(|_| crate::sqlite::schema::newest())
    }

    pub(crate) async fn ping(&self) -> Result<(), Error> {
        self.read(|_| ())
    }

    pub(crate) async fn close(&self) {}
}

/// Whether a parent may still read what its children left.
fn is_live(tables: &Tables, parent: Option<JobId>) -> bool {
    parent.and_then(|id| tables.jobs.get(&id)).is_some_and(|job| !job.state.is_final())
}

/// Whether the workflow of a job may still read what it left.
fn lives(tables: &Tables, job: &Job) -> bool {
    let workflow = job.workflow.and_then(|member| tables.workflows.get(&member.workflow));
    workflow.is_some_and(|workflow| !workflow.state.is_final())
}

fn rows(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn matches(filter: &JobFilter, job: &Job) -> bool {
    filter.kind.as_ref().is_none_or(|kind| job.kind == *kind)
        && (filter.states.is_empty() || filter.states.contains(&job.state.name()))
        && filter.tenant.as_ref().is_none_or(|tenant| job.tenant == *tenant)
        && filter.producer.as_ref().is_none_or(|producer| job.producer == *producer)
        && filter.dedupe_key.as_ref().is_none_or(|key| job.dedupe_key.as_ref() == Some(key))
        && filter.parent.is_none_or(|parent| job.parent == Some(parent))
        && filter.workflow.is_none_or(|workflow| job.workflow.is_some_and(|of| of.workflow == workflow))
        && filter.node.as_ref().is_none_or(|node| job.last_node.as_ref() == Some(node))
        && filter.id_part.as_ref().is_none_or(|part| {
            let id = job.id.to_string();
            id.starts_with(part) || id.ends_with(part)
        })
}

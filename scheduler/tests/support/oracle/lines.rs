//! Strict order within a kind, and limits by key, from the rules.

use tenure_scheduler::{Durable, Job};

/// Of a kind in strict order only the first enqueued of those that wait for their slots may start.
pub(crate) fn has_its_turn<'a>(rows: &Durable, job: &Job, waiting: impl Iterator<Item = &'a Job>) -> bool {
    if !rows.kinds[&job.kind].policy.fifo {
        return true;
    }
    let first = waiting.filter(|other| other.kind == job.kind).min_by_key(|other| other.sequence);
    first.is_some_and(|first| first.id == job.id)
}

/// Fewer jobs of its tenant and kind with its key hold leases than may.
pub(crate) fn has_its_key(rows: &Durable, job: &Job) -> bool {
    let (Some(key), Some(by_key)) = (&job.concurrency_key, &rows.kinds[&job.kind].policy.concurrency) else {
        return true;
    };
    let holds = rows.leases.values().filter(|lease| {
        lease.concurrency_key.as_ref() == Some(key)
            && (&lease.tenant, &lease.kind) == (&job.tenant, &job.kind)
    });
    holds.count() < by_key.limit as usize
}

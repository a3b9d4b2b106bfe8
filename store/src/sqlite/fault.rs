//! What an error of SQLite means for a commit.
//!
//! SQLite tells the names of checks and triggers that fire, but of unique keys only the columns, and of foreign keys
//! nothing. The tables here restore the names that the schema gives them.

use sqlx::error::DatabaseError;

use crate::journal::Error;

/// Unique keys by the columns that SQLite tells.
pub(super) const UNIQUE: [(&str, &str); 23] = [
    ("jobs.id", "jobs_pkey"),
    ("jobs.tenant, jobs.kind, jobs.dedupe_key", "jobs_dedupe_held"),
    ("payloads.job_id", "payloads_pkey"),
    ("results.job_id, results.token", "results_pkey"),
    ("attempts.job_id, attempts.token", "attempts_pkey"),
    ("checkpoints.job_id", "checkpoints_pkey"),
    ("log_tails.job_id, log_tails.token", "log_tails_pkey"),
    ("leases.token", "leases_pkey"),
    ("leases.job_id", "leases_one_live_per_job"),
    ("kinds.name", "kinds_pkey"),
    ("slots.name", "slots_pkey"),
    ("tenants.name", "tenants_pkey"),
    ("nodes.name", "nodes_pkey"),
    ("crons.name", "crons_pkey"),
    ("classes.class", "classes_pkey"),
    ("workflows.id", "workflows_pkey"),
    ("jobs.workflow_id, jobs.workflow_place", "jobs_one_per_place"),
    ("webhooks.name", "webhooks_pkey"),
    ("outbox.id", "outbox_pkey"),
    ("leader_fence.epoch", "leader_fence_pkey"),
    ("leader_fence.one", "leader_fence_one_row"),
    ("inbox.seq", "inbox_pkey"),
    ("inbox_refusals.seq", "inbox_refusals_pkey"),
];

/// Foreign keys by the statement that met them.
pub(super) const FOREIGN: [(&str, &str); 7] = [
    ("PAYLOAD_INSERT", "payloads_belong_to_a_job"),
    ("RESULT_INSERT", "results_belong_to_a_job"),
    ("ATTEMPT_UPSERT", "attempts_belong_to_a_job"),
    ("CHECKPOINT_UPSERT", "checkpoints_belong_to_a_job"),
    ("LOG_TAIL_UPSERT", "log_tails_belong_to_a_job"),
    ("DELIVERY_INSERT", "outbox_has_a_webhook"),
    ("WEBHOOK_DELETE", "outbox_has_a_webhook"),
];

// Result codes of SQLite, the low byte of the extended code that sqlx hands on.
const ERROR: i32 = 1; // a statement that makes no sense
const TOO_BIG: i32 = 18;
const CONSTRAINT: i32 = 19;
const MISMATCH: i32 = 20;
const RANGE: i32 = 25;
const FOREIGN_KEY: i32 = CONSTRAINT | 3 << 8;

/// What the failure of a statement means.
pub(super) fn of(statement: &'static str, error: sqlx::Error) -> Error {
    let Some((code, message)) = error.as_database_error().and_then(parts) else {
        return Error::Unavailable { doing: statement, source: Some(error.into()) };
    };
    match code & 0xff {
        CONSTRAINT => {
            Error::Constraint { name: name(statement, code, &message), statement, source: error.into() }
        }
        ERROR | TOO_BIG | MISMATCH | RANGE => Error::Refused { statement, source: error.into() },
        // Busy, full, I/O, read-only, corrupt, out of memory: nothing that the rows could do about it.
        _ => Error::Unavailable { doing: statement, source: Some(error.into()) },
    }
}

fn parts(error: &dyn DatabaseError) -> Option<(i32, String)> {
    Some((error.code()?.parse().ok()?, error.message().into()))
}

/// The name that the schema gives to what fired.
fn name(statement: &'static str, code: i32, message: &str) -> String {
    if code == FOREIGN_KEY {
        let known = FOREIGN.iter().find(|(of, _)| *of == statement);
        return known.map_or("a foreign key", |(_, name)| name).into();
    }
    // "UNIQUE constraint failed: jobs.id", "CHECK constraint failed: jobs_priority_in_range", or a trigger's word.
    let told = message.rsplit_once("constraint failed: ").map_or(message, |(_, told)| told);
    UNIQUE.iter().find(|(columns, _)| *columns == told).map_or(told, |(_, name)| name).into()
}

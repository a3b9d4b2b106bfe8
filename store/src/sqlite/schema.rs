//! Migrations: which there are, and bringing a database up to date. Forward only; see `migrations/README.md`.

use sqlx::{
    Row, SqlSafeStr, SqliteConnection,
    migrate::{Migration, MigrationType, Migrator},
};

use super::Error;

/// Number, name and text of every migration, in order.
pub(crate) const MIGRATIONS: [(u32, &str, &str); 23] = [
    (1, "create_jobs", include_str!("../../../migrations/sqlite/0001_create_jobs.sql")),
    (2, "create_leases", include_str!("../../../migrations/sqlite/0002_create_leases.sql")),
    (3, "create_fleet", include_str!("../../../migrations/sqlite/0003_create_fleet.sql")),
    (4, "create_leader_fence", include_str!("../../../migrations/sqlite/0004_create_leader_fence.sql")),
    (5, "create_invariants", include_str!("../../../migrations/sqlite/0005_create_invariants.sql")),
    (6, "mark_orphaned_leases", include_str!("../../../migrations/sqlite/0006_mark_orphaned_leases.sql")),
    (7, "add_tracestate", include_str!("../../../migrations/sqlite/0007_add_tracestate.sql")),
    (8, "add_slot_rates", include_str!("../../../migrations/sqlite/0008_add_slot_rates.sql")),
    (9, "add_child_waits", include_str!("../../../migrations/sqlite/0009_add_child_waits.sql")),
    (10, "name_tenant_of_leases", include_str!("../../../migrations/sqlite/0010_name_tenant_of_leases.sql")),
    (11, "create_tenants", include_str!("../../../migrations/sqlite/0011_create_tenants.sql")),
    (12, "throttle_slots", include_str!("../../../migrations/sqlite/0012_throttle_slots.sql")),
    (13, "add_budgets", include_str!("../../../migrations/sqlite/0013_add_budgets.sql")),
    (14, "add_concurrency_keys", include_str!("../../../migrations/sqlite/0014_add_concurrency_keys.sql")),
    (15, "add_parked_leases", include_str!("../../../migrations/sqlite/0015_add_parked_leases.sql")),
    (16, "add_partial_results", include_str!("../../../migrations/sqlite/0016_add_partial_results.sql")),
    (17, "create_workflows", include_str!("../../../migrations/sqlite/0017_create_workflows.sql")),
    (18, "create_crons", include_str!("../../../migrations/sqlite/0018_create_crons.sql")),
    (19, "create_outbox", include_str!("../../../migrations/sqlite/0019_create_outbox.sql")),
    (20, "add_result_objects", include_str!("../../../migrations/sqlite/0020_add_result_objects.sql")),
    (21, "create_log_tails", include_str!("../../../migrations/sqlite/0021_create_log_tails.sql")),
    (22, "create_inbox", include_str!("../../../migrations/sqlite/0022_create_inbox.sql")),
    (23, "note_left_results", include_str!("../../../migrations/sqlite/0023_note_left_results.sql")),
];

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 2] = [MIGRATIONS_EXIST, SCHEMA_VERSION];

const MIGRATIONS_EXIST: &str =
    "select count(*) from sqlite_schema where type = 'table' and name = '_sqlx_migrations'";

pub(super) const SCHEMA_VERSION: &str =
    "select coalesce(max(version), 0) from _sqlx_migrations where success";

/// The newest migration that this version knows.
pub(crate) fn newest() -> u64 {
    MIGRATIONS.last().map_or(0, |(number, ..)| u64::from(*number))
}

/// Applies what is missing, each migration in one transaction.
///
/// # Errors
/// If the database is newer than this version, or a migration fails or was changed after it had been applied.
pub(super) async fn bring_up_to_date(connection: &mut SqliteConnection) -> Result<(), Error> {
    let found = found(connection).await.map_err(|source| Error::Migrate(source.into()))?;
    if found > newest() {
        return Err(Error::Newer { found, known: newest() });
    }
    migrator(&MIGRATIONS)
        .run_direct(None, connection, false)
        .await
        .map_err(|source| Error::Migrate(source.into()))
}

/// What applies these migrations, and compares those that are applied with their text.
pub(crate) fn migrator(migrations: &[(u32, &'static str, &'static str)]) -> Migrator {
    let migration = |&(number, name, sql): &(u32, &'static str, &'static str)| {
        Migration::new(i64::from(number), name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(migrations.iter().map(migration).collect())
}

/// The newest migration of a database; 0 for a new one.
async fn found(connection: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
    let exist: i64 = sqlx::query(MIGRATIONS_EXIST).fetch_one(&mut *connection).await?.try_get(0)?;
    if exist == 0 {
        return Ok(0);
    }
    let version: i64 = sqlx::query(SCHEMA_VERSION).fetch_one(connection).await?.try_get(0)?;
    Ok(u64::try_from(version).unwrap_or(0))
}

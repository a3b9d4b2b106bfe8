//! Migrations: which there are, which are applied, and bringing a database up to date. Forward only; see
//! `migrations/README.md`.

use std::collections::BTreeMap;

use sqlx::{
    PgConnection, Row, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

use super::{Address, Error, connect, fault};
use crate::journal;

/// Number, name and text of every migration, in order.
pub(super) const MIGRATIONS: [(u32, &str, &str); 23] = [
    (1, "create_jobs", include_str!("../../../migrations/postgres/0001_create_jobs.sql")),
    (2, "create_leases", include_str!("../../../migrations/postgres/0002_create_leases.sql")),
    (3, "create_fleet", include_str!("../../../migrations/postgres/0003_create_fleet.sql")),
    (4, "create_leader_fence", include_str!("../../../migrations/postgres/0004_create_leader_fence.sql")),
    (5, "create_invariants", include_str!("../../../migrations/postgres/0005_create_invariants.sql")),
    (6, "mark_orphaned_leases", include_str!("../../../migrations/postgres/0006_mark_orphaned_leases.sql")),
    (7, "add_tracestate", include_str!("../../../migrations/postgres/0007_add_tracestate.sql")),
    (8, "add_slot_rates", include_str!("../../../migrations/postgres/0008_add_slot_rates.sql")),
    (9, "add_child_waits", include_str!("../../../migrations/postgres/0009_add_child_waits.sql")),
    (
        10,
        "name_tenant_of_leases",
        include_str!("../../../migrations/postgres/0010_name_tenant_of_leases.sql"),
    ),
    (11, "create_tenants", include_str!("../../../migrations/postgres/0011_create_tenants.sql")),
    (12, "throttle_slots", include_str!("../../../migrations/postgres/0012_throttle_slots.sql")),
    (13, "add_budgets", include_str!("../../../migrations/postgres/0013_add_budgets.sql")),
    (14, "add_concurrency_keys", include_str!("../../../migrations/postgres/0014_add_concurrency_keys.sql")),
    (15, "add_parked_leases", include_str!("../../../migrations/postgres/0015_add_parked_leases.sql")),
    (16, "add_partial_results", include_str!("../../../migrations/postgres/0016_add_partial_results.sql")),
    (17, "create_workflows", include_str!("../../../migrations/postgres/0017_create_workflows.sql")),
    (18, "create_crons", include_str!("../../../migrations/postgres/0018_create_crons.sql")),
    (19, "create_outbox", include_str!("../../../migrations/postgres/0019_create_outbox.sql")),
    (20, "add_result_objects", include_str!("../../../migrations/postgres/0020_add_result_objects.sql")),
    (21, "create_log_tails", include_str!("../../../migrations/postgres/0021_create_log_tails.sql")),
    (22, "create_inbox", include_str!("../../../migrations/postgres/0022_create_inbox.sql")),
    (23, "note_left_results", include_str!("../../../migrations/postgres/0023_note_left_results.sql")),
];

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 3] = [MIGRATIONS_EXIST, MIGRATION_LIST, SCHEMA_VERSION];

const MIGRATIONS_EXIST: &str = "select to_regclass('_sqlx_migrations') is not null";

const MIGRATION_LIST: &str = "select version, checksum from _sqlx_migrations where success order by version";

pub(super) const SCHEMA_VERSION: &str =
    "select coalesce(max(version), 0) from _sqlx_migrations where success";

/// A migration, and whether the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationState {
    /// Its number.
    pub number: u64,
    /// What it does; of one that only a later version knows: empty.
    pub name: String,
    /// Whether it is applied.
    pub applied: bool,
}

/// The newest migration that this version knows.
pub(crate) fn newest() -> u64 {
    MIGRATIONS.last().map_or(0, |(number, ..)| u64::from(*number))
}

/// Every migration that this version knows or the database has.
///
/// # Errors
/// If the database cannot be asked.
pub async fn status(address: &Address) -> Result<Vec<MigrationState>, Error> {
    let mut connection = connect::operator(address).await?;
    let applied = applied(&mut connection).await?;
    connect::end(connection).await;
    Ok(states(&applied))
}

/// What [`migrate`] would apply.
///
/// # Errors
/// If the database cannot be asked, or is newer than this version.
pub async fn plan(address: &Address) -> Result<Vec<MigrationState>, Error> {
    let mut connection = connect::operator(address).await?;
    let applied = applied(&mut connection).await?;
    connect::end(connection).await;
    refuse_newer(&applied)?;
    refuse_changed(&applied)?;
    Ok(states(&applied).into_iter().filter(|state| !state.applied).collect())
}

/// Applies what is missing, each migration in one transaction, under an advisory lock: a second one that runs at the
/// same time waits for the first and finds nothing to do. Tells what it applied.
///
/// # Errors
/// If the database is newer than this version, or a migration fails or was changed after it had been applied.
pub async fn migrate(address: &Address) -> Result<Vec<MigrationState>, Error> {
    let mut connection = connect::operator(address).await?;
    let before = applied(&mut connection).await?;
    refuse_newer(&before)?;
    refuse_changed(&before)?;
    bring_up_to_date(&mut connection).await?;
    connect::end(connection).await;
    Ok(states(&before).into_iter().filter(|state| !state.applied).collect())
}

/// At the start: the schema must be the one of this version, or becomes it.
///
/// # Errors
/// If it is newer, or older and nobody said that it may be migrated.
pub(super) async fn check(connection: &mut PgConnection, migrate: bool) -> Result<(), Error> {
    let applied = applied(connection).await?;
    refuse_newer(&applied)?;
    refuse_changed(&applied)?;
    // The newest before the first that is missing.
    let whole = MIGRATIONS.iter().take_while(|(number, ..)| applied.contains_key(&u64::from(*number)));
    let found = whole.last().map_or(0, |(number, ..)| u64::from(*number));
    if found == newest() {
        return Ok(()); // nothing is asked for that a role without rights on the schema may not do
    }
    if migrate { bring_up_to_date(connection).await } else { Err(Error::Older { found, known: newest() }) }
}

fn newest_of(applied: &Applied) -> u64 {
    applied.last_key_value().map_or(0, |(number, _)| *number)
}

fn refuse_changed(applied: &Applied) -> Result<(), Error> {
    for migration in migrator(&MIGRATIONS).iter() {
        let number = u64::try_from(migration.version).unwrap_or(0);
        if applied.get(&number).is_some_and(|checksum| **checksum != *migration.checksum) {
            return Err(Error::Changed { number, name: migration.description.to_string() });
        }
    }
    Ok(())
}

fn refuse_newer(applied: &Applied) -> Result<(), Error> {
    let found = newest_of(applied);
    if found > newest() { Err(Error::Newer { found, known: newest() }) } else { Ok(()) }
}

/// Before a takeover, in its transaction.
///
/// # Errors
/// [`journal::Error::Newer`], or that the database cannot be asked.
pub(super) async fn refuse_newer_now(connection: &mut PgConnection) -> Result<(), journal::Error> {
    let failed = |error| fault::of("SCHEMA_VERSION", error);
    let row = sqlx::query(SCHEMA_VERSION).fetch_one(connection).await.map_err(failed)?;
    let found = u64::try_from(row.try_get::<i64, _>(0).map_err(failed)?).unwrap_or(0);
    if found > newest() { Err(journal::Error::Newer { found, known: newest() }) } else { Ok(()) }
}

async fn bring_up_to_date(connection: &mut PgConnection) -> Result<(), Error> {
    migrator(&MIGRATIONS)
        .run_direct(None, connection, false)
        .await
        .map_err(|source| Error::Migrate(source.into()))
}

/// What applies these migrations, and compares those that are applied with their text.
pub(super) fn migrator(migrations: &[(u32, &'static str, &'static str)]) -> Migrator {
    let migration = |&(number, name, sql): &(u32, &'static str, &'static str)| {
        Migration::new(i64::from(number), name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(migrations.iter().map(migration).collect())
}

/// The migrations of a database, with their checksums.
type Applied = BTreeMap<u64, Vec<u8>>;

/// The migrations of a database; none of a new one.
async fn applied(connection: &mut PgConnection) -> Result<Applied, Error> {
    let failed = |error: sqlx::Error| Error::Open(error.into());
    let exist = sqlx::query(MIGRATIONS_EXIST).fetch_one(&mut *connection).await.map_err(failed)?;
    if !exist.try_get::<bool, _>(0).map_err(failed)? {
        return Ok(Applied::new());
    }
    let mut all = Applied::new();
    for row in sqlx::query(MIGRATION_LIST).fetch_all(connection).await.map_err(failed)? {
        let number: i64 = row.try_get(0).map_err(failed)?;
        all.insert(u64::try_from(number).unwrap_or(0), row.try_get(1).map_err(failed)?);
    }
    Ok(all)
}

fn states(applied: &Applied) -> Vec<MigrationState> {
    let known = MIGRATIONS.iter().map(|(number, name, _)| {
        let number = u64::from(*number);
        MigrationState { number, name: (*name).to_owned(), applied: applied.contains_key(&number) }
    });
    let later = applied.keys().filter(|number| **number > newest());
    let later = later.map(|&number| MigrationState { number, name: String::new(), applied: true });
    known.chain(later).collect()
}

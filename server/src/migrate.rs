//! The schema of the Postgres database, for an operator. A SQLite file is brought up to date at every start.

use tenure_store::postgres;

pub use tenure_store::postgres::MigrationState;

use crate::config::{Config, Unreadable};

/// Why the schema cannot be told or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody named a database.
    #[error(
        "no Postgres database is named: give --config, or DATABASE_URL (a SQLite file is migrated by every start)"
    )]
    NoDatabase,
    /// Its address cannot be had.
    #[error("the database is not known")]
    Address(#[from] Unreadable),
    /// It cannot be reached, or migrated.
    #[error("the schema cannot be looked at")]
    Database(#[from] postgres::Error),
}

/// Every migration that this version knows or the database has.
///
/// # Errors
/// Each is a sentence for the operator.
pub async fn status(config: &Config) -> Result<Vec<MigrationState>, Error> {
    Ok(postgres::status(&address(config)?).await?)
}

/// What [`run`] would apply.
///
/// # Errors
/// As [`run`], but for a migration that fails.
pub async fn plan(config: &Config) -> Result<Vec<MigrationState>, Error> {
    Ok(postgres::plan(&address(config)?).await?)
}

/// Applies what is missing, under an advisory lock. Tells what it applied.
///
/// # Errors
/// Each is a sentence for the operator; migrations before the one that failed stay applied.
pub async fn run(config: &Config) -> Result<Vec<MigrationState>, Error> {
    Ok(postgres::migrate(&address(config)?).await?)
}

fn address(config: &Config) -> Result<postgres::Address, Error> {
    let database = config.database.as_ref().ok_or(Error::NoDatabase)?;
    Ok(database.address()?)
}

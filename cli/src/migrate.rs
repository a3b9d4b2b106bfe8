//! `tenure migrate`: the schema of the Postgres database.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tenure_server::migrate::{self, MigrationState};

use crate::exit::{Exit, Failure};
use crate::output::{Output, Table, note};
use crate::server::database_config;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Lists the migrations, and which of them the database has.
    Status(Which),
    /// Applies what is missing. Two at once do no harm: the second waits, and finds nothing to do.
    Run {
        #[command(flatten)]
        which: Which,
        /// Only tell what would be applied.
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which database.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The server file that names it. Default: DATABASE_URL.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs one verb.
pub(crate) async fn run(command: MigrateCommand, output: &Output) -> Result<Exit, Failure> {
    let (which, apply) = match command {
        MigrateCommand::Status(which) => return show(&known(&which).await?, output),
        MigrateCommand::Run { which, dry_run } => (which, !dry_run),
    };
    if apply {
        let config = database_config(which.config.as_deref(), true, false)?;
        let applied = migrate::run(&config).await.map_err(failed)?;
        let applied: Vec<_> =
            applied.into_iter().map(|done| MigrationState { applied: true, ..done }).collect();
        return told(&applied, "up to date already: nothing was applied", output);
    }
    let config = database_config(which.config.as_deref(), true, false)?;
    let missing = migrate::plan(&config).await.map_err(failed)?;
    told(&missing, "up to date: nothing would be applied", output)
}

async fn known(which: &Which) -> Result<Vec<MigrationState>, Failure> {
    let config = database_config(which.config.as_deref(), true, false)?;
    migrate::status(&config).await.map_err(failed)
}

fn failed(source: migrate::Error) -> Failure {
    Failure::Component { what: "the schema of the database", source: source.into() }
}

fn told(migrations: &[MigrationState], nothing: &str, output: &Output) -> Result<Exit, Failure> {
    if migrations.is_empty() && !output.is_data() {
        note(nothing);
        return Ok(Exit::Ok);
    }
    show(migrations, output)
}

fn show(migrations: &[MigrationState], output: &Output) -> Result<Exit, Failure> {
    if output.is_data() {
        let all = migrations.iter().map(|migration| {
            let MigrationState { number, name, applied } = migration;
            serde_json::json!({"number": number, "name": name, "applied": applied})
        });
        output.value(&serde_json::json!({"migrations": all.collect::<Vec<_>>()}))?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::default();
    for MigrationState { number, name, applied } in migrations {
        let name = if name.is_empty() { "of a later version" } else { name };
        let state = if *applied { "applied" } else { "missing" };
        table.row([format!("{number:04}").into(), name.into(), state.into()]);
    }
    output.table(&table)?;
    Ok(Exit::Ok)
}

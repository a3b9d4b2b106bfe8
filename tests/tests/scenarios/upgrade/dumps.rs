//! Databases as text: made from it, and written as such.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use ring::digest::{SHA384, digest};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, SqliteConnection};
use tenure_tests::{Fleet, binary};
use tokio::process::Command;

use super::Stored;

/// The database that a fleet's server has, or will have.
pub(super) enum Database {
    /// This file.
    Sqlite(PathBuf),
    /// One of this name, asked by `psql` in this environment.
    Postgres { programs: PathBuf, environment: Vec<(&'static str, PathBuf)>, name: String },
}

fn dump_of(store: &str, number: u32) -> PathBuf {
    binary::repository().join(format!("tests/data/{store}/{number:04}.sql"))
}

/// The newest version up to this one of which there is a dump.
pub(super) fn newest_dump(number: u32) -> anyhow::Result<u32> {
    let files = fs::read_dir(binary::repository().join("tests/data/sqlite"))?.flatten();
    let numbers = files.filter_map(|file| file.path().file_stem()?.to_str()?.parse().ok());
    numbers.filter(|found| *found <= number).max().context("no dump")
}

const STATES: &str = "select state, count(*) from jobs group by state order by state";
const RESULTS: &str = "select job_id from results order by job_id";
const EPOCH: &str = "select epoch from leader_fence";

impl Database {
    /// That of a running fleet.
    pub(super) fn of(fleet: &Fleet) -> Self {
        match fleet.postgres() {
            Err(_) => Self::Sqlite(fleet.directory().join("data/tenure.db")),
            Ok(cluster) => Self::Postgres {
                programs: cluster.programs().to_owned(),
                environment: cluster.environment().to_vec(),
                name: "test_0".to_owned(),
            },
        }
    }

    /// Gives a fleet whose server does not run the database of a dump, in place of its own.
    pub(super) async fn restore(fleet: &Fleet, number: u32) -> anyhow::Result<Self> {
        match Self::of(fleet) {
            Self::Sqlite(file) => {
                let data = file.parent().context("a directory")?;
                for entry in fs::read_dir(data)?.flatten() {
                    if entry.file_name().to_string_lossy().starts_with("tenure.db") {
                        fs::remove_file(entry.path())?;
                    }
                }
                let text = fs::read_to_string(dump_of("sqlite", number))?;
                let mut connection = sqlite(&file, true).await?;
                sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await?;
                connection.close().await?;
                Ok(Self::Sqlite(file))
            }
            Self::Postgres { programs, environment, .. } => {
                let url = fleet.postgres()?.database()?;
                let name = url.split_once('?').and_then(|(before, _)| Some(before.rsplit_once('/')?.1));
                let name = name.context("not as the harness writes it")?.to_owned();
                fs::write(fleet.directory().join("database-url"), &url)?;
                let database = Self::Postgres { programs, environment, name };
                let ran =
                    database.psql(&[])?.stdin(File::open(dump_of("postgres", number))?).output().await?;
                ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
                Ok(database)
            }
        }
    }

    /// Applies the migrations up to `number` that it lacks, as a server of that version would have.
    pub(super) async fn migrate_to(&self, number: u32) -> anyhow::Result<()> {
        let (store, digits) = match self {
            Self::Sqlite(_) => ("sqlite", ["x'", "'"]),
            Self::Postgres { .. } => ("postgres", ["'\\x", "'"]),
        };
        let found = self.rows("select max(version) from _sqlx_migrations").await?;
        let found: u32 = found.into_iter().flatten().next().context("no migrations")?.parse()?;
        let directory = binary::repository().join("migrations").join(store);
        let mut files: Vec<PathBuf> = fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files {
            let stem = file.file_stem().context("a name")?.to_string_lossy();
            let (version, name) = stem.split_once('_').context("not as migrations are named")?;
            if !(found + 1..=number).contains(&version.parse()?) {
                continue;
            }
            let text = fs::read_to_string(&file)?;
            let sum = digest(&SHA384, text.as_bytes());
            let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            let [before, after] = digits;
            let note = format!(
                "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
                 values ({}, '{name}', true, {before}{sum}{after}, 0);",
                version.parse::<u32>()?
            );
            self.execute(&format!("begin;\n{text}\n{note}\ncommit;\n")).await?;
        }
        Ok(())
    }

    /// Carries out statements as the owner.
    pub(super) async fn execute(&self, text: &str) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(file) => {
                let mut connection = sqlite(file, false).await?;
                sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut connection).await?;
                Ok(connection.close().await?)
            }
            Self::Postgres { .. } => {
                let ran = self.psql(&["-c", text])?.output().await?;
                ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
                Ok(())
            }
        }
    }

    /// Tables that have no row.
    pub(super) async fn empty_tables(&self) -> anyhow::Result<Vec<String>> {
        let tables = match self {
            Self::Sqlite(_) => {
                "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name"
            }
            Self::Postgres { .. } => {
                "select tablename from pg_tables where schemaname = 'public' order by tablename"
            }
        };
        let mut empty = Vec::new();
        for table in self.rows(tables).await?.into_iter().flatten() {
            if self.rows(&format!("select 1 from {table} limit 1")).await?.is_empty() {
                empty.push(table);
            }
        }
        Ok(empty)
    }

    fn psql(&self, args: &[&str]) -> anyhow::Result<Command> {
        let Self::Postgres { programs, environment, name } = self else { anyhow::bail!("it is a file") };
        let mut psql = Command::new(programs.join("psql"));
        psql.envs(environment.iter().map(|(name, value)| (name, value)));
        psql.args(["-X", "-q", "-A", "-t", "-F", "|", "-v", "ON_ERROR_STOP=1", "-d", name]).args(args);
        psql.stdin(Stdio::null());
        Ok(psql)
    }

    /// The rows of a query, as text.
    pub(super) async fn rows(&self, query: &str) -> anyhow::Result<Vec<Vec<String>>> {
        match self {
            Self::Sqlite(file) => {
                let mut connection = sqlite(file, false).await?;
                let found = sqlx::query(AssertSqlSafe(query.to_owned())).fetch_all(&mut connection).await?;
                connection.close().await?;
                let cell = |row: &sqlx::sqlite::SqliteRow, at: usize| {
                    let text = row.try_get::<String, _>(at);
                    text.or_else(|_| row.try_get::<i64, _>(at).map(|number| number.to_string()))
                };
                found.iter().map(|row| (0..row.len()).map(|at| Ok(cell(row, at)?)).collect()).collect()
            }
            Self::Postgres { .. } => {
                let ran = self.psql(&["-c", query])?.output().await?;
                ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
                let text = String::from_utf8(ran.stdout)?;
                Ok(text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect())
            }
        }
    }

    /// What is to be found again.
    pub(super) async fn stored(&self) -> anyhow::Result<Stored> {
        let states = self.rows(STATES).await?.into_iter();
        let states = states.map(|row| match row.as_slice() {
            [state, count] => Ok((state.clone(), count.parse()?)),
            other => anyhow::bail!("{other:?}"),
        });
        let results = self.rows(RESULTS).await?.into_iter().flatten().collect();
        let epoch = self.rows(EPOCH).await?.into_iter().flatten().next().context("no epoch")?.parse()?;
        Ok(Stored { states: states.collect::<anyhow::Result<_>>()?, results, epoch })
    }

    /// Writes its dump, as that after migration `number`.
    pub(super) async fn dump(&self, number: u32) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(file) => {
                let text = text_of(file).await?;
                Ok(fs::write(dump_of("sqlite", number), text)?)
            }
            Self::Postgres { programs, environment, name } => {
                let mut dump = Command::new(programs.join("pg_dump"));
                dump.envs(environment.iter().map(|(name, value)| (name, value)));
                dump.args(["--no-owner", "--no-acl", "--column-inserts", "-d", name]);
                let ran = dump.output().await?;
                ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
                let text = String::from_utf8(ran.stdout)?;
                // Without the commands of one version of psql, and without what an older server does not know.
                let lines = text.lines().filter(|line| {
                    !line.starts_with('\\')
                        && !line.starts_with("--")
                        && !line.contains("transaction_timeout")
                });
                let mut kept = String::new();
                for line in lines {
                    if !(line.is_empty() && (kept.is_empty() || kept.ends_with("\n\n"))) {
                        kept.push_str(line);
                        kept.push('\n');
                    }
                }
                Ok(fs::write(dump_of("postgres", number), kept)?)
            }
        }
    }
}

async fn sqlite(file: &Path, new: bool) -> anyhow::Result<SqliteConnection> {
    Ok(SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(new)
        .foreign_keys(false)
        .connect()
        .await?)
}

/// Every table with its rows, then everything that stands on them.
async fn text_of(file: &Path) -> anyhow::Result<String> {
    const TABLES: &str = "select name, sql from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by rowid";
    const OTHERS: &str =
        "select sql from sqlite_schema where type <> 'table' and sql is not null order by rowid";
    let mut connection = sqlite(file, false).await?;
    let mut text = "begin;\n".to_owned();
    for table in sqlx::query(TABLES).fetch_all(&mut connection).await? {
        let (name, sql): (String, String) = (table.try_get(0)?, table.try_get(1)?);
        text.push_str(&format!("{sql};\n"));
        let about = AssertSqlSafe(format!("select name from pragma_table_info('{name}')"));
        let columns = sqlx::query(about).fetch_all(&mut connection).await?;
        let columns: Vec<String> = columns.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let quoted: Vec<String> = columns.iter().map(|column| format!("quote({column})")).collect();
        let values = quoted.join(" || ', ' || ");
        let rows = AssertSqlSafe(format!("select {values} from {name} order by 1"));
        for row in sqlx::query(rows).fetch_all(&mut connection).await? {
            let values: String = row.try_get(0)?;
            text.push_str(&format!("insert into {name} ({}) values ({values});\n", columns.join(", ")));
        }
    }
    for other in sqlx::query(OTHERS).fetch_all(&mut connection).await? {
        let sql: String = other.try_get(0)?;
        text.push_str(&format!("{sql};\n"));
    }
    text.push_str("commit;\n");
    connection.close().await?;
    Ok(text)
}

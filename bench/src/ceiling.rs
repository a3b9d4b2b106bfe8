//! The ceiling: the same rows as those of the server, by bare set-based SQL on one connection of the same database.
//!
//! Responsible for the least that has to be written for a lifecycle, in turns of 500: epoch check, 500 jobs inserted as
//! running with payload and lease, the 500 of the turn before finished and their leases deleted; and for an enqueue: epoch
//! check, 500 jobs inserted as queued with payload. What is the same in all rows is a constant of the statement, so that
//! the database is the only cost: no scheduler, no wire, no rows made of values. It is not to be reached.
//!
//! And the bare commit: one small row on a connection of its own, which is one flush of the disk and little else.

mod postgres;
mod sqlite;

use std::time::Duration;

use sqlx::Connection as _;
use tenure_tests::clock::Moment;
use uuid::Uuid;

use crate::args::Amount;
use crate::bed::{Bed, Place};
use crate::figure::rate;

/// Jobs a turn.
const TURN: u64 = 500;

/// The first token that no server of the same run grants: those of epoch 1,000.
const FIRST_TOKEN: i64 = 1_000 << 40;

/// One connection, and what the next turn goes on from.
#[derive(Debug)]
pub(crate) struct Ceiling {
    database: Database,
    epoch: i64,
    payload: Vec<u8>,
    /// Of the newest job and lease.
    last: i64,
    /// The rows that the next turn finishes.
    running: Rows,
}

#[derive(Debug)]
enum Database {
    Postgres(Box<sqlx::PgConnection>),
    Sqlite(Box<sqlx::SqliteConnection>),
}

/// Jobs with their tokens, which serve as their sequence too.
#[derive(Clone, Debug, Default)]
struct Rows {
    ids: Vec<Uuid>,
    tokens: Vec<i64>,
}

impl Ceiling {
    /// Opens its connection to a database with the schema that nobody else uses.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn open(place: &Place, payload: u32) -> anyhow::Result<Self> {
        let (database, epoch) = match place {
            Place::Postgres(url) => {
                let (connection, epoch) = postgres::open(url).await?;
                (Database::Postgres(Box::new(connection)), epoch)
            }
            Place::Sqlite(data) => {
                let (connection, epoch) = sqlite::open(&data.join("tenure.db")).await?;
                (Database::Sqlite(Box::new(connection)), epoch)
            }
        };
        let payload = vec![b'x'; usize::try_from(payload)?];
        Ok(Self { database, epoch, payload, last: FIRST_TOKEN, running: Rows::default() })
    }

    /// Lifecycles a second.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn lifecycles(&mut self, amount: Amount) -> anyhow::Result<f64> {
        let began = Moment::now();
        let mut count = 0;
        while goes_on(amount, began, count) {
            let new = self.rows();
            match &mut self.database {
                Database::Postgres(connection) => {
                    postgres::lifecycle(connection, self.epoch, &new, &self.payload, &self.running).await?;
                }
                Database::Sqlite(connection) => {
                    sqlite::lifecycle(connection, self.epoch, &new, &self.payload, &self.running).await?;
                }
            }
            self.running = new;
            count += TURN;
        }
        Ok(rate(count, began.elapsed()))
    }

    /// Enqueues a second.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn enqueues(&mut self, amount: Amount) -> anyhow::Result<f64> {
        let began = Moment::now();
        let mut count = 0;
        while goes_on(amount, began, count) {
            let new = self.rows();
            match &mut self.database {
                Database::Postgres(connection) => {
                    postgres::enqueue(connection, self.epoch, &new, &self.payload).await?;
                }
                Database::Sqlite(connection) => {
                    sqlite::enqueue(connection, self.epoch, &new, &self.payload).await?;
                }
            }
            count += TURN;
        }
        Ok(rate(count, began.elapsed()))
    }

    /// Lays so many jobs that wait, and a few more, to the end of a turn. How many.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn lay(&mut self, jobs: u64) -> anyhow::Result<u64> {
        self.enqueues(Amount::Jobs(jobs)).await?;
        Ok(jobs.next_multiple_of(TURN))
    }

    /// Closes its connection.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self.database {
            Database::Postgres(connection) => connection.close().await?,
            Database::Sqlite(connection) => connection.close().await?,
        }
        Ok(())
    }

    fn rows(&mut self) -> Rows {
        let first = self.last + 1;
        self.last += i64::try_from(TURN).unwrap_or(0);
        Rows { ids: (0..TURN).map(|_| Uuid::now_v7()).collect(), tokens: (first..=self.last).collect() }
    }
}

/// Half of what is measured beside it: it is much faster, and less varied.
fn goes_on(amount: Amount, began: Moment, count: u64) -> bool {
    match amount {
        Amount::Jobs(jobs) => count < jobs,
        Amount::For(length) => began.elapsed() < length / 2,
    }
}

/// A connection with a table of its own, for bare commits.
#[derive(Debug)]
pub(crate) struct Commits(Database);

impl Commits {
    /// Opens it: on Postgres in the same cluster, on SQLite a file beside the others, since a file has one writer.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn open(bed: &Bed) -> anyhow::Result<Self> {
        const TABLE: &str = "create table commits (id bigint primary key)";
        match bed.place()? {
            Place::Postgres(url) => {
                let mut connection = crate::bed::postgres(&url).await?;
                sqlx::raw_sql(TABLE).execute(&mut connection).await?;
                Ok(Self(Database::Postgres(Box::new(connection))))
            }
            Place::Sqlite(data) => {
                std::fs::create_dir_all(&data)?;
                let mut connection = crate::bed::sqlite(&data.join("commits.db")).await?;
                sqlx::raw_sql(TABLE).execute(&mut connection).await?;
                Ok(Self(Database::Sqlite(Box::new(connection))))
            }
        }
    }

    /// How long one takes.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn one(&mut self, number: i64) -> anyhow::Result<Duration> {
        const ROW: &str = "insert into commits (id) values ($1)";
        let began = Moment::now();
        match &mut self.0 {
            Database::Postgres(connection) => {
                sqlx::query(ROW).bind(number).execute(&mut **connection).await?;
            }
            Database::Sqlite(connection) => {
                sqlx::query(ROW).bind(number).execute(&mut **connection).await?;
            }
        }
        Ok(began.elapsed())
    }
}

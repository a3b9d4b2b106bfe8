//! Rows ↔ scheduler types: the only place where the two meet. Scheduler types carry no serde and no SQL.
//!
//! Writing: a row becomes a struct whose fields are the columns, and a batch of them one JSON text, of lists or of maps.
//! Reading: the columns of a row come in the order of the statement, through a trait that each database implements. What
//! is a map or a list is one JSON text in one column. Instants and lengths are whole microseconds; a number beyond a
//! signed 64-bit column is stored as the end of its range.
//!
//! Invariant: what was written is read back equal (lengths to the microsecond), or refused with table and key; nothing
//! here panics, whatever a row holds.

mod cells;
mod crons;
mod families;
mod fleet;
mod jobs;
mod json;
mod leases;
mod positional;
mod selector;
mod webhooks;
mod workflows;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use serde::{Serialize, Serializer as _, de::DeserializeOwned};
use tenure_scheduler::{FencingToken, JobId, Wall, micros};
use uuid::Uuid;

use self::positional::{mapped, positional};

pub(crate) use self::{
    cells::{Arrays, At, Cell, Hex, JSONB_VERSION, Json, Text},
    crons::{CronRow, read_cron},
    fleet::{
        KindRow, NodeRow, SlotRow, TenantRow, TimelineRow, read_class, read_kind, read_node, read_slot,
        read_tenant,
    },
    jobs::{AttemptRow, CutoffRow, JobRow, KeyRow, job_columns, read_attempt, read_job},
    leases::{LeaseRow, read_lease},
    webhooks::{DeliveryChangeRow, DeliveryRow, WebhookRow, read_delivery, read_webhook},
    workflows::{
        WorkflowRow, put_ends, read_count, read_end, read_member, read_workflow, read_workflow_id,
        workflow_columns,
    },
};

/// A row that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{table} {key}: {problem}")]
pub struct Error {
    /// The table.
    pub table: &'static str,
    /// The key of the row, as text.
    pub key: String,
    /// What is wrong. It names the column, and never shows what is in it.
    pub problem: String,
}

/// The columns of one row, from the first to the last. An error is a sentence without the value.
pub(crate) trait Columns {
    fn text(&mut self) -> Result<Option<&str>, String>;
    fn int(&mut self) -> Result<Option<i64>, String>;
    /// Whole microseconds since 1970, UTC.
    fn instant(&mut self) -> Result<Option<i64>, String>;
    fn flag(&mut self) -> Result<Option<bool>, String>;
    fn bytes(&mut self) -> Result<Option<&[u8]>, String>;
    fn id(&mut self) -> Result<Option<Uuid>, String>;
}

/// Texts that many rows share, so that a million jobs of one kind hold its name once.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeSet<Arc<str>>);

impl Names {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}

/// The columns of one row of a table, typed.
pub(crate) struct Fields<'a> {
    table: &'static str,
    key: String,
    columns: &'a mut dyn Columns,
    names: &'a mut Names,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(table: &'static str, columns: &'a mut dyn Columns, names: &'a mut Names) -> Self {
        Self { table, key: "(key not read)".into(), columns, names }
    }

    /// What is said of the row in an error from now on.
    fn set_key(&mut self, key: &dyn fmt::Display) {
        self.key = key.to_string();
    }

    fn wrong(&self, column: &'static str, problem: &dyn fmt::Display) -> Error {
        Error { table: self.table, key: self.key.clone(), problem: format!("{column} {problem}") }
    }

    fn some<T>(&self, column: &'static str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| self.wrong(column, &"is null"))
    }

    fn opt_text<T>(
        &mut self,
        column: &'static str,
        make: impl FnOnce(&str) -> T,
    ) -> Result<Option<T>, Error> {
        match self.columns.text() {
            Ok(text) => Ok(text.map(make)),
            Err(problem) => Err(self.wrong(column, &problem)),
        }
    }

    fn text<T>(&mut self, column: &'static str, make: impl FnOnce(&str) -> T) -> Result<T, Error> {
        let text = self.opt_text(column, make)?;
        self.some(column, text)
    }

    /// A text that other rows have too.
    fn opt_name<T>(
        &mut self,
        column: &'static str,
        make: impl FnOnce(Arc<str>) -> T,
    ) -> Result<Option<T>, Error> {
        match self.columns.text() {
            Ok(text) => Ok(text.map(|text| make(self.names.share(text)))),
            Err(problem) => Err(self.wrong(column, &problem)),
        }
    }

    fn name<T>(&mut self, column: &'static str, make: impl FnOnce(Arc<str>) -> T) -> Result<T, Error> {
        let name = self.opt_name(column, make)?;
        self.some(column, name)
    }

    fn opt_int<T: TryFrom<i64>>(&mut self, column: &'static str) -> Result<Option<T>, Error> {
        let number = self.columns.int().map_err(|problem| self.wrong(column, &problem))?;
        let fits = |number| T::try_from(number).map_err(|_| self.wrong(column, &"is out of range"));
        number.map(fits).transpose()
    }

    fn int<T: TryFrom<i64>>(&mut self, column: &'static str) -> Result<T, Error> {
        let number = self.opt_int(column)?;
        self.some(column, number)
    }

    fn opt_wall(&mut self, column: &'static str) -> Result<Option<Wall>, Error> {
        let at = self.columns.instant().map_err(|problem| self.wrong(column, &problem))?;
        Ok(at.map(Wall))
    }

    fn wall(&mut self, column: &'static str) -> Result<Wall, Error> {
        let at = self.opt_wall(column)?;
        self.some(column, at)
    }

    fn token(&mut self, column: &'static str) -> Result<FencingToken, Error> {
        self.int(column).map(FencingToken)
    }

    fn length(&mut self, column: &'static str) -> Result<Duration, Error> {
        self.int(column).map(Duration::from_micros)
    }

    fn opt_length(&mut self, column: &'static str) -> Result<Option<Duration>, Error> {
        Ok(self.opt_int(column)?.map(Duration::from_micros))
    }

    fn flag(&mut self, column: &'static str) -> Result<bool, Error> {
        let flag = self.columns.flag().map_err(|problem| self.wrong(column, &problem))?;
        self.some(column, flag)
    }

    fn opt_flag(&mut self, column: &'static str) -> Result<Option<bool>, Error> {
        self.columns.flag().map_err(|problem| self.wrong(column, &problem))
    }

    fn bytes<const N: usize>(&mut self, column: &'static str) -> Result<[u8; N], Error> {
        let bytes = match self.columns.bytes() {
            Ok(bytes) => bytes.map(<[u8; N]>::try_from),
            Err(problem) => return Err(self.wrong(column, &problem)),
        };
        self.some(column, bytes)?.map_err(|_| self.wrong(column, &"has another length"))
    }

    fn opt_id(&mut self, column: &'static str) -> Result<Option<JobId>, Error> {
        let id = self.columns.id().map_err(|problem| self.wrong(column, &problem))?;
        Ok(id.map(JobId))
    }

    fn id(&mut self, column: &'static str) -> Result<JobId, Error> {
        let id = self.opt_id(column)?;
        self.some(column, id)
    }

    fn opt_json<T: DeserializeOwned>(&mut self, column: &'static str) -> Result<Option<T>, Error> {
        // The parser's message may show the value; where it stopped is enough.
        let parse = |text: &str| {
            serde_json::from_str(text).map_err(|error| {
                format!("is no such JSON ({:?} at character {})", error.classify(), error.column())
            })
        };
        let parsed = self.opt_text(column, parse)?.transpose();
        parsed.map_err(|problem| self.wrong(column, &problem))
    }

    fn json<T: DeserializeOwned>(&mut self, column: &'static str) -> Result<T, Error> {
        let value = self.opt_json(column)?;
        self.some(column, value)
    }
}

/// Rows, or keys, as one JSON text to bind.
pub(crate) struct Batch {
    /// A JSON list.
    pub(crate) text: String,
    /// How many rows it has.
    pub(crate) sent: u64,
}

/// Writes a batch.
///
/// # Errors
/// If a row cannot be written as JSON, which no row of ours can cause.
pub(crate) fn batch<R: Serialize>(
    table: &'static str,
    rows: impl IntoIterator<Item = R>,
) -> Result<Batch, Error> {
    let mut text = Vec::new();
    let mut sent = 0;
    let written = serde_json::Serializer::new(&mut text).collect_seq(rows.into_iter().inspect(|_| sent += 1));
    let problem = |problem: String| Error { table, key: "(a batch)".into(), problem };
    written.map_err(|error| problem(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|error| problem(error.to_string()))?;
    Ok(Batch { text, sent })
}

/// For a signed 64-bit column; at the end of the range instead of beyond it.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A length for a signed 64-bit column, in microseconds.
fn length_us(length: Duration) -> i64 {
    int(micros(length))
}

/// JSON inside a row: a text. Maps with text keys and lists cannot fail to be written.
fn json_text<T: Serialize>(value: &T) -> Json {
    Json(serde_json::to_string(value).unwrap_or_else(|_| "null".into()))
}

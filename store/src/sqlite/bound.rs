//! Rows of the tables that every turn writes, bound column by column instead of as JSON. To take fifty columns out of a JSON list
//! costs SQLite as much as to write them, since it counts its way to each.
//!
//! Several rows stand in one statement as `values`: every call is a switch to the connection's thread and back, and for
//! each statement SQLite makes the lists of its checks anew (`state in (…)`), which costs as much as the row. SQLite
//! prepares them once.

use std::sync::LazyLock;

use serde::Serialize;
use serde_json::Value;
use sqlx::{Arguments, SqliteConnection, sqlite::SqliteArguments};

use super::fault;
use crate::{journal::Error, rows, turn};

/// How many rows one call takes, the most first.
const SIZES: [usize; 3] = [16, 4, 1];

/// What a statement over rows as JSON reads them from.
const FROM: &str = "\nfrom jsonb_each(jsonb($1)) as new";

/// How such an insert begins to say what a row is.
const SELECT: &str = "\nselect\n";

/// How such an insert goes on if it is an upsert. Without the condition SQLite would read a join.
const UPSERT: &str = "\nwhere true\non conflict";

/// How such a statement names a column of its row, before the position.
const COLUMN: &str = "new.value ->> ";

/// A statement over rows as JSON, made into one over each of a few numbers of rows.
pub(super) struct Bound {
    name: &'static str,
    table: &'static str,
    /// For each of [`SIZES`].
    texts: [String; SIZES.len()],
    /// Which column each value is.
    columns: Vec<usize>,
}

/// A statement that every process makes once.
pub(super) type Once = LazyLock<Bound>;

impl Bound {
    /// Of a statement that takes its rows from [`FROM`] and names their columns by position: an insert whose `select` stands
    /// on a line of its own, or an update.
    pub(super) fn new(name: &'static str, table: &'static str, statement: &str) -> Self {
        let (mut columns, mut pieces) = (Vec::new(), Vec::new());
        let mut parts = statement.split(COLUMN);
        let begin = parts.next().unwrap_or_default();
        for part in parts {
            let behind = part.trim_start_matches(|c: char| c.is_ascii_digit());
            let position = part.strip_suffix(behind).and_then(|digits| digits.parse::<usize>().ok());
            columns.extend(position);
            pieces.push(behind);
        }
        // With something in the place of each value.
        let with = |value: &dyn Fn(usize) -> String| {
            let values = pieces.iter().zip(1..).map(|(behind, n)| value(n) + behind);
            begin.to_owned() + &values.collect::<String>()
        };
        let bare = with(&|_| "?".into()).replace(FROM, "");
        let texts = SIZES.map(|size| match bare.split_once(SELECT) {
            Some((into, row)) => {
                // Behind the rows an upsert says what to do with those that are there.
                let (row, upsert) = row.split_once(UPSERT).map_or((row, None), |(row, how)| (row, Some(how)));
                let rows = vec![row.trim(); size].join("),\n  (");
                let upsert = upsert.map(|how| format!("\non conflict{how}")).unwrap_or_default();
                format!("{into}\nvalues\n  ({rows}){upsert}")
            }
            // A single row is found without a table of what is new.
            None if size == 1 => bare.clone(),
            None => {
                let row = vec!["?"; columns.len()].join(", ");
                let rows = vec![row; size].join("),\n  (");
                // As SQLite names them.
                with(&|n| format!("new.column{n}"))
                    .replace(FROM, &format!("\nfrom (values\n  ({rows})) as new"))
            }
        });
        Self { name, table, texts, columns }
    }

    /// Its text for the most rows.
    #[cfg(test)]
    pub(super) fn text_of_many(&self) -> &str {
        &self.texts[0]
    }

    /// Its text for one row.
    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.texts[SIZES.len() - 1]
    }

    /// Which column each of its values is.
    #[cfg(test)]
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Runs it over rows; rows affected must equal rows sent.
    pub(super) async fn run<R: Serialize>(
        &'static self,
        connection: &mut SqliteConnection,
        rows: impl Iterator<Item = R>,
    ) -> Result<(), Error> {
        let rows: Vec<R> = rows.collect();
        let mut left = &rows[..];
        let mut affected = 0;
        for (text, size) in self.texts.iter().zip(SIZES) {
            while let Some((now, later)) = left.split_at_checked(size) {
                left = later;
                let arguments = self.arguments(now)?;
                turn::sent(self.name);
                let done = sqlx::query_with(&**text, arguments).execute(&mut *connection).await;
                affected += done.map_err(|error| fault::of(self.name, error))?.rows_affected();
            }
        }
        turn::expect(self.name, turn::count(&rows), affected)
    }

    /// The values that JSON would have carried.
    fn arguments<R: Serialize>(&self, rows: &[R]) -> Result<SqliteArguments, Error> {
        let problem = |problem: String| {
            let (table, key) = (self.table, "(a batch)".into());
            Error::from(rows::Error { table, key, problem })
        };
        let mut arguments = SqliteArguments::default();
        arguments.reserve(rows.len() * self.columns.len(), 0);
        for row in rows {
            let values = serde_json::to_value(row).map_err(|error| problem(error.to_string()))?;
            let Value::Array(mut values) = values else { return Err(problem("is not a list".into())) };
            for column in &self.columns {
                let value = values.get_mut(*column).map(Value::take).unwrap_or_default();
                let added = match value {
                    Value::Null => arguments.add(None::<i64>),
                    Value::Bool(flag) => arguments.add(i64::from(flag)),
                    Value::String(text) => arguments.add(text),
                    Value::Number(number) => match number.as_i64() {
                        Some(number) => arguments.add(number),
                        None => return Err(problem(format!("column {column} is {number}"))),
                    },
                    Value::Array(_) | Value::Object(_) => {
                        return Err(problem(format!("column {column} is no single value")));
                    }
                };
                added.map_err(|error| problem(error.to_string()))?;
            }
        }
        Ok(arguments)
    }
}

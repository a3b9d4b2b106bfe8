//! Statements with the arrays that they are given, and several of them in one round trip.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use sqlx::{Arguments, Encode, PgConnection, Postgres, Row, Type, error::BoxDynError, postgres::PgArguments};

use super::super::fault;
use crate::{
    journal::Error,
    rows::Arrays,
    turn::{self, count},
};

/// Statements that are sent together, each with arrays of its own. Those that have no rows are left out.
///
/// Several become one: each a part of its `with`, which counts the rows. The database runs them in an order of its own
/// and lets none see what another writes, so only statements go together that would change nothing for each other: of
/// several tables, of which a row that refers to another may come with it, since foreign keys are checked at the end.
pub(in crate::postgres) struct Batch {
    /// Those with rows.
    parts: Vec<Part>,
    /// Whether the last one has rows, so that its columns are taken.
    open: bool,
    arguments: PgArguments,
    failed: Option<BoxDynError>,
}

#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    statement: &'static str,
    /// How many rows it is sent.
    sent: u64,
}

impl Batch {
    pub(in crate::postgres) fn new(name: &'static str, statement: &'static str, sent: u64) -> Self {
        Self::empty().and(name, statement, sent)
    }

    /// A first statement with all its columns.
    pub(super) fn rows<R: Arrays>(
        name: &'static str,
        statement: &'static str,
        rows: impl Iterator<Item = R>,
    ) -> Self {
        Self::empty().and_rows(name, statement, rows)
    }

    fn empty() -> Self {
        Self { parts: Vec::new(), open: false, arguments: PgArguments::default(), failed: None }
    }

    /// One more statement, whose columns follow.
    pub(in crate::postgres) fn and(mut self, name: &'static str, statement: &'static str, sent: u64) -> Self {
        self.open = sent > 0;
        if self.open {
            self.parts.push(Part { name, statement, sent });
        }
        self
    }

    /// One more statement, with all its columns.
    pub(super) fn and_rows<R: Arrays>(
        self,
        name: &'static str,
        statement: &'static str,
        rows: impl Iterator<Item = R>,
    ) -> Self {
        let rows: Vec<R> = rows.collect();
        let mut with = self.and(name, statement, count(&rows));
        if with.open
            && let Err(error) = R::bind(&rows, &mut with.arguments)
        {
            with.failed = Some(error);
        }
        with
    }

    pub(in crate::postgres) fn column<'a, T: Encode<'a, Postgres> + Type<Postgres>>(
        mut self,
        values: T,
    ) -> Self {
        if self.open
            && let Err(error) = self.arguments.add(values)
        {
            self.failed = Some(error);
        }
        self
    }

    /// Runs them; rows affected must equal rows sent, of each.
    pub(in crate::postgres) async fn run_all(mut self, connection: &mut PgConnection) -> Result<(), Error> {
        if let [_, _, ..] = *self.parts {
            return self.run_joined(connection).await;
        }
        let Some(part) = self.parts.first().copied() else { return Ok(()) };
        turn::expect(part.name, part.sent, self.run_one(part, connection).await?)
    }

    /// Runs a single one, whatever it affects.
    pub(super) async fn run_uncounted(mut self, connection: &mut PgConnection) -> Result<(), Error> {
        for part in self.parts.clone() {
            self.run_one(part, connection).await?;
        }
        Ok(())
    }

    async fn run_one(&mut self, part: Part, connection: &mut PgConnection) -> Result<u64, Error> {
        let arguments = self.arguments(part)?;
        turn::sent(part.name);
        let done = sqlx::query_with(part.statement, arguments).execute(connection).await;
        Ok(done.map_err(|error| fault::of(part.name, error))?.rows_affected())
    }

    async fn run_joined(mut self, connection: &mut PgConnection) -> Result<(), Error> {
        let Some(first) = self.parts.first().copied() else { return Ok(()) };
        let arguments = self.arguments(first)?;
        let joined = Joined::of(&self.parts);
        turn::sent(&joined.name);
        let counts = sqlx::query_with(&*joined.text, arguments).fetch_one(connection).await;
        let counts = counts.map_err(|error| {
            let told = error.as_database_error().and_then(|told| told.table());
            let part = self.parts.iter().find(|part| told.is_some_and(|table| part.writes(table)));
            fault::of(part.unwrap_or(&first).name, error)
        })?;
        for (at, part) in self.parts.iter().enumerate() {
            let affected: i64 = counts.try_get(at).map_err(|error| fault::of(part.name, error))?;
            turn::expect(part.name, part.sent, u64::try_from(affected).unwrap_or_default())?;
        }
        Ok(())
    }

    /// What was bound, for one run.
    fn arguments(&mut self, part: Part) -> Result<PgArguments, Error> {
        match self.failed.take() {
            Some(error) => Err(fault::of(part.name, sqlx::Error::Encode(error))),
            None => Ok(std::mem::take(&mut self.arguments)),
        }
    }
}

impl Part {
    /// Whether it is the one that writes a table.
    fn writes(&self, table: &str) -> bool {
        let mut words = self.statement.split_whitespace();
        let verb = words.next();
        let named = if verb == Some("update") { words.next() } else { words.nth(1) };
        named == Some(table)
    }
}

/// Several statements as one.
pub(in crate::postgres) struct Joined {
    /// Their names, in tests and logs.
    name: String,
    pub(in crate::postgres) text: String,
}

/// Each is made once and kept for as long as the process lives: there are as few as there are sets of statements that
/// a turn sends together.
static JOINED: Mutex<BTreeMap<Vec<&'static str>, &'static Joined>> = Mutex::new(BTreeMap::new());

impl Joined {
    fn of(parts: &[Part]) -> &'static Self {
        let names: Vec<&'static str> = parts.iter().map(|part| part.name).collect();
        // Nobody leaves it half written.
        let mut made = JOINED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(joined) = made.get(&*names) {
            return joined;
        }
        let text = Self::text(&parts.iter().map(|part| part.statement).collect::<Vec<_>>());
        let joined = &*Box::leak(Box::new(Self { name: names.join("+"), text }));
        made.insert(names, joined);
        joined
    }

    /// Statements as one that gives back how many rows each affected. Their parameters follow each other.
    pub(in crate::postgres) fn text(statements: &[&str]) -> String {
        let (mut with, mut counts, mut before) = (Vec::new(), Vec::new(), 0);
        for (at, statement) in statements.iter().enumerate() {
            let mut pieces = statement.split('$');
            let mut text = pieces.next().unwrap_or_default().to_owned();
            let mut most = 0;
            for piece in pieces {
                let behind = piece.trim_start_matches(|c: char| c.is_ascii_digit());
                let digits = piece.strip_suffix(behind).unwrap_or_default();
                let number: usize = digits.parse().unwrap_or_default();
                most = most.max(number);
                text.push_str(&format!("${}{behind}", before + number));
            }
            before += most;
            with.push(format!("part{at} as ({text}\nreturning 1)"));
            counts.push(format!("(select count(*) from part{at})"));
        }
        format!("with {}\nselect {}", with.join(",\n"), counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::statements, Joined, Part};

    #[test]
    fn a_constraint_is_named_with_the_part_that_writes_its_table() {
        for (statement, table) in [
            (statements::LEASE_DELETE, "leases"),
            (statements::JOB_UPDATE, "jobs"),
            (statements::JOB_INSERT, "jobs"),
            (statements::PAYLOAD_INSERT, "payloads"),
            (statements::LEASE_UPSERT, "leases"),
            (statements::ATTEMPT_UPSERT, "attempts"),
            (statements::RESULT_INSERT, "results"),
        ] {
            let part = Part { name: "", statement, sent: 1 };
            for other in ["leases", "jobs", "payloads", "attempts", "results", "new"] {
                assert_eq!(part.writes(other), other == table, "{other}: {statement}");
            }
        }
    }

    #[test]
    fn parameters_of_parts_follow_each_other() {
        let joined = Joined::text(&["delete from a where x = any($1) or $2", "update b set y = $1"]);
        assert_eq!(
            joined,
            "with part0 as (delete from a where x = any($1) or $2\nreturning 1),\n\
             part1 as (update b set y = $3\nreturning 1)\n\
             select (select count(*) from part0), (select count(*) from part1)"
        );
    }
}

//! The columns of a SQLite row: ids are texts, flags are 0 and 1.

use sqlx::{Decode, Row, Sqlite, Type, sqlite::SqliteRow};
use uuid::Uuid;

use crate::rows::{self, Columns, Fields, Names};

/// Reads the columns of a row from the first to the last.
struct SqliteColumns<'r> {
    row: &'r SqliteRow,
    next: usize,
}

impl<'r> SqliteColumns<'r> {
    fn get<T: Decode<'r, Sqlite> + Type<Sqlite>>(&mut self) -> Result<Option<T>, String> {
        let index = self.next;
        self.next += 1;
        // sqlx's text names column and types, never the value.
        self.row.try_get(index).map_err(|error| format!("is of another type ({error})"))
    }
}

impl Columns for SqliteColumns<'_> {
    fn text(&mut self) -> Result<Option<&str>, String> {
        self.get()
    }

    fn int(&mut self) -> Result<Option<i64>, String> {
        self.get()
    }

    fn instant(&mut self) -> Result<Option<i64>, String> {
        self.get()
    }

    fn flag(&mut self) -> Result<Option<bool>, String> {
        self.get::<i64>().map(|flag| flag.map(|flag| flag != 0))
    }

    fn bytes(&mut self) -> Result<Option<&[u8]>, String> {
        self.get()
    }

    fn id(&mut self) -> Result<Option<Uuid>, String> {
        let parse = |text: &str| Uuid::try_parse(text).map_err(|_| "is no UUID".into());
        self.get::<&str>()?.map(parse).transpose()
    }
}

/// Reads one row by one of the functions of `rows`.
///
/// # Errors
/// If it makes no sense.
pub(super) fn read<T>(
    table: &'static str,
    row: &SqliteRow,
    names: &mut Names,
    read: impl FnOnce(&mut Fields<'_>) -> Result<T, rows::Error>,
) -> Result<T, rows::Error> {
    read(&mut Fields::new(table, &mut SqliteColumns { row, next: 0 }, names))
}

/// Reads all rows by one of the functions of `rows`.
///
/// # Errors
/// If one makes no sense.
pub(super) fn read_all<T>(
    table: &'static str,
    rows: &[SqliteRow],
    mut make: impl FnMut(&mut Fields<'_>) -> Result<T, rows::Error>,
) -> Result<Vec<T>, rows::Error> {
    let mut names = Names::default();
    rows.iter().map(|row| read(table, row, &mut names, &mut make)).collect()
}

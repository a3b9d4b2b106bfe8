//! The columns of a Postgres row, read in place from the binary form.

use std::str;

use sqlx::{
    Row, TypeInfo, ValueRef,
    postgres::{PgRow, PgValueFormat},
};
use uuid::Uuid;

use crate::rows::{self, At, Columns, Fields, JSONB_VERSION, Names};

/// Reads the columns of a row from the first to the last.
struct PostgresColumns<'r> {
    row: &'r PgRow,
    next: usize,
}

impl<'r> PostgresColumns<'r> {
    /// The bytes of the next column, and the name of its type, which must be one of these.
    fn get(&mut self, types: &[&str]) -> Result<Option<(&'r [u8], bool)>, String> {
        let index = self.next;
        self.next += 1;
        // Its text names the column, never the value.
        let value = self.row.try_get_raw(index).map_err(|error| format!("cannot be read ({error})"))?;
        if value.is_null() {
            return Ok(None);
        }
        let (known, json) = {
            let of = value.type_info();
            (types.contains(&of.name()), of.name() == "JSONB")
        };
        if !known || value.format() != PgValueFormat::Binary {
            return Err("is of another type".into());
        }
        let bytes = value.as_bytes().map_err(|_| String::from("cannot be read"))?;
        Ok(Some((bytes, json)))
    }

    fn number(&mut self, types: &[&str]) -> Result<Option<i64>, String> {
        let Some((bytes, _)) = self.get(types)? else { return Ok(None) };
        let number = if let Ok(bytes) = bytes.try_into() {
            i64::from_be_bytes(bytes)
        } else if let Ok(bytes) = bytes.try_into() {
            i32::from_be_bytes(bytes).into()
        } else if let Ok(bytes) = bytes.try_into() {
            i16::from_be_bytes(bytes).into()
        } else {
            return Err("has another length".into());
        };
        Ok(Some(number))
    }
}

impl Columns for PostgresColumns<'_> {
    fn text(&mut self) -> Result<Option<&str>, String> {
        let Some((bytes, json)) = self.get(&["TEXT", "VARCHAR", "JSONB"])? else { return Ok(None) };
        let bytes = if json {
            bytes.strip_prefix(&[JSONB_VERSION]).ok_or("is JSON of another version")?
        } else {
            bytes
        };
        str::from_utf8(bytes).map(Some).map_err(|_| "is no UTF-8".into())
    }

    fn int(&mut self) -> Result<Option<i64>, String> {
        self.number(&["INT8", "INT4", "INT2"])
    }

    fn instant(&mut self) -> Result<Option<i64>, String> {
        Ok(self.number(&["TIMESTAMPTZ"])?.map(At::from_postgres))
    }

    fn flag(&mut self) -> Result<Option<bool>, String> {
        Ok(self.get(&["BOOL"])?.map(|(bytes, _)| bytes != [0]))
    }

    fn bytes(&mut self) -> Result<Option<&[u8]>, String> {
        Ok(self.get(&["BYTEA"])?.map(|(bytes, _)| bytes))
    }

    fn id(&mut self) -> Result<Option<Uuid>, String> {
        let Some((bytes, _)) = self.get(&["UUID"])? else { return Ok(None) };
        Uuid::from_slice(bytes).map(Some).map_err(|_| "is no UUID".into())
    }
}

/// Reads one row by one of the functions of `rows`.
///
/// # Errors
/// If it makes no sense.
pub(super) fn read<T>(
    table: &'static str,
    row: &PgRow,
    names: &mut Names,
    read: impl FnOnce(&mut Fields<'_>) -> Result<T, rows::Error>,
) -> Result<T, rows::Error> {
    read(&mut Fields::new(table, &mut PostgresColumns { row, next: 0 }, names))
}

/// Reads all rows by one of the functions of `rows`.
///
/// # Errors
/// If one makes no sense.
pub(super) fn read_all<T>(
    table: &'static str,
    rows: &[PgRow],
    mut make: impl FnMut(&mut Fields<'_>) -> Result<T, rows::Error>,
) -> Result<Vec<T>, rows::Error> {
    let mut names = Names::default();
    rows.iter().map(|row| read(table, row, &mut names, &mut make)).collect()
}

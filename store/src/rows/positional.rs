//! Rows as their columns: to SQLite as one JSON text, to Postgres as one array per column.

/// A row that SQLite is given as a list of its columns, not as a map: for the tables that every turn writes, where
/// looking up names would double the cost of a commit. Statements name the columns by position, and a test compares.
macro_rules! positional {
    ($(#[$doc:meta])* pub(crate) struct $row:ident<'a> { $($column:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        pub(crate) struct $row<'a> {
            $($column: $type,)+
        }

        impl $row<'_> {
            /// In the order in which they are written.
            #[cfg(test)]
            pub(crate) const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),+];
        }

        super::positional::columns!($row { $($column,)+ });

        impl serde::Serialize for $row<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeSeq;
                let mut list = serializer.serialize_seq(None)?;
                $(list.serialize_element(&self.$column)?;)+
                list.end()
            }
        }
    };
}
pub(super) use positional;

/// A row that SQLite is given as a map: of tables with few rows.
macro_rules! mapped {
    ($(#[$doc:meta])* pub(crate) struct $row:ident<'a> { $($column:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[derive(serde::Serialize)]
        pub(crate) struct $row<'a> {
            $($column: $type,)+
        }

        super::positional::columns!($row { $($column,)+ });
    };
}
pub(super) use mapped;

/// What both kinds of rows have.
macro_rules! columns {
    ($row:ident { $($column:ident,)+ }) => {
        impl crate::rows::Arrays for $row<'_> {
            fn bind(rows: &[Self], arguments: &mut sqlx::postgres::PgArguments) -> Result<(), sqlx::error::BoxDynError> {
                use crate::rows::Cell;
                use sqlx::Arguments as _;
                $(arguments.add(rows.iter().map(|row| row.$column.cell()).collect::<Vec<_>>())?;)+
                Ok(())
            }
        }
    };
}
pub(super) use columns;

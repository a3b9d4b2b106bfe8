//! The values of columns that are not simply numbers, flags or texts, and how both databases take each.
//!
//! SQLite reads them out of one JSON text. Postgres takes the column of a batch as one array; what SQLite keeps as an
//! integer or a text may have a type of its own there: instants, ids, JSON, bytes.

use std::fmt;

use serde::{Serialize, Serializer};
use sqlx::{
    Decode, Encode, Postgres, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgArguments, PgHasArrayType, PgTypeInfo, PgValueRef, types::Oid},
    types::JsonValue,
};
use tenure_scheduler::{JobId, Wall};
use uuid::Uuid;

/// Rows that Postgres is given as one array per column.
pub(crate) trait Arrays: Sized {
    /// Binds the arrays in the order of the columns.
    ///
    /// # Errors
    /// If a value cannot be written, which none of ours can cause.
    fn bind(rows: &[Self], arguments: &mut PgArguments) -> Result<(), BoxDynError>;
}

/// A value of a column as an element of an array of Postgres.
pub(crate) trait Cell {
    /// The element; every one of a column may be null, whether the column may or not.
    type Element<'a>
    where
        Self: 'a;

    fn cell(&self) -> Self::Element<'_>;
}

/// An instant: whole microseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At(pub(crate) i64);

impl From<Wall> for At {
    fn from(at: Wall) -> Self {
        Self(at.0)
    }
}

impl At {
    /// Microseconds between 1970, where ours begin, and 2000, where those of Postgres do.
    const SHIFT: i64 = 946_684_800_000_000;
    /// The first instant that Postgres can store, in its own microseconds: 4714 BC.
    const FIRST: i64 = -211_813_488_000_000_000;

    /// From the microseconds of Postgres.
    pub(crate) fn from_postgres(us: i64) -> i64 {
        us.saturating_add(Self::SHIFT)
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl Type<Postgres> for At {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1184)) // timestamptz, fixed in its catalogue
    }
}

impl PgHasArrayType for At {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1185)) // timestamptz[]
    }
}

impl Encode<'_, Postgres> for At {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let us = self.0.saturating_sub(Self::SHIFT).max(Self::FIRST);
        buffer.extend_from_slice(&us.to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for At {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let bytes = <[u8; 8]>::try_from(value.as_bytes()?)?;
        Ok(Self(Self::from_postgres(i64::from_be_bytes(bytes))))
    }
}

/// A map or a list, as JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Json(pub(crate) String);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The element of [`Json`].
pub(crate) struct JsonText<'a>(&'a str);

/// What stands before the text of every binary `jsonb`.
pub(crate) const JSONB_VERSION: u8 = 1;

impl Type<Postgres> for JsonText<'_> {
    fn type_info() -> PgTypeInfo {
        <JsonValue as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for JsonText<'_> {
    fn array_type_info() -> PgTypeInfo {
        <JsonValue as PgHasArrayType>::array_type_info()
    }
}

impl Encode<'_, Postgres> for JsonText<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.push(JSONB_VERSION);
        buffer.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

/// A digest: hexadecimal in JSON, as it is elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hex(pub(crate) [u8; 32]);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nibbles = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let text: String = nibbles.filter_map(|nibble| char::from_digit(u32::from(nibble), 16)).collect();
        serializer.serialize_str(&text)
    }
}

/// Something that SQLite keeps as its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<T>(pub(crate) T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A value that is its own element.
macro_rules! as_it_is {
    ($($type:ty),+) => {
        $(impl Cell for $type {
            type Element<'a> = $type where Self: 'a;

            fn cell(&self) -> $type {
                *self
            }
        })+
    };
}

/// A number that Postgres has no type of its size for.
macro_rules! wider {
    ($($type:ty => $element:ty),+) => {
        $(impl Cell for $type {
            type Element<'a> = $element where Self: 'a;

            fn cell(&self) -> $element {
                <$element>::from(*self)
            }
        })+
    };
}

as_it_is!(i32, i64, bool, At);
wider!(i8 => i16, u8 => i16, u32 => i64);

impl Cell for &str {
    type Element<'a>
        = &'a str
    where
        Self: 'a;

    fn cell(&self) -> &str {
        self
    }
}

impl Cell for String {
    type Element<'a> = &'a str;

    fn cell(&self) -> &str {
        self
    }
}

impl Cell for Json {
    type Element<'a> = JsonText<'a>;

    fn cell(&self) -> JsonText<'_> {
        JsonText(&self.0)
    }
}

impl Cell for Hex {
    type Element<'a> = &'a [u8];

    fn cell(&self) -> &[u8] {
        &self.0
    }
}

impl Cell for Text<JobId> {
    type Element<'a> = Uuid;

    fn cell(&self) -> Uuid {
        self.0.0
    }
}

impl<T: Cell> Cell for Option<T> {
    type Element<'a>
        = Option<T::Element<'a>>
    where
        Self: 'a;

    fn cell(&self) -> Option<T::Element<'_>> {
        self.as_ref().map(Cell::cell)
    }
}

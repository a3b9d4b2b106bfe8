//! Rows that are written as lists of their columns.

/// A row that is written as a list of its columns, not as a map: for the tables that every turn writes, where looking
/// up names would double the cost of a commit. Statements name the columns by position, and a test compares.
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

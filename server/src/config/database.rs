//! Where the Postgres database is: its URL, which is a secret, or the file in which it stands.

use std::{fmt, path::PathBuf};

use tenure_store::postgres;

/// A Postgres database.
#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    /// Its URL. It may hold a password, and is never shown.
    Url(String),
    /// The file in which the URL stands, alone but for white space around it. Read at every start.
    File(PathBuf),
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(_) => f.write_str("Url(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Database {
    /// Its address.
    ///
    /// # Errors
    /// If the file cannot be read, or it is no URL of Postgres.
    pub(crate) fn address(&self) -> Result<postgres::Address, Unreadable> {
        match self {
            Self::Url(url) => Ok(url.trim().parse()?),
            Self::File(path) => {
                let url = std::fs::read_to_string(path);
                let url = url.map_err(|source| Unreadable::File { path: path.clone(), source })?;
                Ok(url.trim().parse()?)
            }
        }
    }
}

/// Why there is no address.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The file cannot be read.
    #[error("cannot read the database URL from {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no URL of Postgres.
    #[error("the database URL cannot be used")]
    Url(#[from] postgres::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_never_shown() {
        let url = Database::Url("postgres://tenure:hunter2@db.example/tenure".into());
        assert_eq!(format!("{url:?}"), "Url(..)");
        url.address().unwrap();
        let error = Database::Url("mysql://hunter2".into()).address().expect_err("no Postgres");
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    #[test]
    fn a_file_holds_the_url_alone() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("url");
        let missing = Database::File(path.clone()).address().expect_err("no file");
        assert!(missing.to_string().contains(&path.display().to_string()), "{missing}");
        std::fs::write(&path, "postgres://db.example/tenure\n").unwrap();
        Database::File(path).address().unwrap();
    }
}

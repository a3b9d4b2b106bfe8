//! Object storage: where the bytes of results stand that are over the inline limit.
//!
//! Responsible for the names of objects, and for writing, reading, listing and removing them, in a directory or in a bucket
//! that speaks S3. Not responsible for which are wanted (the rows of results say that: [`Reader::wanted_objects`]), nor for
//! when one is removed.
//!
//! Invariants: a name holds job, token and checksum, all of the server's or checked by it, so that an object never changes;
//! an object is there whole, or not at all; what is answered as written is on the disk.
//!
//! [`Reader::wanted_objects`]: crate::Reader::wanted_objects

mod place;
mod upload;

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{
    Stream, StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use object_store::{ObjectStore, ObjectStoreExt as _, path::Path};
use tenure_scheduler::{FencingToken, JobId};

pub use self::{
    place::{Bucket, Place, Secret},
    upload::{NotWhole, Upload},
};

/// What a process that died in the midst of a write left is removed this long after its last byte.
const LEFT_FOR: Duration = Duration::from_secs(3600);

/// Bytes that are read by one request.
const CHUNK: u64 = 1024 * 1024;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256(pub [u8; 32]);

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A text that is no checksum, or no name of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no name of an object")]
pub struct NoName;

impl FromStr for Sha256 {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Self, NoName> {
        let digits: [u8; 64] = text.as_bytes().try_into().map_err(|_| NoName)?;
        let mut sum = [0; 32];
        let (pairs, _) = digits.as_chunks::<2>();
        for (byte, [high, low]) in sum.iter_mut().zip(pairs) {
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Ok(Self(sum))
    }
}

/// Lower case only: a name has one form.
fn nibble(digit: u8) -> Result<u8, NoName> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NoName),
    }
}

/// What stands in object storage in place of the bytes of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultObject {
    /// How many bytes.
    pub size: u64,
    /// Their checksum.
    pub sha256: Sha256,
}

impl ResultObject {
    /// From the two columns of a row; none: its bytes are in the row.
    pub(crate) fn of_columns(size: Option<i64>, sha256: Option<&str>) -> Result<Option<Self>, NoName> {
        let (Some(size), Some(sha256)) = (size, sha256) else { return Ok(None) };
        let size = u64::try_from(size).map_err(|_| NoName)?;
        Ok(Some(Self { size, sha256: sha256.parse()? }))
    }
}

/// The name of an object: `job.token.sha256`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Whose result.
    pub job: JobId,
    /// Of the execution that left it.
    pub token: FencingToken,
    /// Of its bytes.
    pub sha256: Sha256,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, token, sha256 } = self;
        write!(f, "{job}.{}.{sha256}", token.0)
    }
}

impl FromStr for ObjectName {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Self, NoName> {
        let mut parts = text.split('.');
        let (Some(job), Some(token), Some(sha256), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NoName);
        };
        let name = Self {
            job: job.parse().map_err(|_| NoName)?,
            token: FencingToken(token.parse().map_err(|_| NoName)?),
            sha256: sha256.parse()?,
        };
        // A name has one form: what is written otherwise is somebody else's.
        if name.to_string() == text { Ok(name) } else { Err(NoName) }
    }
}

/// Why object storage could not do its work. Nothing of it is a bug of the caller's: it may be tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be set up.
    #[error("object storage cannot be set up: {0}")]
    Settings(String),
    /// The directory cannot be used.
    #[error("the directory {} cannot be used for results", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It does not answer, or says no.
    #[error("object storage is unavailable")]
    Unavailable(#[source] object_store::Error),
    /// It has no such object.
    #[error("object storage has no {0}")]
    Missing(ObjectName),
}

/// Object storage. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The directory, if it is one.
    directory: Option<PathBuf>,
}

/// The bytes of an object, in order.
pub type Chunks = BoxStream<'static, Result<Bytes, Error>>;

impl Objects {
    /// Object storage at a place. A directory is made if it does not exist; a bucket is not asked.
    ///
    /// # Errors
    /// [`Error::Settings`] and [`Error::Directory`].
    pub fn open(place: &Place) -> Result<Self, Error> {
        place.open()
    }

    /// Begins to write an object of this size. Nothing is there until [`Upload::finish`]; dropped before, it leaves nothing
    /// in a directory, and in a bucket what [`Upload::abort`] would have removed.
    #[must_use]
    pub fn write(&self, name: ObjectName, size: u64) -> Upload {
        Upload::new((Arc::clone(&self.store), self.path(&name)), name, size)
    }

    /// The bytes of an object, in chunks of at most 1 MiB. Each is a request of its own, with the time and the tries of one,
    /// and is asked for when it is taken: whoever reads may be as slow as they like, and holds no file and no connection.
    ///
    /// # Errors
    /// [`Error::Missing`] and [`Error::Unavailable`]; of a chunk likewise, if it is removed meanwhile.
    pub async fn read(&self, name: ObjectName) -> Result<Chunks, Error> {
        let path = self.path(&name);
        let size = self.store.head(&path).await.map_err(|error| of(name, error))?.size;
        let begin = (Arc::clone(&self.store), path, 0);
        // Cancel-safe: a chunk that is not waited for is none.
        let chunks = stream::try_unfold(begin, move |(store, path, from)| async move {
            if from == size {
                return Ok(None);
            }
            let to = size.min(from + CHUNK);
            let chunk = store.get_range(&path, from..to).await.map_err(|error| of(name, error))?;
            Ok(Some((chunk, (store, path, to))))
        });
        Ok(chunks.boxed())
    }

    /// Whether an object is there.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn contains(&self, name: ObjectName) -> Result<bool, Error> {
        match self.store.head(&self.path(&name)).await.map_err(|error| of(name, error)) {
            Ok(_) => Ok(true),
            Err(Error::Missing(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes an object. One that is not there is removed.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn remove(&self, name: ObjectName) -> Result<(), Error> {
        match self.store.delete(&self.path(&name)).await.map_err(|error| of(name, error)) {
            Ok(()) | Err(Error::Missing(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Every object, in no order. What has another name is somebody else's, and is left out.
    pub fn list(&self) -> impl Stream<Item = Result<ObjectName, Error>> + Send + use<> {
        let prefix = (!self.prefix.as_ref().is_empty()).then(|| self.prefix.clone());
        self.store.list(prefix.as_ref()).map_err(Error::Unavailable).try_filter_map(|found| async move {
            Ok(found.location.filename().and_then(|name| name.parse().ok()))
        })
    }

    /// Removes what processes left in a directory that died in the midst of a write, an hour later. A bucket has rules of
    /// its own for that.
    ///
    /// # Errors
    /// [`Error::Directory`]. What cannot be removed is left for the next time.
    pub async fn remove_unfinished(&self, now: std::time::SystemTime) -> Result<u64, Error> {
        let Some(directory) = self.directory.clone() else { return Ok(0) };
        let looked = directory.clone();
        let removed =
            tokio::task::spawn_blocking(move || place::remove_unfinished(&looked, now, LEFT_FOR)).await;
        let removed = removed.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        removed.map_err(|source| Error::Directory { path: directory, source })
    }

    fn path(&self, name: &ObjectName) -> Path {
        self.prefix.clone().join(name.to_string())
    }
}

fn of(name: ObjectName, error: object_store::Error) -> Error {
    if matches!(error, object_store::Error::NotFound { .. }) {
        Error::Missing(name)
    } else {
        Error::Unavailable(error)
    }
}

#[cfg(test)]
mod tests;

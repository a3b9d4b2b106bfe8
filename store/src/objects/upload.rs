//! One object that is being written.

use std::sync::Arc;

use bytes::Bytes;
use object_store::{ObjectStore, buffered::BufWriter, path::Path};
use ring::digest::{Context, SHA256};
use tokio::io::AsyncWriteExt as _;

use super::{Error, ObjectName};

/// What is smaller is written in one request; what is larger in parts of this size. S3 takes none under 5 MiB.
const PART: usize = 8 * 1024 * 1024;

/// Parts of one object on their way at once.
const PARTS_AT_ONCE: usize = 2;

/// An object that is being written. It is there once [`Upload::finish`] has said so.
pub struct Upload {
    writer: BufWriter,
    name: ObjectName,
    /// Bytes that are still to come.
    left: u64,
    digest: Context,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("name", &self.name).field("left", &self.left).finish_non_exhaustive()
    }
}

/// Why what came is not what was announced. Nothing was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotWhole {
    /// There are more bytes.
    #[error("there are more bytes than were announced")]
    TooMany,
    /// There are fewer.
    #[error("{0} bytes are missing")]
    TooFew(u64),
    /// They are others.
    #[error("the checksum of the bytes is not the one that was announced")]
    Others,
}

impl Upload {
    pub(super) fn new((store, path): (Arc<dyn ObjectStore>, Path), name: ObjectName, size: u64) -> Self {
        let writer = BufWriter::with_capacity(store, path, PART).with_max_concurrency(PARTS_AT_ONCE);
        Self { writer, name, left: size, digest: Context::new(&SHA256) }
    }

    /// The next bytes.
    ///
    /// # Errors
    /// Outer: [`Error::Unavailable`]; inner: there are too many. Either way it is to be [aborted](Self::abort).
    pub async fn write(&mut self, bytes: Bytes) -> Result<Result<(), NotWhole>, Error> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else { return Ok(Err(NotWhole::TooMany)) };
        self.left = left;
        self.digest.update(&bytes);
        self.writer.put(bytes).await.map_err(Error::Unavailable)?;
        Ok(Ok(()))
    }

    /// These were all: the object is there from now on, if they are what was announced.
    ///
    /// # Errors
    /// Outer: [`Error::Unavailable`]; inner: they are not. Nothing is left behind.
    pub async fn finish(mut self) -> Result<Result<(), NotWhole>, Error> {
        let wrong = if self.left > 0 {
            Some(NotWhole::TooFew(self.left))
        } else if self.digest.clone().finish().as_ref() != self.name.sha256.0 {
            Some(NotWhole::Others)
        } else {
            None
        };
        if let Some(wrong) = wrong {
            self.abort().await;
            return Ok(Err(wrong));
        }
        // It aborts by itself when it fails.
        let finished = self.writer.shutdown().await;
        finished.map_err(|error| {
            let source = Box::new(error);
            Error::Unavailable(object_store::Error::Generic { store: "results", source })
        })?;
        Ok(Ok(()))
    }

    /// It will not be finished: what was written of it is removed. What cannot be is left to the rules of the bucket.
    pub async fn abort(mut self) {
        if let Err(error) = self.writer.abort().await {
            tracing::warn!(%error, object = %self.name, "parts of a result that is not wanted stay in object storage");
        }
    }
}

//! Results over the inline limit: the server's end of object storage.
//!
//! Responsible for how many are taken in at once, for handing their bytes out, and for removing objects that nothing names
//! any more. Not responsible for who may send or read one (`rpc`), nor for the row that names it (the driver's, in the
//! commit that stores the outcome).
//! Invariants: an object is removed only after the commit that ended its row; whether it is wanted is asked of the rows in
//! one read, and what is not wanted once never is again. So a crash between commit and removal leaves an object that the
//! next look through the whole storage removes.

mod pace;
mod room;
mod sweep;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use tenure_proto::limits;
use tenure_scheduler::JobId;
use tenure_store::{ObjectName, Objects, Reader, StoredResult, objects, reader};
use tokio_util::task::TaskTracker;

use crate::{
    chain::Chain,
    config::{self, Config},
    metrics::Metrics,
    rpc::status::No,
};

pub(crate) use self::{
    pace::Pace,
    room::{Full, Place, Room},
    sweep::Sweeper,
};

/// Results that are taken in at once, of one node half of them at most; each holds up to 24 MiB of memory. The next is told
/// to come back.
const MOST_COMING: usize = 8;

/// Results that are handed out to nodes at once, of one node half of them at most; each holds up to 2 MiB of memory. The next
/// is told to come back.
const MOST_LEAVING: usize = 32;

/// What `CheckInvariants` calls it that every result which stands in object storage is there.
pub(crate) const OBJECTS_EXIST: &str = "result_objects_exist";

/// Of missing objects so many are named.
const MOST_LOST: usize = 100;

/// Names that the store is asked about at once.
const NAMES_A_QUESTION: usize = 500;

/// Object storage, as the server uses it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Results {
    /// None: there is no object storage, and no result over the inline limit.
    objects: Option<Objects>,
    /// The largest result that is taken, in bytes.
    most: u64,
    /// Places for those that are taken in.
    pub(crate) coming: Room,
    /// Places for those that are handed out to nodes.
    pub(crate) leaving: Room,
    /// Of uploads and fetches, which end by themselves when their node goes away.
    pub(crate) tasks: TaskTracker,
    pub(crate) metrics: Arc<Metrics>,
    /// What the last sweep missed, the first of it.
    lost: Arc<Mutex<Vec<ObjectName>>>,
}

/// Why what nothing names was not removed. The next sweep tries again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("what is wanted cannot be read")]
    Read(#[from] reader::Error),
    #[error("object storage fails")]
    Objects(#[from] objects::Error),
}

impl Results {
    /// Opens what the settings name.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(crate) fn open(
        config: &Config,
        reader: &Reader,
        metrics: Arc<Metrics>,
    ) -> Result<Self, objects::Error> {
        let place = place(config, reader)?;
        match &place {
            None if config.database.is_none() => {}
            None => tracing::warn!(
                "there is no object storage: a job whose result is over the inline limit of 256 KiB fails. Servers on one \
                 database need [results] with a bucket, or a directory that all of them share"
            ),
            Some(objects::Place::Directory(path)) if config.database.is_some() => tracing::info!(
                directory = %path.display(),
                "results over the inline limit stand in a directory: every server on this database has to see the same"
            ),
            Some(_) => {}
        }
        let objects = place.as_ref().map(Objects::open).transpose()?;
        let (coming, leaving) = (Room::new(MOST_COMING), Room::new(MOST_LEAVING));
        let (most, tasks) = (config.results.max_bytes, TaskTracker::new());
        Ok(Self { objects, most, coming, leaving, tasks, metrics, lost: Arc::default() })
    }

    /// The largest result that is taken, in bytes; 0: none.
    pub(crate) fn most(&self) -> u64 {
        if self.objects.is_some() { self.most } else { 0 }
    }

    /// Where objects are written and read.
    ///
    /// # Errors
    /// If there is no object storage.
    pub(crate) fn objects(&self) -> Result<&Objects, No> {
        self.objects.as_ref().ok_or_else(No::no_result_storage)
    }

    /// Objects that rows still name and that the last sweep of this server missed; at most a hundred.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub(crate) async fn lost(&self, reader: &Reader) -> Result<Vec<ObjectName>, reader::Error> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if lost.is_empty() {
            return Ok(lost);
        }
        let wanted = reader.wanted_objects(&lost).await?;
        Ok(lost.into_iter().filter(|name| wanted.contains(name)).collect())
    }

    /// The bytes of a stored result in chunks, from wherever they stand. The stream fails if there are not as many as there
    /// should be.
    ///
    /// # Errors
    /// If there is no object storage, it does not answer, or the object is gone.
    pub(crate) async fn read(
        &self,
        stored: &StoredResult,
    ) -> Result<BoxStream<'static, Result<Bytes, No>>, No> {
        let Some(name) = stored.object_name() else {
            let whole = (!stored.data.is_empty()).then(|| Ok(stored.data.clone()));
            return Ok(stream::iter(whole).boxed());
        };
        let chunks = self.objects()?.read(name).await.map_err(|fault| self.no(&fault))?;
        let (this, size) = (self.clone(), stored.size());
        let state = (this, chunks, Bytes::new(), size);
        // Cancel-safe: dropped between two chunks, it ends the read.
        let messages = stream::try_unfold(state, async |(this, mut chunks, mut rest, left)| {
            while rest.is_empty() {
                match chunks.try_next().await.map_err(|fault| this.no(&fault))? {
                    Some(chunk) => rest = chunk,
                    None if left == 0 => return Ok(None),
                    None => return Err(No::result_damaged(left)),
                }
            }
            let next = rest.split_to(rest.len().min(limits::CHUNK_BYTES));
            let left = left.checked_sub(next.len() as u64).ok_or_else(|| No::result_damaged(0))?;
            this.metrics.observe_object_bytes("read", next.len());
            Ok(Some((next, (this, chunks, rest, left))))
        });
        Ok(messages.boxed())
    }

    /// What a caller is told of a fault; the cause goes to the log.
    pub(crate) fn no(&self, fault: &objects::Error) -> No {
        match fault {
            objects::Error::Missing(name) => {
                tracing::error!(object = %name, "object storage has lost a result, or it was removed while it was read");
                No::result_damaged(0)
            }
            objects::Error::Settings(_)
            | objects::Error::Directory { .. }
            | objects::Error::Unavailable(_) => {
                tracing::warn!(error = %Chain(fault), "object storage does not answer");
                No::result_storage_away()
            }
        }
    }

    /// The objects of these jobs, to be [forgotten](Self::forget) once the jobs or their results are gone.
    pub(crate) async fn of_jobs(
        &self,
        reader: &Reader,
        jobs: &[JobId],
    ) -> Result<Vec<ObjectName>, reader::Error> {
        if self.objects.is_none() || jobs.is_empty() {
            return Ok(Vec::new());
        }
        reader.objects_of(jobs).await
    }

    /// Removes those of these objects that nothing names any more. How many.
    ///
    /// # Errors
    /// If it cannot be known, or done. The sweep of the whole storage does it later.
    pub(crate) async fn forget(&self, reader: &Reader, names: &[ObjectName]) -> Result<u64, Error> {
        let Some(objects) = &self.objects else { return Ok(0) };
        let mut removed = 0;
        for names in names.chunks(NAMES_A_QUESTION) {
            let wanted = reader.wanted_objects(names).await?;
            for name in names.iter().filter(|name| !wanted.contains(name)) {
                objects.remove(*name).await?;
                removed += 1;
                self.metrics.observe_swept_object();
            }
        }
        Ok(removed)
    }
}

/// Where object storage is by these settings; none: there is none.
fn place(config: &Config, reader: &Reader) -> Result<Option<objects::Place>, objects::Error> {
    match &config.results.place {
        Some(config::ResultPlace::Directory(path)) => Ok(Some(objects::Place::Directory(path.clone()))),
        Some(config::ResultPlace::Bucket(bucket)) => {
            let credentials = match &bucket.credentials {
                None => None,
                Some((id, file)) => Some((id.clone(), objects::Secret(secret(file)?))),
            };
            Ok(Some(objects::Place::Bucket(objects::Bucket {
                name: bucket.name.clone(),
                prefix: bucket.prefix.clone(),
                endpoint: bucket.endpoint.clone(),
                region: bucket.region.clone(),
                path_style: bucket.path_style,
                credentials,
            })))
        }
        None => Ok(match reader {
            // Beside its file there is a place that is this server's alone.
            Reader::Sqlite(_) => Some(objects::Place::Directory(config.data.join("results"))),
            Reader::Postgres(_) | Reader::Memory(_) => None,
        }),
    }
}

/// Read at every start, so that it may be replaced.
fn secret(file: &Path) -> Result<String, objects::Error> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        objects::Error::Settings(format!("the secret cannot be read from {}: {error}", file.display()))
    })?;
    Ok(text.trim().to_owned())
}

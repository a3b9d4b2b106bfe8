//! Following one job: a message as it stands, then one after each change, until it is final.
//!
//! Responsible for how many watches one caller has open. Not for who may see which job (`read.rs`), for ending those of a
//! caller that is denied (`rpc/auth/live.rs`), nor for telling that a job changed (`outbox.rs`). Invariant: a message is made when the
//! transport has room for it, so a slow reader holds one watch and no queue, and reads the newest state when it reads.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{Stream, StreamExt as _, stream};
use tenure_proto::v1;
use tenure_scheduler::JobId;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::read;
use crate::{
    outbox::JobWatch,
    rpc::{api::Api, auth::Caller, status::No},
};

/// The messages of one watch.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<v1::WatchJobResponse, Status>> + Send>>;

/// The watches that are open, by their callers. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room(Arc<Mutex<HashMap<String, usize>>>);

/// Room for one watch, until it ends.
#[derive(Debug)]
pub(crate) struct Place {
    room: Room,
    whose: String,
}

struct Watch {
    api: Api,
    caller: Caller,
    job: JobId,
    changes: JobWatch,
    /// Cancelled when this server leads no more, or ends.
    over: CancellationToken,
    /// What was sent last; none: nothing yet.
    sent: Option<Sent>,
    _place: Place,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    version: u64,
    last: bool,
}

/// Opens a watch.
///
/// # Errors
/// If the job is not there for this caller, or it has too many watches open.
pub(super) async fn open(
    api: &Api,
    room: &Room,
    caller: Caller,
    request: &v1::WatchJobRequest,
) -> Result<Messages, No> {
    let job = read::required_id(&request.job_id)?;
    let over = api.handle.ways()?.over;
    read::look(api, &caller, job).await?;
    let place = room.place(caller.enqueues_as().as_str(), caller.most_watches())?;
    // It watches from here on and reads afterwards: a change between the two is told by the watch.
    let changes = api.handle.watch_job(job)?;
    let watch = Watch { api: api.clone(), caller, job, changes, over, sent: None, _place: place };
    let api = api.clone();
    let messages = stream::try_unfold(watch, async |mut watch| {
        let job = watch.next().await?;
        Ok(job.map(|job| (v1::WatchJobResponse { job: Some(job) }, watch)))
    });
    Ok(Box::pin(messages.map(move |message| {
        message.map_err(|no: No| {
            api.count(&no);
            no.into_status()
        })
    })))
}

impl Watch {
    /// The job after its next change; none after a final state.
    async fn next(&mut self) -> Result<Option<v1::Job>, No> {
        loop {
            match self.sent {
                Some(Sent { last: true, .. }) => return Ok(None),
                Some(_) => self.changed().await?,
                None => {}
            }
            let now = read::look(&self.api, &self.caller, self.job).await?;
            let version = now.job.version;
            if self.sent.is_none_or(|sent| sent.version < version) {
                self.sent = Some(Sent { version, last: now.job.state.is_final() });
                return Ok(Some(now.shown()));
            }
        }
    }

    async fn changed(&mut self) -> Result<(), No> {
        // Both only wait, so that losing one of them loses nothing.
        tokio::select! {
            biased;
            () = self.over.cancelled() => Err(self.api.handle.elsewhere().into()),
            () = self.changes.changed() => Ok(()),
        }
    }
}

impl Room {
    /// Room for one more watch of this caller.
    ///
    /// # Errors
    /// If it has as many as it may.
    pub(crate) fn place(&self, whose: &str, most: usize) -> Result<Place, No> {
        let mut open = self.open();
        let count = open.entry(whose.to_owned()).or_insert(0);
        if *count >= most {
            return Err(No::too_many_watches(whose, most));
        }
        *count += 1;
        Ok(Place { room: self.clone(), whose: whose.to_owned() })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.room.open();
        if let Some(count) = open.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_its_own_room_and_gets_it_back() {
        let room = Room::default();
        let first = room.place("viewer:v", 1).unwrap();
        assert_eq!(room.place("viewer:v", 1).unwrap_err().reason(), "TOO_MANY_WATCHES");
        let other = room.place("web", 1).unwrap();
        drop(first);
        let again = room.place("viewer:v", 1).unwrap();
        drop((other, again));
        assert!(room.open().is_empty());
    }
}

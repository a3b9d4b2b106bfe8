//! What leaves after a commit for whoever waits outside: fan-out of "this job changed" to watchers, and webhooks.
//!
//! Webhooks: `body` is what is told, in the commit that ends a job; `deliver` sends what is due, by `send`, signed by `sign`,
//! to addresses that `guard` lets through; `tries` is what became of that until it is stored; `settings` is what the server file says of it. What is stored and when it is
//! tried is the scheduler's.
//!
//! Of watches:
//! Level-triggered: a watch tells that something changed since it was last asked, never what; the watcher reads the
//! job. So nothing is queued, a slow watcher costs nothing, and none misses the final state. The driver calls in only
//! after the commit. Not here: what changed, and who may see it.

pub(crate) mod body;
pub(crate) mod deliver;
mod guard;
mod send;
mod settings;
mod sign;
mod tries;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tenure_scheduler::JobId;
use tokio::sync::{Notify, watch};

pub(crate) use self::settings::Settings;
pub use self::{settings::Error as SettingsError, sign::Error as SecretError};

/// Jobs that are watched at once. Beyond: Busy.
const MOST_WATCHED: usize = 65_536;

/// All watches of one server. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Watchers {
    watched: Arc<Mutex<HashMap<JobId, Watched>>>,
}

#[derive(Debug)]
struct Watched {
    changes: watch::Sender<()>,
    /// How many watches; the entry goes with the last.
    watches: usize,
}

/// A watch of one job. It begins at its making: read the job after that.
#[derive(Debug)]
pub struct JobWatch {
    job: JobId,
    changes: watch::Receiver<()>,
    watchers: Watchers,
}

/// Tells the deliverer that something may be due. One ring is kept; more are one. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bell(Arc<Notify>);

impl Bell {
    pub(crate) fn ring(&self) {
        self.0.notify_one();
    }

    /// Waits for a ring since this last returned. Cancel-safe.
    pub(crate) async fn rung(&self) {
        self.0.notified().await;
    }
}

impl Watchers {
    /// A watch of this job; none while too many are watched.
    pub(crate) fn watch(&self, job: JobId) -> Option<JobWatch> {
        let mut watched = self.lock();
        if !watched.contains_key(&job) && watched.len() >= MOST_WATCHED {
            return None;
        }
        let entry =
            watched.entry(job).or_insert_with(|| Watched { changes: watch::Sender::new(()), watches: 0 });
        entry.watches += 1;
        Some(JobWatch { job, changes: entry.changes.subscribe(), watchers: self.clone() })
    }

    /// The job changed.
    pub(crate) fn notify(&self, job: JobId) {
        if let Some(watched) = self.lock().get(&job) {
            watched.changes.send_replace(());
        }
    }

    /// Anything may have changed: a commit of unknown outcome was followed by a reload.
    pub(crate) fn notify_all(&self) {
        for watched in self.lock().values() {
            watched.changes.send_replace(());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobWatch {
    /// Waits until the job has changed since this watch was made or this was last called. Cancel-safe. It does not end
    /// by itself: bound it by the caller's deadline.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // The sender lives as long as any watch of the job does, so this does not happen; if it did, an endless
            // wait would hide a change, a wrong wake-up hides nothing.
        }
    }
}

impl Drop for JobWatch {
    fn drop(&mut self) {
        let mut watched = self.watchers.lock();
        if let Some(entry) = watched.get_mut(&self.job) {
            entry.watches -= 1;
            if entry.watches == 0 {
                watched.remove(&self.job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use uuid::Uuid;

    use super::*;

    fn job(n: u128) -> JobId {
        JobId(Uuid::from_u128(n))
    }

    #[test]
    fn a_change_before_the_wait_is_told_once() {
        let watchers = Watchers::default();
        let mut watch = watchers.watch(job(1)).unwrap();
        assert!(watch.changed().now_or_never().is_none());
        watchers.notify(job(1));
        watchers.notify(job(1));
        watchers.notify(job(2));
        assert!(watch.changed().now_or_never().is_some());
        assert!(watch.changed().now_or_never().is_none());
    }

    #[test]
    fn a_reload_wakes_everybody() {
        let watchers = Watchers::default();
        let mut watches: Vec<_> = (0..5).map(|n| watchers.watch(job(n)).unwrap()).collect();
        watchers.notify_all();
        assert!(watches.iter_mut().all(|watch| watch.changed().now_or_never().is_some()));
    }

    #[test]
    fn nothing_is_kept_of_a_watch_that_ended() {
        let watchers = Watchers::default();
        let first = watchers.watch(job(1)).unwrap();
        let second = watchers.watch(job(1)).unwrap();
        drop(first);
        assert_eq!(watchers.lock().len(), 1);
        drop(second);
        assert!(watchers.lock().is_empty());
    }
}

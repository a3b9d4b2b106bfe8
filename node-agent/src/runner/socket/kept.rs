//! What one attempt has said, in memory and in its directory: one writes at a time, and nobody once it has ended.
//!
//! Responsible for the order of these writes, and for the end of all that is in flight. Not responsible for what may be
//! said (`desk.rs`), nor for the shape of the files (`said.rs`, `checkpoint.rs`).
//!
//! Invariants: what is in memory is what the file holds, also if whoever asked for a change has gone meanwhile; after
//! [`Kept::close`] nothing is changed, and nothing that was asked for before goes on.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Code, Status};

use super::said::{Said, Wait};
use super::service::{invalid, refused};
use crate::runner::checkpoint;

/// See the module.
#[derive(Debug)]
pub(super) struct Kept {
    dir: PathBuf,
    /// Held by whoever writes, up to the end of the write.
    said: Arc<Mutex<Said>>,
    /// The newest wait, as it is kept.
    wait: watch::Sender<Option<Wait>>,
    closed: CancellationToken,
    /// What is under way.
    calls: TaskTracker,
}

impl Kept {
    /// Of the attempt with this directory: what it has said so far. Blocks on the disk.
    pub(super) fn read(dir: PathBuf) -> Self {
        let said = Said::read(&dir);
        let (wait, _) = watch::channel(said.wait.clone());
        let (said, closed, calls) =
            (Arc::new(Mutex::new(said)), CancellationToken::new(), TaskTracker::new());
        Self { dir, said, wait, closed, calls }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// All that was said, once what is being written is.
    pub(super) async fn said(&self) -> Said {
        self.said.lock().await.clone()
    }

    /// The newest wait.
    pub(super) fn waits(&self) -> watch::Receiver<Option<Wait>> {
        self.wait.subscribe()
    }

    /// Cancelled once the attempt has ended.
    pub(super) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Ends what is in flight, and lets nothing else begin. When it returns, nothing is under way; a write that had begun
    /// is waited for by [`Kept::said`].
    pub(super) async fn close(&self) {
        self.closed.cancel();
        self.calls.close();
        self.calls.wait().await;
    }

    /// Goes on with this until the attempt ends: no step of it is made after that.
    ///
    /// # Errors
    /// Its own, or ABORTED with ENDED.
    pub(super) async fn while_open<T>(
        &self,
        work: impl Future<Output = Result<T, Status>> + Send,
    ) -> Result<T, Status> {
        let _under_way = self.calls.token();
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(ended()),
            answer = work => answer,
        }
    }

    /// Changes what is kept, if that can be kept. Dropped, it has changed all or nothing.
    ///
    /// # Errors
    /// That of the change; ABORTED with ENDED, or UNAVAILABLE with DISK: nothing is changed.
    pub(super) async fn change<T>(
        &self,
        change: impl FnOnce(&mut Said) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut said = self.lock().await?;
        let mut changed = said.clone();
        let answer = change(&mut changed)?;
        if *said == changed {
            return Ok(answer);
        }
        let (dir, wait) = (self.dir.clone(), self.wait.clone());
        // Goes on if nobody waits for it, and holds the lock up to its end.
        let written = tokio::task::spawn_blocking(move || {
            changed.write(&dir)?;
            *said = changed;
            wait.send_if_modified(|wait| {
                let differs = *wait != said.wait;
                if differs {
                    wait.clone_from(&said.wait);
                }
                differs
            });
            std::io::Result::Ok(())
        });
        match written.await {
            Ok(Ok(())) => Ok(answer),
            Ok(Err(error)) => {
                tracing::warn!(%error, "what an attempt says of itself cannot be kept");
                Err(disk())
            }
            Err(error) => {
                tracing::error!(%error, "keeping what an attempt says ended early");
                Err(fault())
            }
        }
    }

    /// Keeps a checkpoint in the place of the one before, and calls `saved` then. Dropped, it has done both or nothing.
    ///
    /// # Errors
    /// INVALID_FIELD; ABORTED with ENDED, or UNAVAILABLE with DISK: the one before stands.
    pub(super) async fn save(
        &self,
        bytes: Bytes,
        saved: impl FnOnce() + Send + 'static,
    ) -> Result<(), Status> {
        let lock = self.lock().await?;
        let dir = self.dir.clone();
        let written = tokio::task::spawn_blocking(move || {
            let _one_at_a_time = lock;
            checkpoint::save(&dir, &bytes).map(|()| saved())
        });
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(no @ (checkpoint::Refused::Empty | checkpoint::Refused::TooLarge { .. }))) => {
                Err(invalid("data", &no.to_string()))
            }
            Ok(Err(error)) => {
                tracing::warn!(error = %crate::Chain(&error), "a checkpoint cannot be kept");
                Err(disk())
            }
            Err(error) => {
                tracing::error!(%error, "keeping a checkpoint ended early");
                Err(fault())
            }
        }
    }

    /// The right to write. Who has it when the attempt ends is waited for; nobody gets it afterwards.
    async fn lock(&self) -> Result<OwnedMutexGuard<Said>, Status> {
        let said = Arc::clone(&self.said).lock_owned().await;
        if self.closed.is_cancelled() { Err(ended()) } else { Ok(said) }
    }
}

/// The attempt has ended.
pub(super) fn ended() -> Status {
    refused(Code::Aborted, "ENDED", "the attempt has ended")
}

fn disk() -> Status {
    refused(Code::Unavailable, "DISK", "it cannot be written to the node's disk")
}

fn fault() -> Status {
    refused(Code::Internal, "INTERNAL", "a fault of the agent")
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::FutureExt as _;
    use tokio::task::JoinSet;

    use super::*;

    /// Wraps up.
    fn wrap_up(said: &mut Said) -> Result<(), Status> {
        said.wrap_up = true;
        Ok(())
    }

    fn uses(amount: u64) -> impl FnOnce(&mut Said) -> Result<(), Status> {
        move |said| {
            *said.usage.entry("tokens".to_owned()).or_default() += amount;
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_change_whose_caller_has_gone_is_made_whole_before_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::read(dir.path().to_owned());
        for round in 1..=100 {
            // Begun, and given up, unless the disk was faster.
            drop(kept.change(uses(1)).now_or_never());
            kept.change(uses(1)).await.unwrap();
            let said = kept.said().await;
            assert_eq!(said.usage.get("tokens"), Some(&(2 * round)));
            assert_eq!(Said::read(dir.path()), said);
        }
    }

    #[tokio::test]
    async fn a_checkpoint_whose_caller_has_gone_is_saved_and_told_before_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::read(dir.path().to_owned());
        let told = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&told);
        let large = Bytes::from(vec![7; checkpoint::LARGEST]);
        drop(kept.save(large, move || tell.store(true, Ordering::SeqCst)).now_or_never());
        kept.save(Bytes::from_static(b"next"), || ()).await.unwrap();
        assert_eq!(checkpoint::read(dir.path()).unwrap(), b"next");
        assert!(told.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn once_it_is_closed_nothing_goes_on_and_nothing_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Arc::new(Kept::read(dir.path().to_owned()));
        let working = Arc::clone(&kept);
        let mut call = JoinSet::new();
        call.spawn(async move { working.while_open(pending::<Result<(), Status>>()).await });
        tokio::task::yield_now().await;
        drop(kept.change(uses(5)).now_or_never());
        kept.close().await;
        let said = kept.said().await;
        assert_eq!(said.usage.get("tokens"), Some(&5), "what had begun is waited for");
        assert_eq!(call.join_next().await.unwrap().unwrap().unwrap_err().code(), Code::Aborted);
        assert_eq!(kept.change(wrap_up).await.unwrap_err().code(), Code::Aborted);
        let late = kept.save(Bytes::from_static(b"late"), || panic!("it is over")).await;
        assert_eq!(late.unwrap_err().code(), Code::Aborted);
        let late = kept.while_open::<()>(async { panic!("it is over") }).await;
        assert_eq!(late.unwrap_err().code(), Code::Aborted);
        assert_eq!(Said::read(dir.path()), said);
        assert_eq!(checkpoint::read(dir.path()), None);
    }
}

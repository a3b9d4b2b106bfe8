//! What one attempt says, and where it stands: between its socket, its task, and the session.
//!
//! Responsible for what may be said, and who is told of it. Not responsible for the wire (`service.rs`), nor for keeping it,
//! each word on the disk before it is answered (`kept.rs`).

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_proto::node::v1::Grant;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::calls::{Calls, Lease};
use super::kept::Kept;
use super::said::{Said, Stand, Terms, Wait};
use super::service::{invalid, refused};
use crate::clock::Mono;
use crate::holdings::WaitVerdict;
use crate::runner::{Event, Orders, Shared};

/// Progress is told no more often: what counts is the newest.
const BETWEEN_PROGRESS: Duration = Duration::from_secs(1);

/// What a command may ask of its own attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) job: String,
    pub(crate) kind: String,
    pub(crate) attempt: u32,
    pub(crate) idempotency_key: String,
    pub(crate) tenant: String,
    pub(crate) parent: String,
}

impl About {
    /// What a grant says.
    pub(crate) fn of(grant: &Grant) -> Self {
        Self {
            job: grant.job_id.clone(),
            kind: grant.kind.clone(),
            attempt: grant.attempt,
            idempotency_key: grant.idempotency_key.clone(),
            tenant: grant.tenant.clone(),
            parent: grant.parent_id.clone(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Desk {
    shared: Arc<Shared>,
    lease: Lease,
    about: About,
    uid: u32,
    /// Its slots have numbers, which its process was told and which somebody else would get meanwhile.
    numbered: bool,
    orders: watch::Receiver<Orders>,
    kept: Kept,
    progress: watch::Sender<Option<(u32, String)>>,
}

/// What an attempt is, for its socket.
pub(crate) struct Of {
    pub(crate) lease: Lease,
    pub(crate) about: About,
    pub(crate) dir: PathBuf,
    pub(crate) uid: u32,
    pub(crate) numbered: bool,
}

/// How a wait that a command asks for begins.
pub(super) enum Begun {
    /// It goes on under this number.
    As(u64),
    /// It may not stay.
    MustDetach,
}

impl Desk {
    /// Of an attempt with what it has said so far. Blocks on the disk.
    pub(crate) fn new(shared: Arc<Shared>, of: Of, orders: watch::Receiver<Orders>) -> Self {
        let Of { lease, about, dir, uid, numbered } = of;
        let (progress, _) = watch::channel(None);
        Self { shared, lease, about, uid, numbered, orders, kept: Kept::read(dir), progress }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.kept.dir()
    }

    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(super) fn about(&self) -> &About {
        &self.about
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.shared.options.calls
    }

    /// What is to be done with the attempt.
    pub(super) fn orders(&self) -> watch::Receiver<Orders> {
        self.orders.clone()
    }

    /// How long the process has until it is killed without a renewal; none: it is being stopped.
    pub(super) fn remaining(&self) -> Option<Duration> {
        let (stop, gone_by): (bool, Mono) = {
            let orders = self.orders.borrow();
            (orders.stop.is_some(), orders.gone_by)
        };
        let left = gone_by.since(self.shared.options.clock.now());
        (!stop && !left.is_zero()).then_some(left)
    }

    pub(crate) async fn said(&self) -> Said {
        self.kept.said().await
    }

    /// The command has ended: what is in flight ends, and nothing else counts. What was said before is known afterwards.
    pub(super) async fn close(&self) {
        self.kept.close().await;
    }

    /// Cancelled once the command has ended.
    pub(super) fn closed(&self) -> &CancellationToken {
        self.kept.closed()
    }

    /// Goes on with a call for as long as the command lives.
    pub(super) async fn while_open<T>(
        &self,
        call: impl Future<Output = Result<T, Status>> + Send,
    ) -> Result<T, Status> {
        self.kept.while_open(call).await
    }

    /// Changes what is kept, if that can be kept.
    pub(super) async fn change<T>(
        &self,
        change: impl FnOnce(&mut Said) -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.kept.change(change).await
    }

    /// The command has said something: it is not stalled.
    pub(super) fn heard(&self) {
        self.shared.heard(self.lease.token);
    }

    /// Keeps a checkpoint in the place of the one before.
    pub(super) async fn save(&self, bytes: Bytes) -> Result<(), Status> {
        let (shared, token) = (Arc::clone(&self.shared), self.lease.token);
        self.kept.save(bytes, move || shared.saved(token)).await
    }

    /// The command was asked to wrap up.
    pub(crate) async fn asked_to_wrap_up(&self) {
        let noted = self.change(|said| {
            said.wrap_up = true;
            Ok(())
        });
        // What cannot be kept was logged; the process has its signal.
        drop(noted.await);
    }

    /// The run clock of the attempt stands still, or goes on.
    pub(super) fn pause(&self, paused: bool) {
        self.shared.order(self.lease.token, |orders| orders.parked = paused);
    }

    /// It had parked, and does not get back what it gave.
    pub(super) fn must_detach(&self) {
        self.shared.order(self.lease.token, |orders| orders.must_detach = true);
    }

    /// The newest progress is told by [`Desk::tell_progress`].
    pub(super) fn progress(&self, percent: u32, message: String) {
        self.progress.send_replace(Some((percent, message)));
    }

    /// Tells the session how the attempt gets on, not too often. Never returns.
    pub(super) async fn tell_progress(&self) {
        let mut progress = self.progress.subscribe();
        loop {
            if progress.changed().await.is_err() {
                return;
            }
            let newest = progress.borrow_and_update().clone();
            if let Some((percent, message)) = newest {
                let token = self.lease.token;
                self.shared.tell(Event::Progress { token, percent, message }).await;
            }
            tokio::time::sleep(BETWEEN_PROGRESS).await;
        }
    }
}

// Waits.
impl Desk {
    pub(super) fn waits(&self) -> watch::Receiver<Option<Wait>> {
        self.kept.waits()
    }

    /// A command wants to wait. The same `id` is the same wait.
    pub(super) async fn begin(&self, id: String, terms: Terms) -> Result<Begun, Status> {
        if self.orders.borrow().stop.is_some() {
            return Err(refused(Code::FailedPrecondition, "LEASE_LOST", "the attempt is being stopped"));
        }
        if self.numbered {
            return Ok(Begun::MustDetach);
        }
        self.change(|said| {
            // Whoever asks for what goes on already asks for that, such as a command that was started again.
            let same = |known: &&Wait| known.is_open() && known.terms == terms;
            if let Some(known) = said.wait.as_ref().filter(same) {
                return Ok(Begun::As(known.epoch));
            }
            if let Some(known) = said.wait.as_ref().filter(|known| known.id == id && !id.is_empty()) {
                if known.terms != terms {
                    return Err(invalid("wait_id", "is that of a wait for something else"));
                }
                return Ok(Begun::As(known.epoch));
            }
            if said.open_wait().is_some() {
                let problem = "the attempt waits already, under another wait_id";
                return Err(refused(Code::FailedPrecondition, "WAITING", problem));
            }
            let epoch = said.wait.as_ref().map_or(0, |wait| wait.epoch) + 1;
            said.wait = Some(Wait { epoch, id, terms, stand: Stand::Asked });
            Ok(Begun::As(epoch))
        })
        .await
    }

    /// How a wait stands now; nothing, if it is over already.
    pub(super) async fn stands(&self, epoch: u64, stand: Stand) {
        loop {
            let stand = stand.clone();
            let changed = self.change(|said| {
                if let Some(wait) = said.wait.as_mut().filter(|wait| wait.epoch == epoch && wait.is_open()) {
                    wait.stand = stand;
                }
                Ok(())
            });
            if changed.await.is_ok() {
                return;
            }
            // A full disk: the process waits on, and what it is to hear is known elsewhere.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Tells the session that the lease gives back what it holds, as far as this node's ledger goes.
    pub(super) async fn tell_waiting(&self, epoch: u64, parked: Option<BTreeMap<String, u32>>) {
        let token = self.lease.token;
        self.shared.tell(Event::Waits { token, epoch, parked }).await;
    }

    /// Tells the session that the wait is over.
    pub(super) async fn tell_over(
        &self,
        epoch: u64,
        verdict: WaitVerdict,
        kept: Option<BTreeMap<String, u32>>,
    ) {
        let token = self.lease.token;
        self.shared.tell(Event::WaitOver { token, epoch, verdict, kept }).await;
    }
}

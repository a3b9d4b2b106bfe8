//! What an attempt in a worker says of itself: its own socket, in a directory of its own.
//!
//! Responsible for that directory, and for what was heard of the words by now. Not responsible for what may be said
//! (`runner/socket.rs`), nor for what becomes of it (`end.rs`).
//!
//! Invariant: the directory is there for as long as the record of the attempt at the most, and the next agent finds in it what
//! was said.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::end::Spoken;
use crate::clock::Mono;
use crate::runner::socket::{Desk, Of, Said, Socket};
use crate::runner::{Orders, Shared, checkpoint};

/// A checkpoint is told to the server no sooner than this after the one before.
const BETWEEN_CHECKPOINTS: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(super) struct Voice {
    desk: Arc<Desk>,
    socket: Socket,
    path: String,
    /// What was heard already.
    words: u64,
    saves: u64,
    /// When its newest checkpoint is to be told. None: it was told, or there is none.
    due: Option<Mono>,
    /// When one was told last.
    told: Option<Mono>,
}

impl Voice {
    /// Makes the directory and the socket in it.
    ///
    /// # Errors
    /// If they cannot be made.
    pub(super) async fn open(
        shared: &Arc<Shared>,
        of: Of,
        orders: watch::Receiver<Orders>,
    ) -> io::Result<Self> {
        let shared = Arc::clone(shared);
        let desk = tokio::task::spawn_blocking(move || {
            make(&of.dir, of.uid)?;
            io::Result::Ok(Desk::new(shared, of, orders))
        });
        let desk = Arc::new(desk.await.map_err(io::Error::other)??);
        let path = Socket::path(desk.dir());
        let path = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
        let socket = Socket::open(Arc::clone(&desk))?;
        Ok(Self { desk, socket, path, words: 0, saves: 0, due: None, told: None })
    }

    /// Where it speaks.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether the orders tell of words that are news: it is not stalled.
    pub(super) fn follow(&mut self, orders: Orders, now: Mono) -> bool {
        if orders.saves != self.saves {
            self.saves = orders.saves;
            let earliest = self.told.map_or(now, |told| told + BETWEEN_CHECKPOINTS);
            self.due.get_or_insert(earliest.max(now));
        }
        let spoke = orders.words != self.words;
        self.words = orders.words;
        spoke
    }

    /// When its checkpoint is to be told.
    pub(super) fn checkpoint_due(&self) -> Option<Mono> {
        self.due
    }

    /// Its checkpoint is told now.
    pub(super) fn checkpoint_told(&mut self, now: Mono) {
        (self.due, self.told) = (None, Some(now));
    }

    /// It was asked to wrap up, as who asks at its socket is told.
    pub(super) async fn asked_to_wrap_up(&self) {
        self.desk.asked_to_wrap_up().await;
    }

    /// All that was said. Nothing that is said later counts.
    pub(super) async fn heard(self) -> Spoken {
        self.socket.close().await;
        let said = self.desk.said().await;
        let dir = self.desk.dir().to_owned();
        let checkpoint = tokio::task::spawn_blocking(move || checkpoint::read(&dir)).await.ok().flatten();
        Spoken { said, checkpoint }
    }
}

/// What an attempt of an earlier agent has said. Blocks.
pub(super) fn left(dir: &Path) -> Spoken {
    Spoken { said: Said::read(dir), checkpoint: checkpoint::read(dir) }
}

fn make(dir: &Path, uid: u32) -> io::Result<()> {
    let mode = if uid == rustix::process::geteuid().as_raw() { 0o700 } else { 0o711 };
    DirBuilder::new().mode(mode).create(dir)?;
    // The agent's umask may have taken bits that the worker's user needs to reach the socket.
    fs::set_permissions(dir, Permissions::from_mode(mode))
}

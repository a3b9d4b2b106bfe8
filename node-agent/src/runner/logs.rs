//! What attempts print, for who reads it: while they run, and of their end.
//!
//! Responsible for which attempts have anything to read here, for readers that are waited for before a directory is removed,
//! and for the last bytes in the report of an end. Not responsible for the files (`output.rs`), nor for the way to the
//! server (`session/logs.rs`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_proto::node::v1::{Finished, LogTail, Report, report::Event};
use tenure_proto::v1::LogTailPart;
use tokio::sync::Notify;

use super::Shared;
use crate::holdings::FencingToken;
use crate::output::{Stream, end_of};
use crate::shim::{EXIT, ExitRecord};

/// The most bytes of each stream that stay with an attempt.
const TAIL_BYTES: usize = 8 * 1024;
/// A reader that has not read to the end of an attempt by then reads no more than what it has open.
const READERS: Duration = Duration::from_secs(2);

/// How many read what, by attempt. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Readers(Arc<(Mutex<BTreeMap<FencingToken, usize>>, Notify)>);

/// One reader, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reads {
    token: FencingToken,
    of: Readers,
}

/// What one attempt prints.
#[derive(Clone, Debug)]
pub(crate) struct LogSource {
    shared: Arc<Shared>,
    token: FencingToken,
}

/// Where what an attempt prints is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printed {
    /// In its directory, now or soon.
    Here,
    /// With the worker that runs it.
    ByWorker,
    /// Not on this node.
    Nowhere,
}

impl Readers {
    fn of(&self, token: FencingToken) -> Reads {
        *self.count().entry(token).or_insert(0) += 1;
        Reads { token, of: self.clone() }
    }

    /// Waits until nobody reads this attempt any more, for a while.
    pub(super) async fn gone(&self, token: FencingToken) {
        let gone = async {
            loop {
                let changed = self.0.1.notified();
                if !self.count().contains_key(&token) {
                    return;
                }
                changed.await;
            }
        };
        if tokio::time::timeout(READERS, gone).await.is_err() {
            tracing::debug!(lease.token = token.0, "somebody still reads what an attempt printed");
        }
    }

    fn count(&self) -> std::sync::MutexGuard<'_, BTreeMap<FencingToken, usize>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        let mut count = self.of.count();
        if let Some(readers) = count.get_mut(&self.token) {
            *readers -= 1;
            if *readers == 0 {
                count.remove(&self.token);
            }
        }
        drop(count);
        self.of.0.1.notify_waiters();
    }
}

impl LogSource {
    pub(super) fn new(shared: Arc<Shared>, token: FencingToken) -> Self {
        Self { shared, token }
    }

    /// A reader; its directory is not removed at once while there is one.
    pub(crate) fn read(&self) -> Reads {
        self.shared.readers.of(self.token)
    }

    /// Where it is to be found.
    pub(crate) fn printed(&self) -> Printed {
        if self.shared.options.workers.attempts().contains(&self.token) {
            Printed::ByWorker
        } else if self.shared.orders().contains_key(&self.token) || self.dir().exists() {
            Printed::Here
        } else {
            Printed::Nowhere
        }
    }

    /// The directory of the attempt, which need not be there yet, or any more.
    pub(crate) fn dir(&self) -> std::path::PathBuf {
        self.shared.options.attempts_dir.join(self.token.to_string())
    }

    /// Whether nothing more will be printed. Looks at the disk.
    pub(crate) fn is_over(&self) -> bool {
        let dir = self.dir();
        dir.join(EXIT).exists() || !self.shared.orders().contains_key(&self.token) && !dir.exists()
    }
}

/// The report of an end, with the end of what its command printed. Reads files.
pub(super) fn with_tail(mut report: Report, record: &ExitRecord, dir: &Path) -> Report {
    if let Some(Event::Finished(Finished { log_tail, .. })) = &mut report.event {
        let part = |stream, captured| {
            let (total, data) = end_of(dir, stream, captured, TAIL_BYTES)?;
            Some(LogTailPart { total, data: data.into() })
        };
        let stdout = part(Stream::Stdout, record.stdout);
        let stderr = part(Stream::Stderr, record.stderr);
        *log_tail = (stdout.is_some() || stderr.is_some()).then_some(LogTail { stdout, stderr });
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_waits_for_its_readers_and_not_for_those_of_another() {
        let readers = Readers::default();
        let (one, other) = (FencingToken(1), FencingToken(2));
        let _stays = readers.of(other);
        readers.gone(one).await;
        let (first, second) = (readers.of(one), readers.of(one));
        let mut gone = std::pin::pin!(readers.gone(one));
        let at_once = Duration::ZERO;
        assert!(tokio::time::timeout(at_once, &mut gone).await.is_err());
        drop(first);
        assert!(tokio::time::timeout(at_once, &mut gone).await.is_err());
        drop(second);
        tokio::time::timeout(READERS / 2, gone).await.expect("nobody is left");
    }
}

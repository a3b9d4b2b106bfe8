//! What attempts print, on its way to the server that asked for it.
//!
//! Responsible for one stream a reader, on a connection of its own: a reader that is slow fills that one's window and
//! nothing else. Not responsible for what there is to read (`runner/logs.rs`, `output.rs`).
//! Invariants: a session that ends takes the streams along that it asked for; nothing here holds up an attempt, a heartbeat
//! or a report; what a reader has not taken waits in the files, whose size is bounded.

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_proto::node::v1::node_service_client::NodeServiceClient;
use tenure_proto::node::v1::{
    LeaseName, LogEnd, NoLog, PushLogOpening, PushLogRequest, WantLog, push_log_request::Said,
};
use tenure_proto::v1::{LogChunk, LogStream};
use tenure_tls::Connector;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Endpoint;

use crate::output::{Follow, Piece, Stream};
use crate::runner::{LogSource, Printed};

/// Readers at once, of all attempts together. Beyond: the server asks again.
const MOST_READERS: usize = 32;
/// Pieces that wait for the transport, 64 KiB each.
const QUEUED: usize = 2;
/// Between two looks at a file that had nothing new.
const LOOK: Duration = Duration::from_millis(100);

/// How a connection is made to the server of the session.
#[derive(Clone, Debug)]
pub(super) struct Dial {
    pub(super) endpoint: Endpoint,
    pub(super) connector: Option<Connector>,
}

/// The streams that the present session asked for.
#[derive(Debug, Default)]
pub(super) struct Pushes {
    over: CancellationToken,
    open: Arc<Mutex<BTreeSet<u64>>>,
}

/// A place among the open ones.
#[derive(Debug)]
struct Place {
    want: u64,
    open: Arc<Mutex<BTreeSet<u64>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.want);
    }
}

impl Pushes {
    /// Opens the stream that the server wants, unless it is open.
    pub(super) fn begin(
        &self,
        tasks: &TaskTracker,
        node: &str,
        dial: Option<&Dial>,
        (want, source): (WantLog, LogSource),
    ) {
        let Some(dial) = dial.cloned() else { return };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MOST_READERS || !open.insert(want.want_id) {
            return;
        }
        drop(open);
        let place = Place { want: want.want_id, open: Arc::clone(&self.open) };
        let (over, node) = (self.over.clone(), node.to_owned());
        tasks.spawn(async move {
            let _place = place;
            // Cancel-safe: a stream that is dropped is reset, which the server sees.
            tokio::select! {
                () = over.cancelled() => {}
                () = push(dial, node, want, source) => {}
            }
        });
    }

    /// The session is over.
    pub(super) fn end(&mut self) {
        self.over.cancel();
        *self = Self::default();
    }
}

async fn push(dial: Dial, node: String, want: WantLog, source: LogSource) {
    let token = want.token;
    let connecting = async {
        match dial.connector {
            Some(connector) => dial.endpoint.connect_with_connector(connector).await,
            None => dial.endpoint.connect().await,
        }
    };
    let channel = match connecting.await {
        Ok(channel) => channel,
        Err(error) => {
            let error = crate::Chain(&error).to_string();
            return tracing::debug!(
                lease.token = token,
                error,
                "no connection for a log; the server asks again"
            );
        }
    };
    let (pieces, queue) = mpsc::channel(QUEUED);
    let mut client = NodeServiceClient::new(channel);
    let mut pushing = pin!(client.push_log(ReceiverStream::new(queue)));
    let feeding = pin!(feed(node, want, source, pieces));
    // Cancel-safe: both stay where they are; an answer means that nobody reads any more.
    let answer = tokio::select! {
        biased;
        answer = &mut pushing => answer,
        () = feeding => pushing.await,
    };
    if let Err(status) = answer {
        tracing::debug!(lease.token = token, %status, "the server took a log no further");
    }
}

/// Says what there is, until there is no more or nobody takes it.
async fn feed(node: String, want: WantLog, source: LogSource, pieces: mpsc::Sender<PushLogRequest>) {
    let say = async |said| pieces.send(PushLogRequest { said: Some(said) }).await.is_ok();
    let lease = LeaseName { node, job_id: want.job_id.clone(), token: want.token };
    if !say(Said::Opening(PushLogOpening { lease: Some(lease), want_id: want.want_id })).await {
        return;
    }
    let reads = source.read();
    let why = match source.printed() {
        Printed::Here => None,
        Printed::ByWorker => Some("it runs in a worker, which keeps what it prints to itself"),
        Printed::Nowhere => Some("its node does not hold it any more"),
    };
    if let Some(why) = why {
        say(Said::NoLog(NoLog { reason: why.to_owned() })).await;
        return;
    }
    let mut places: Option<Vec<Read>> = None;
    loop {
        let (looked, of) = (source.clone(), want.clone());
        let look = move || {
            let dir = looked.dir();
            // Before the files: what was printed before its end is read then.
            let over = looked.is_over();
            let mut places = match places {
                Some(places) => places,
                None => begin(&dir, &of)?,
            };
            let round = read(&mut places)?;
            Ok::<_, std::io::Error>((over, places, round))
        };
        let round = match tokio::task::spawn_blocking(look).await {
            Ok(Ok((over, kept, round))) => {
                places = Some(kept);
                (over, round)
            }
            Ok(Err(error)) => {
                tracing::warn!(lease.token = want.token, %error, "what an attempt printed cannot be read");
                say(Said::NoLog(NoLog { reason: format!("its node cannot read it: {error}") })).await;
                return;
            }
            Err(error) => return tracing::error!(%error, "reading what an attempt printed ended early"),
        };
        let (over, round) = round;
        if round.is_empty() && (over || !want.follow) {
            drop(reads);
            say(Said::LogEnd(LogEnd {})).await;
            return;
        }
        if round.is_empty() {
            // Cancel-safe: it only waits.
            tokio::select! {
                () = tokio::time::sleep(LOOK) => continue,
                () = pieces.closed() => return,
            }
        }
        for chunk in round {
            if !say(Said::Chunk(chunk)).await {
                return;
            }
        }
    }
}

/// A stream that is read, by its name on the wire.
type Read = (LogStream, Follow);

fn begin(dir: &Path, want: &WantLog) -> std::io::Result<Vec<Read>> {
    let wanted = match want.stream() {
        LogStream::Unspecified => vec![LogStream::Stdout, LogStream::Stderr],
        only @ (LogStream::Stdout | LogStream::Stderr) => vec![only],
    };
    let place = want.place.unwrap_or_default();
    let follow = |name| {
        let (stream, at) = match name {
            LogStream::Stderr => (Stream::Stderr, place.stderr_offset),
            LogStream::Stdout | LogStream::Unspecified => (Stream::Stdout, place.stdout_offset),
        };
        let follow = match want.tail_lines {
            Some(lines) if want.place.is_none() => Follow::last_lines(dir, stream, lines)?,
            Some(_) | None => Follow::new(dir, stream, at),
        };
        // Who does not follow gets what is there now: a command that prints without pause has no other end.
        let follow = if want.follow { follow } else { follow.up_to_now()? };
        Ok((name, follow))
    };
    wanted.into_iter().map(follow).collect()
}

/// The next piece of each stream that has one.
fn read(places: &mut [Read]) -> std::io::Result<Vec<LogChunk>> {
    let mut round = Vec::new();
    for (name, follow) in places {
        if let Some(Piece { offset, data, dropped }) = follow.next()? {
            round.push(LogChunk { stream: (*name).into(), offset, data: data.into(), dropped });
        }
    }
    Ok(round)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_follow_gets_what_there_was_and_who_does_gets_more() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("stdout.head");
        for (follow, more) in [(false, 0), (true, 1)] {
            std::fs::write(&file, "one\n").unwrap();
            let want = WantLog { follow, ..WantLog::default() };
            let mut places = begin(dir.path(), &want).unwrap();
            assert_eq!(read(&mut places).unwrap().len(), 1);
            std::fs::write(&file, "one\ntwo\n").unwrap();
            assert_eq!(read(&mut places).unwrap().len(), more, "follow: {follow}");
        }
    }
}

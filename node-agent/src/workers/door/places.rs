//! Connections of one socket, bounded: each is a descriptor of the agent, whether or not a worker attaches by it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::transport::server::Connected;

/// Connections, at most so many at once. Beyond, one is closed at once.
pub(super) fn bounded<S>(
    incoming: impl Stream<Item = io::Result<S>>,
    most: usize,
) -> impl Stream<Item = io::Result<Placed<S>>> {
    let room = Arc::new(Semaphore::new(most));
    incoming.filter_map(move |connection| {
        let placed = match (connection, Arc::clone(&room).try_acquire_owned()) {
            (Ok(socket), Ok(place)) => Some(Ok(Placed { socket, _place: place })),
            (Ok(_), Err(_)) => {
                tracing::warn!(most, "the socket of workers has too many connections; one is closed");
                None
            }
            (Err(error), _) => Some(Err(error)),
        };
        std::future::ready(placed)
    })
}

/// A connection with its place among all of its socket.
#[derive(Debug)]
pub(super) struct Placed<S> {
    socket: S,
    _place: OwnedSemaphorePermit,
}

impl<S: Connected> Connected for Placed<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.socket.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Placed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Placed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::UnixStream;
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::super::{Door, MOST_CONNECTIONS};
    use crate::workers::{Options, Workers};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Whether the agent has something to say, which it has to everybody who may stay.
    async fn stays(connection: &mut UnixStream) -> bool {
        let read = tokio::time::timeout(PATIENCE, connection.read(&mut [0; 16])).await;
        matches!(read.expect("it says something, or hangs up"), Ok(bytes) if bytes > 0)
    }

    #[tokio::test]
    async fn who_only_connects_takes_a_place_among_few_until_it_leaves() {
        let directory = tempfile::tempdir().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let kinds = BTreeMap::from([("k".to_owned(), uid)]);
        let options = Options { directory: directory.path().to_owned(), kinds, ..Options::default() };
        let shutdown = CancellationToken::new();
        let door = Door::open(Workers::new(options)).unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(door.run(shutdown.clone()));
        let path = directory.path().join(format!("{uid}.sock"));
        let mut held = Vec::new();
        for _ in 0..MOST_CONNECTIONS {
            let mut connection = UnixStream::connect(&path).await.unwrap();
            assert!(stays(&mut connection).await, "there is room for it");
            held.push(connection);
        }
        assert!(!stays(&mut UnixStream::connect(&path).await.unwrap()).await, "one too many");
        held.pop();
        let again = async {
            while !stays(&mut UnixStream::connect(&path).await.unwrap()).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, again).await.expect("its place is free again");
        drop(held);
        shutdown.cancel();
        let ended = tokio::time::timeout(PATIENCE, serving.join_next()).await;
        ended.expect("it ends").unwrap().unwrap().unwrap();
    }
}

//! The sockets at which workers attach, one for each user that the worker kinds name.
//!
//! Responsible for who may come in, and for the stream of each. Not responsible for what runs in a worker.
//!
//! Invariants: a socket belongs to its user alone, and who comes in is that user; whose process cannot be known, and so
//! not killed, does not come in; what a worker says is refused, never asserted; no user takes what others need.

mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use tenure_proto::limits;
use tenure_proto::node::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use tenure_proto::node::v1::{
    WorkClock, WorkMessage, WorkerHello, WorkerMessage, WorkerWelcome, work_message, worker_message::Body,
};
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::peer::{Connection, Peer};
use super::{Takes, Workers};
use crate::clock::Clock;

/// Of one message of a worker: a result of 256 KiB and what is around it.
const DECODE_LIMIT: usize = limits::MESSAGE_BYTES;
/// Who connects says Hello within this.
const HELLO: Duration = Duration::from_secs(10);
/// Between two HTTP/2 pings; a worker that is frozen keeps its attempts until their deadlines.
const PING: Duration = Duration::from_secs(10);
/// After a connection that cannot be taken, as when no file descriptor is left.
const PAUSE: Duration = Duration::from_millis(100);
/// Workers that may be attached at once.
const MOST_WORKERS: usize = 1_024;
/// Of those, of one user.
const MOST_OF_USER: usize = 128;
/// Connections of one socket, with some that have not attached yet.
const MOST_CONNECTIONS: usize = MOST_OF_USER + 16;
/// The most attempts that one worker may want.
const MOST_ATTEMPTS: u32 = 1_000;
/// The most kinds that it may name.
const MOST_KINDS: usize = 64;
/// A longer name of a library is cut.
const MOST_NAME: usize = 255;

/// The component: all sockets.
#[derive(Debug)]
pub struct Door {
    workers: Workers,
    sockets: Vec<(u32, UnixListener)>,
}

/// Why workers cannot attach.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A socket cannot be made.
    #[error("cannot make the socket {}", path.display())]
    Socket {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A socket cannot be served any more.
    #[error("the socket of workers failed")]
    Serve(#[source] tonic::transport::Error),
    /// The task of a socket ended early: a bug.
    #[error("the task of a socket ended early")]
    Task(#[source] tokio::task::JoinError),
}

impl Door {
    /// Makes the sockets. The state directory is this agent's, so what an earlier one left is removed.
    ///
    /// # Errors
    /// If one cannot be made.
    pub fn open(workers: Workers) -> Result<Self, Error> {
        let options = workers.options();
        let uids: BTreeSet<u32> = options.kinds.values().copied().collect();
        let mut sockets = Vec::new();
        if !uids.is_empty() {
            let shared = uids.iter().any(|&uid| uid != rustix::process::geteuid().as_raw());
            make(&options.directory, if shared { 0o711 } else { 0o700 })
                .map_err(|source| Error::Socket { path: options.directory.clone(), source })?;
        }
        for uid in uids {
            let path = options.directory.join(format!("{uid}.sock"));
            let made = bind(&path, uid).map_err(|source| Error::Socket { path: path.clone(), source })?;
            let kinds: Vec<&str> = options
                .kinds
                .iter()
                .filter(|&(_, &user)| user == uid)
                .map(|(kind, _)| kind.as_str())
                .collect();
            tracing::info!(path = %path.display(), uid, kinds = kinds.join(" "), "workers attach here");
            sockets.push((uid, made));
        }
        Ok(Self { workers, sockets })
    }

    /// Serves until the shutdown: then every stream ends.
    ///
    /// # Errors
    /// If a socket cannot be served any more.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let mut serving = JoinSet::new();
        for (uid, listener) in self.sockets {
            let places = Arc::new(Semaphore::new(MOST_OF_USER));
            let service = Service { workers: self.workers.clone(), uid, shutdown: shutdown.clone(), places };
            serving.spawn(serve(listener, service));
        }
        // Without a socket there is nothing to do until then.
        shutdown.cancelled().await;
        while let Some(ended) = serving.join_next().await {
            ended.map_err(Error::Task)??;
        }
        Ok(())
    }
}

async fn serve(listener: UnixListener, service: Service) -> Result<(), Error> {
    let (uid, shutdown) = (service.uid, service.shutdown.clone());
    let incoming = UnixListenerStream::new(listener).filter_map(move |connection| async move {
        match connection {
            Ok(stream) => match Connection::admit(stream, uid) {
                Ok(connection) => Some(Ok::<_, io::Error>(connection)),
                Err(error) => {
                    tracing::warn!(uid, error = %crate::Chain(&error), "who tried to attach may not");
                    None
                }
            },
            Err(error) => {
                tracing::warn!(%error, "a worker's connection cannot be taken");
                tokio::time::sleep(PAUSE).await;
                None
            }
        }
    });
    let served = WorkerServiceServer::new(service).max_decoding_message_size(DECODE_LIMIT);
    let server = Server::builder()
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(None)
        .max_concurrent_streams(4)
        .add_service(served);
    let incoming = places::bounded(incoming, MOST_CONNECTIONS);
    server.serve_with_incoming_shutdown(incoming, shutdown.cancelled_owned()).await.map_err(Error::Serve)
}

fn make(directory: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::set_permissions(directory, Permissions::from_mode(mode))
}

fn bind(path: &Path, uid: u32) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // Made under another name: at its own it is nobody's but its user's from the first moment.
    let making = path.with_extension("new");
    match fs::remove_file(&making) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&making)?;
    fs::set_permissions(&making, Permissions::from_mode(0o600))?;
    if uid != rustix::process::geteuid().as_raw() {
        chown(&making, Some(uid), None)?;
    }
    fs::rename(&making, path)?;
    Ok(listener)
}

/// What is served at one socket.
#[derive(Debug)]
struct Service {
    workers: Workers,
    uid: u32,
    shutdown: CancellationToken,
    /// How many of its user are attached.
    places: Arc<Semaphore>,
}

/// What a worker is told.
type Told = Pin<Box<dyn Stream<Item = Result<WorkMessage, Status>> + Send>>;

/// How many are attached; the sockets of one agent share it.
static ATTACHED: Semaphore = Semaphore::const_new(MOST_WORKERS);

#[tonic::async_trait]
impl WorkerService for Service {
    type AttachStream = Told;

    async fn attach(&self, request: Request<Streaming<WorkerMessage>>) -> Result<Response<Told>, Status> {
        // Whose process it was when the connection was taken, whoever holds it or has the pid by now.
        let peer = request.extensions().get::<Peer>().map(|peer| peer.identity);
        let Some(identity) = peer.filter(|identity| identity.is_alive()) else {
            return Err(no(
                Code::FailedPrecondition,
                "NO_PROCESS",
                "the process that connected is not to be found",
            ));
        };
        let pid = identity.pid;
        let room = ATTACHED.try_acquire().map_err(|_| {
            no(Code::ResourceExhausted, "TOO_MANY_WORKERS", "as many workers are attached as are possible")
        })?;
        let mut inbound = request.into_inner();
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            no(Code::ResourceExhausted, "TOO_MANY_WORKERS", "as many of this user are attached as may be")
        })?;
        let first = tokio::time::timeout(HELLO, inbound.message()).await;
        let first = first.map_err(|_| no(Code::DeadlineExceeded, "NO_HELLO", "no Hello came in time"))??;
        let Some(Body::Hello(hello)) = first.and_then(|message| message.body) else {
            return Err(no(Code::InvalidArgument, "NO_HELLO", "the first message has to be a Hello"));
        };
        let takes = self.check(&hello)?;
        let concurrency = takes.concurrency;
        let names: Vec<&str> = takes.kinds.iter().map(String::as_str).collect();
        let library: String = hello.library.chars().filter(|c| !c.is_control()).take(MOST_NAME).collect();
        tracing::info!(pid, kinds = names.join(" "), concurrency, library, "a worker attaches");
        let (id, queue, over) = self.workers.attach(identity, takes);
        let attached = Attached { workers: self.workers.clone(), id, _room: room };
        let options = self.workers.options();
        let clock = match options.clock {
            Clock::Boottime => WorkClock::Boottime,
            Clock::Monotonic => WorkClock::Monotonic,
        };
        let welcome = WorkerWelcome { node: options.node.clone(), clock: clock.into() };
        let (first, welcomed) = mpsc::channel(1);
        let body = Some(work_message::Body::Welcome(welcome));
        drop(first.try_send(Ok(WorkMessage { body }))); // It is empty.
        drop(first);
        let told = ReceiverStream::new(welcomed)
            .chain(ReceiverStream::new(queue).map(|outgoing| Ok(outgoing.message)));
        let shutdown = self.shutdown.clone();
        let listening = async move {
            let _place = place;
            attached.listen(&mut inbound, over, shutdown).await
        };
        // The stream stands for as long as it is listened to, and nobody listens longer than it stands.
        let ended = futures_util::stream::once(listening).map(Err);
        Ok(Response::new(Box::pin(
            futures_util::stream::select(told.chain(futures_util::stream::pending()), ended).scan(
                false,
                |over, item| {
                    let go_on = !*over;
                    *over = item.is_err();
                    std::future::ready(go_on.then_some(item))
                },
            ),
        )))
    }
}

impl Service {
    fn check(&self, hello: &WorkerHello) -> Result<Takes, Status> {
        let all = &self.workers.options().kinds;
        let own: BTreeMap<&String, &u32> = all.iter().filter(|&(_, &uid)| uid == self.uid).collect();
        let bad = |field: &str, problem: &str| {
            let mut details = ErrorDetails::new();
            details.set_error_info("INVALID_FIELD", "tenure", []);
            details.add_bad_request_violation(field, problem);
            Status::with_error_details(Code::InvalidArgument, format!("{field} {problem}"), details)
        };
        if hello.kinds.is_empty() || hello.kinds.len() > MOST_KINDS {
            return Err(bad("hello.kinds", &format!("must name 1 to {MOST_KINDS} kinds")));
        }
        for (place, kind) in hello.kinds.iter().enumerate() {
            if !own.contains_key(kind) {
                let known = own.keys().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ");
                let problem = format!("is no worker kind of this user in the node file; those are: {known}");
                return Err(bad(&format!("hello.kinds[{place}]"), &problem));
            }
        }
        if !(1..=MOST_ATTEMPTS).contains(&hello.concurrency) {
            return Err(bad("hello.concurrency", &format!("must be 1 to {MOST_ATTEMPTS}")));
        }
        let concurrency = usize::try_from(hello.concurrency).unwrap_or(usize::MAX);
        let kinds = hello.kinds.iter().cloned().collect();
        Ok(Takes { kinds, concurrency, inputs: hello.inputs, sockets: hello.sockets })
    }
}

/// An attached worker. Dropped, it is attached no more.
struct Attached {
    workers: Workers,
    id: u64,
    _room: tokio::sync::SemaphorePermit<'static>,
}

impl Attached {
    /// Listens until the stream is over: why.
    async fn listen(
        self,
        inbound: &mut Streaming<WorkerMessage>,
        over: CancellationToken,
        shutdown: CancellationToken,
    ) -> Status {
        loop {
            let message = tokio::select! {
                biased;
                () = over.cancelled() => {
                    return no(Code::Aborted, "KILLED", "an attempt did not stop; its worker is killed");
                }
                // Cancel-safe: a message that is being read stays where it is.
                message = inbound.message() => message,
                () = shutdown.cancelled() => return Status::unavailable("the agent ends"),
            };
            match message {
                Ok(Some(WorkerMessage { body: Some(Body::Ended(ended)) })) => {
                    let token = ended.token;
                    if !self.workers.ended(self.id, ended) {
                        tracing::debug!(
                            lease.token = token,
                            "a worker told of an attempt that it does not have"
                        );
                    }
                }
                Ok(Some(WorkerMessage { body: Some(Body::Leaving(_)) })) => self.workers.leaving(self.id),
                Ok(Some(WorkerMessage { body: Some(Body::Hello(_)) | None })) => {
                    return no(
                        Code::InvalidArgument,
                        "UNKNOWN_WORD",
                        "a worker said what this agent does not know",
                    );
                }
                Ok(None) => return Status::ok(""),
                Err(status) => {
                    tracing::debug!(error = %status, "the stream of a worker broke");
                    return status;
                }
            }
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        tracing::info!(worker = self.id, "a worker is attached no more");
        self.workers.detach(self.id);
    }
}

fn no(code: Code, reason: &str, message: &str) -> Status {
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, "tenure", []))
}

//! The life of one session, from its first message to its last word: hello → both ways at once → end.
//!
//! One task a session. It ends when the node goes, when the node makes a mistake, when the driver says so, or with the
//! term; whatever it was, the driver hears of it last, by the same queue as everything before.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::Stream;
use tenure_proto::node::v1::{NodeMessage, ServerMessage, node_message::Body};
use tenure_scheduler::{Command, Hello, NodeName, SessionId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::Instrument as _;

use super::{
    Carried, FromNode, MOST_ATTACHING, MOST_OUTBOUND, Peer, Shared, delay,
    inbound::{End, Inbound, next, told},
    outbound::Outbound,
};
use crate::{
    handle::{Handle, SubmitError},
    logs::Logs,
    metrics::Metrics,
    rpc::{
        auth::Caller,
        convert_node::{self, Settings},
        status::No,
    },
};

/// A stream that does not say Hello within this time is ended.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// How long a status may take to reach a wire that is full.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Wire messages that wait for HTTP/2's window. Few: what waits here can no longer be overtaken.
pub(crate) const MOST_WIRE: usize = 2;

/// Where a session's messages go, boxed for the same reason as those of its queue.
pub(crate) type Wire = mpsc::Sender<Wired>;

/// A message for the transport, or the last word.
pub(crate) type Wired = Result<Box<ServerMessage>, Status>;

/// What all sessions of one server share.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// To the driver of the term.
    pub(crate) inbox: mpsc::Sender<FromNode>,
    pub(crate) handle: Handle,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<Metrics>,
    /// Cancelled when the term or the server ends; the driver then closes the sessions it knows.
    pub(crate) over: CancellationToken,
    /// Room for Hellos.
    pub(crate) attaching: Arc<Semaphore>,
    pub(crate) session: SessionId,
    pub(crate) logs: Logs,
}

/// A Hello that was taken in.
struct Welcomable {
    hello: Hello,
    /// Among those that wait for the driver.
    place: OwnedSemaphorePermit,
    /// Its agent is of a version that keeps its logs to itself.
    keeps_logs: bool,
}

/// Starts sessions, whatever the term.
#[derive(Debug, Clone)]
pub(crate) struct Lobby {
    pub(crate) handle: Handle,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<Metrics>,
    /// Room for Hellos that wait for the driver or its commit, so that a fleet that comes back together is welcomed in
    /// parts: what is not taken in costs no turn.
    pub(crate) attaching: Arc<Semaphore>,
    /// The last number that was given. A number is never given again, in another term neither.
    pub(crate) sessions: Arc<AtomicU64>,
    /// Where readers of logs find the nodes.
    pub(crate) logs: Logs,
}

impl Lobby {
    /// Starts the task of one stream.
    ///
    /// # Errors
    /// If this server does not lead.
    pub(crate) fn start(
        &self,
        stream: impl Stream<Item = Result<NodeMessage, Status>> + Send + Unpin + 'static,
        wire: Wire,
        caller: Caller,
    ) -> Result<(), No> {
        let ways = self.handle.ways()?;
        let session = SessionId(self.sessions.fetch_add(1, Ordering::Relaxed) + 1);
        let span = tracing::info_span!("session", session.id = %session, node.id = tracing::field::Empty);
        let context = Context {
            inbox: ways.sessions,
            handle: self.handle.clone(),
            settings: self.settings,
            metrics: Arc::clone(&self.metrics),
            over: ways.over,
            attaching: Arc::clone(&self.attaching),
            session,
            logs: self.logs.clone(),
        };
        ways.tasks.start(run(context, stream, wire, caller).instrument(span));
        Ok(())
    }

    /// A no to a stream that never began, counted.
    pub(crate) fn refused(&self, no: No) -> Status {
        self.metrics.observe_refusal(no.reason());
        no.into_status()
    }
}

/// Serves one stream to its end.
pub(crate) async fn run(
    context: Context,
    mut stream: impl Stream<Item = Result<NodeMessage, Status>> + Send + Unpin,
    wire: Wire,
    caller: Caller,
) {
    let session = context.session;
    let end = match hello(&context, &mut stream, &caller).await {
        Err(end) => end,
        Ok(welcomable) => {
            let node = welcomable.hello.node.clone();
            tracing::Span::current().record("node.id", tracing::field::display(&node));
            // Cancel-safe: either ends the session, and the driver hears of that below.
            let end = tokio::select! {
                end = serve(&context, welcomable, stream, wire.clone()) => end,
                no = caller.revoked() => told(no),
            };
            close(&context, node, session).await;
            end
        }
    };
    let status = match end {
        End::Gone => return tracing::debug!("the session ended"),
        End::Closed(status) => status,
        End::Told(no) => {
            context.metrics.observe_refusal(no.reason());
            no.into_status()
        }
    };
    tracing::info!(peer = %caller.address(), reason = status.message(), "the session was ended");
    // A wire that stays full carries no last word.
    drop(wire.send_timeout(Err(status), LAST_WORD).await);
}

/// The first message, in time, and its place among those that wait for the driver.
async fn hello(
    context: &Context,
    stream: &mut (impl Stream<Item = Result<NodeMessage, Status>> + Unpin),
    caller: &Caller,
) -> Result<Welcomable, End> {
    // Cancel-safe: whatever wins, nothing else is read from this stream.
    let first = tokio::select! {
        biased;
        () = context.over.cancelled() => return Err(told(context.handle.elsewhere().into())),
        first = tokio::time::timeout(HELLO_WITHIN, next(stream)) => first,
    };
    let Ok(first) = first else {
        return Err(told(No::invalid_field("hello", "did not come within 10 s")));
    };
    let NodeMessage { seq, seen, body } = first?;
    if seq != 1 || seen != 0 {
        return Err(told(No::invalid_field("seq", "the first message has seq 1 and seen 0")));
    }
    let Some(Body::Hello(hello)) = body else {
        return Err(told(No::invalid_field("hello", "must be the first message of a stream")));
    };
    // Before anything else of it is looked at: whoever may not speak for a node learns nothing of it.
    caller.check_node(&hello.node_name).map_err(told)?;
    let keeps_logs = !hello.features.iter().any(|feature| feature == tenure_proto::LOGS_FEATURE);
    let hello = convert_node::hello(context.session, seq, hello).map_err(told)?;
    let place = Arc::clone(&context.attaching).try_acquire_owned().map_err(|_| {
        let delay = delay(context.session, MOST_ATTACHING, None);
        told(No::from(SubmitError::busy()).come_back_after(delay))
    })?;
    Ok(Welcomable { hello, place, keeps_logs })
}

/// Both ways at once, until one of them or the driver ends it.
async fn serve(
    context: &Context,
    Welcomable { hello, place, keeps_logs }: Welcomable,
    stream: impl Stream<Item = Result<NodeMessage, Status>> + Unpin,
    wire: Wire,
) -> End {
    let (node, session) = (hello.node.clone(), hello.session);
    let (own, queue) = mpsc::channel(MOST_OUTBOUND);
    let shared = Arc::new(Shared::default());
    let sent = Arc::new(Mutex::default());
    let peer = Peer { node: node.clone(), queue: own.clone(), shared: Arc::clone(&shared) };
    let most = context.settings.max_result_bytes;
    let asked = (!keeps_logs).then(|| own.downgrade());
    let inbound = Inbound::new(node.clone(), session, context.inbox.clone(), own, Arc::clone(&sent), most);
    let outbound = Outbound {
        node,
        session,
        queue,
        inbox: context.inbox.clone(),
        wire,
        sent,
        shared: Arc::clone(&shared),
        reader: context.handle.reader().clone(),
        settings: context.settings,
        logs: context.logs.clone(),
        own: asked,
    };
    let inbound = async {
        match inbound.begin(Command::Hello(Box::new(hello)), peer, place).await {
            Ok(()) => inbound.run(stream).await,
            Err(end) => end,
        }
    };
    // Cancel-safe: whatever wins ends the session; what the others had in hand dies with it, as it would with a
    // broken connection.
    tokio::select! {
        biased;
        () = shared.end.cancelled() => match shared.status.get() {
            Some(status) => End::Closed(status.clone()),
            None => told(context.handle.elsewhere().into()),
        },
        end = outbound.run() => end,
        end = inbound => end,
    }
}

/// The driver hears of the end, after everything else that this node said.
async fn close(context: &Context, node: NodeName, session: SessionId) {
    let command = Command::SessionClosed { node, session };
    let from = FromNode { session, command, carried: Carried::default(), attach: None, credit: None };
    if context.inbox.send(from).await.is_err() {
        tracing::debug!("the driver ended before the session did");
    }
}

//! The session with the server: `loop { connect; hello; serve; backoff }`.
//!
//! Responsible for one stream at a time, for what each message of the server sets in motion, and for coming back when
//! the stream ends. Not responsible for what is held (`holdings.rs`) or run (`runner.rs`).
//!
//! Invariants: a Hello is composed only after the reader of the previous stream has ended; `seen` names only what was
//! applied; whatever the stream does, this side goes on.

mod apply;
mod backoff;
mod complaints;
mod link;
mod local;
mod logs;
mod older;
mod parts;
mod servers;
mod wire;

use std::pin::pin;
use std::time::Duration;

use tenure_proto::limits;
use tenure_proto::node::v1::node_service_client::NodeServiceClient;
use tenure_proto::node::v1::{Hello, NodeMessage, ServerMessage, node_message, server_message::Body};
use tenure_proto::{INPUTS_FEATURE, LOGS_FEATURE, SESSION_PROTOCOL};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status as Refusal;
use tonic::transport::{Channel, Endpoint, Uri};

use tonic_types::StatusExt as _;

use self::backoff::Backoff;
use self::complaints::Complaints;
use self::link::{Link, OUTBOUND};
use self::local::{Input, Local};
use self::logs::{Dial, Pushes};
use self::servers::{Servers, Step};
use crate::clock::Mono;
use crate::holdings::{Phase, StopReason, Violation};
use crate::runner::Lines;
use crate::state_dir::StateDir;

pub use self::parts::{Error, Options, Parts, Status};

/// A connection that takes longer is no connection. While leases are held it is shorter: the cap of a reconnect holds
/// for the attempt too, but not below the second.
const CONNECT_TIMEOUT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(500));
/// A server that has not answered a Hello by then is asked again. A takeover may take some seconds. While leases are held
/// and there is another one to ask, the cap of a reconnect holds for this too, but not below the second.
const WELCOME_TIMEOUT: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(2));
/// A server answers each heartbeat. One that lets two of them pass is silent, but not before this; where there is another
/// one to ask, that is done then, long before the pings would notice: it may have frozen, and its successor waits.
const SILENCE: Duration = Duration::from_secs(3);
/// Between two HTTP/2 pings; without an answer to one for the second, the connection is gone.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));
/// Whatever the server says, a heartbeat goes no more and no less often than this.
const HEARTBEAT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// At the agent's end, what was sent last gets this long to arrive; the second, if the next agent's Hello stands for it.
const CLOSING: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(500));
/// At the agent's end, the removal of directories may take this long.
const TIDYING: Duration = Duration::from_secs(10);

/// The component.
#[derive(Debug)]
pub struct Session {
    options: Options,
    local: Local,
    state: StateDir,
    servers: Servers,
    backoff: Backoff,
    complaints: Complaints,
    heartbeat: Duration,
    /// Hellos of this incarnation.
    stream: u64,
    /// Where calls of attempts find the connection, while the server knows this node.
    connection: watch::Sender<Option<Lines>>,
    /// How another one is made to the server of the session.
    dial: Option<Dial>,
    /// What the server reads of attempts.
    pushes: Pushes,
}

/// Why a phase is over before its time.
#[derive(Debug)]
enum Over {
    /// The agent ends.
    Stopped,
    /// The agent cannot go on.
    Failed(Error),
    /// The stream is lost; another one will do.
    Lost(Lost),
}

/// Why a stream is lost.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("the server cannot be reached")]
    Unreachable(#[source] tonic::transport::Error),
    #[error("the server did not answer in time")]
    Silent,
    #[error("the server ended the stream: {}", words(.0))]
    Ended(Box<Refusal>),
    #[error("the server closed the stream")]
    Closed,
    #[error("the server broke the protocol")]
    Broken(#[source] Violation),
    #[error("the server's message makes no sense")]
    Senseless(#[source] wire::Senseless),
    #[error("the server said Welcome twice")]
    WelcomedTwice,
}

enum Served {
    Server(Result<Option<ServerMessage>, Refusal>),
    Local(Input),
    Room,
    Beat,
    Silence,
}

impl Session {
    /// Puts the parts together. Nothing is said yet.
    pub fn new(options: Options, parts: Parts, shutdown: CancellationToken) -> Self {
        let local = Local {
            holdings: parts.holdings,
            runner: parts.runner,
            spool: parts.spool,
            readings: parts.pressure.watch(),
            pressure: parts.pressure,
            room: parts.room,
            clock: options.clock,
            drain: shutdown,
            hand_over: parts.hand_over,
            at_once: parts.at_once,
            drain_deadline: options.drain_deadline,
            longest_grace: options.longest_grace,
            stopping: None,
            spool_full: None,
            spool_changes: 0,
            status: parts.status,
            errands: TaskTracker::new(),
        };
        let (state, heartbeat) = (parts.state, Duration::from_secs(1));
        let (backoff, complaints) = (Backoff::default(), Complaints::default());
        let servers = Servers::new(options.servers.clone(), options.insecure);
        Self {
            options,
            local,
            state,
            servers,
            backoff,
            complaints,
            heartbeat,
            stream: 0,
            connection: parts.connection,
            dial: None,
            pushes: Pushes::default(),
        }
    }

    /// Serves the server until the shutdown that [`Session::new`] was given is over: jobs have ended or were returned.
    ///
    /// # Errors
    /// If the agent cannot go on, or ends and leaves something running.
    pub async fn run(mut self) -> Result<(), Error> {
        loop {
            let mut welcomed = None;
            let over = self.stream(&mut welcomed).await;
            self.connection.send_replace(None);
            self.pushes.end();
            self.local.holdings.disconnected();
            self.local.status.send_if_modified(|status| std::mem::take(&mut status.connected));
            self.backoff.session_ended(welcomed, self.options.clock.now());
            let again = match over {
                Over::Lost(lost) if welcomed.is_none() && lost.is_refusal("SUPERSEDED_SESSION") => {
                    self.yield_instance().await
                }
                Over::Lost(lost) => {
                    if welcomed.is_some() {
                        self.complaints.forget();
                    }
                    self.again(&lost).await
                }
                over @ (Over::Stopped | Over::Failed(_)) => Err(over),
            };
            match again {
                Ok(()) | Err(Over::Lost(_)) => {}
                Err(Over::Failed(error)) => return Err(error),
                Err(Over::Stopped) => break,
            }
        }
        let ended = self.local.may_end().unwrap_or(Ok(()));
        self.local.errands.close();
        self.local.errands.wait().await;
        if self.local.is_handing_over() {
            tracing::info!(
                live = self.local.holdings.live(),
                "the agent has ended; its shims hold what runs for the next one"
            );
            return ended;
        }
        if ended.is_ok() {
            match tokio::time::timeout(TIDYING, self.local.runner.finish()).await {
                Ok(finished) => finished.map_err(Error::Runner)?,
                Err(_) => tracing::warn!("directories of attempts are left for the next agent to remove"),
            }
        }
        tracing::info!("the agent has ended");
        ended
    }

    /// One stream from its connection to its end.
    async fn stream(&mut self, welcomed: &mut Option<Mono>) -> Over {
        let opened = async {
            let connection = self.connect().await?;
            Ok((self.hello(connection.calls.clone()).await?, connection))
        };
        match opened.await {
            Ok((link, connection)) => {
                self.connection.send_replace(Some(connection));
                *welcomed = Some(self.options.clock.now());
                self.servers.welcomed();
                self.serve(link).await
            }
            Err(over) => over,
        }
    }

    async fn connect(&mut self) -> Result<Lines, Over> {
        let within = self.local.holdings.reconnect_within().unwrap_or(CONNECT_TIMEOUT.0);
        let endpoint = Endpoint::from(self.servers.address())
            .connect_timeout(within.clamp(CONNECT_TIMEOUT.1, CONNECT_TIMEOUT.0))
            .tcp_nodelay(true)
            .tcp_keepalive(Some(PING.0))
            .http2_keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1)
            .keep_alive_while_idle(true);
        let connector = self.options.connector.clone();
        self.dial = Some(Dial { endpoint: endpoint.clone(), connector: connector.clone() });
        let connecting = async move {
            Ok(match connector {
                Some(connector) => Lines {
                    bytes: endpoint.connect_with_connector_lazy(connector.clone()),
                    calls: endpoint.connect_with_connector(connector).await?,
                },
                None => Lines { bytes: endpoint.connect_lazy(), calls: endpoint.connect().await? },
            })
        };
        Ok(self.meanwhile(connecting).await?.map_err(Lost::Unreachable)?)
    }

    /// Says Hello and waits for Welcome. What comes before it is dropped, as it was decided without this Hello.
    async fn hello(&mut self, channel: Channel) -> Result<Link, Over> {
        let (outbound, queue) = mpsc::channel(OUTBOUND);
        let hello = self.compose_hello();
        let told_generation = hello.pressure.as_ref().map_or(0, |pressure| pressure.generation);
        let seq = self.local.holdings.next_seq(self.options.clock.now());
        let message = NodeMessage { seq, seen: 0, body: Some(node_message::Body::Hello(hello)) };
        drop(outbound.try_send(message)); // The queue is empty.
        let opening = async move {
            let mut client = NodeServiceClient::new(channel).max_decoding_message_size(limits::DECODE_BYTES);
            client.session(ReceiverStream::new(queue)).await
        };
        let patience = self.welcome_patience();
        let opened = self.meanwhile(tokio::time::timeout(patience, opening)).await?;
        let mut inbound = opened.map_err(|_| Lost::Silent)?.map_err(Lost::from)?.into_inner();
        let welcome = async {
            loop {
                let message = inbound.message().await?.ok_or(Lost::Closed)?;
                if let Some(Body::Welcome(welcome)) = message.body {
                    return Ok::<_, Lost>((message.seq, welcome));
                }
            }
        };
        let welcome = self.meanwhile(tokio::time::timeout(patience, welcome)).await?;
        let (seq, welcome) = welcome.map_err(|_| Lost::Silent)??;
        self.local.holdings.receive_first(seq);
        self.welcome(&welcome)?;
        Ok(Link::new(outbound, inbound, told_generation, older::Known::of(&welcome)))
    }

    fn welcome_patience(&self) -> Duration {
        let within = self.local.holdings.reconnect_within().filter(|_| self.servers.several());
        within.map_or(WELCOME_TIMEOUT.0, |within| within.clamp(WELCOME_TIMEOUT.1, WELCOME_TIMEOUT.0))
    }

    fn compose_hello(&mut self) -> Hello {
        self.stream += 1;
        let now = self.options.clock.now();
        let (held, unstored) = self.local.holdings.hello(now);
        Hello {
            node_name: self.options.name.clone(),
            instance: self.state.instance().to_owned(),
            boot_id: self.options.host.boot_id.clone(),
            incarnation: self.state.incarnation(),
            stream: self.stream,
            protocol: SESSION_PROTOCOL,
            features: vec![INPUTS_FEATURE.to_owned(), LOGS_FEATURE.to_owned()],
            labels: self.options.labels.clone(),
            slots: self.options.slots.clone(),
            kinds: self.options.kinds.clone(),
            host: Some(wire::host(&self.options.host)),
            pressure: Some(self.local.reading()),
            max_epoch_seen: self.local.holdings.max_epoch_seen(),
            // Which words the server knows, its Welcome will tell.
            held: held.into_iter().map(|listed| wire::held(listed, true)).collect(),
            unstored: unstored.into_iter().map(wire::unstored).collect(),
            credits: self.options.credits,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Reads, says, beats, until the stream or the agent is over.
    async fn serve(&mut self, mut link: Link) -> Over {
        let clock = self.options.clock;
        let mut beaten = clock.now();
        let mut heard = clock.now();
        link.draining_due = self.local.stopping.is_some();
        loop {
            self.local.settle();
            link.flush(&mut self.local).await;
            if self.local.may_end().is_some() {
                // What was said last has to arrive.
                let within = if self.local.is_handing_over() { CLOSING.1 } else { CLOSING.0 };
                drop(tokio::time::timeout(within, link.close()).await);
                return Over::Stopped;
            }
            let (room, wants_room) = (link.room(), link.wants_room(&self.local));
            // The server may have named another interval since the last one.
            let beat_at = beaten + self.heartbeat;
            let (silent_at, several) = (heard + (self.heartbeat * 2).max(SILENCE), self.servers.several());
            let served = tokio::select! {
                // Cancel-safe, as documented there.
                message = link.read() => Served::Server(message),
                input = self.local.next() => Served::Local(input),
                // Cancel-safe, as documented there.
                () = room, if wants_room => Served::Room,
                // Cancel-safe: the deadline stays.
                () = clock.sleep_until(beat_at) => Served::Beat,
                // Cancel-safe: the deadline stays.
                () = clock.sleep_until(silent_at), if several => Served::Silence,
            };
            let applied = match served {
                Served::Server(Ok(Some(message))) => {
                    heard = clock.now();
                    self.apply(message).map_err(Over::Lost)
                }
                Served::Server(Ok(None)) => Err(Lost::Closed.into()),
                Served::Server(Err(refusal)) => Err(Lost::from(refusal).into()),
                Served::Local(input) => {
                    link.draining_due |= matches!(input, Input::Drain | Input::HandOver | Input::AtOnce);
                    self.local.apply(input).map_err(Over::Failed)
                }
                Served::Room => Ok(()),
                Served::Silence => Err(Lost::Silent.into()),
                Served::Beat => {
                    link.beat_due = true;
                    beaten = clock.now();
                    Ok(())
                }
            };
            if let Err(over) = applied {
                return over;
            }
        }
    }

    /// Says why a stream is over; not again and again while the cause stays the same.
    fn complain(&mut self, lost: &Lost, server: &Uri) {
        let error = crate::Chain(lost).to_string();
        if let Some(unsaid) = self.complaints.may_say(&error, self.options.clock.now()) {
            tracing::warn!(error, server = %server, unsaid, "the session is over; the agent tries again and again");
        }
    }

    /// After a lost stream: on to the leader at once, if its server named it, else to the next server after a while.
    async fn again(&mut self, lost: &Lost) -> Result<(), Over> {
        let here = self.servers.address();
        if matches!(lost, Lost::Silent) {
            self.servers.fell_silent();
        }
        match self.servers.over(lost.leader().as_deref()) {
            Step::Follow => {
                tracing::info!(server = %here, leader = %self.servers.address(), "the server follows a leader");
                return Ok(());
            }
            Step::Refuse { leader } => {
                tracing::warn!(server = %here, leader, "the leader's address is none that this agent may speak to");
            }
            Step::Wait => {}
        }
        self.complain(lost, &here);
        self.pause(lost.asked()).await
    }

    /// Waits before the next connection. `asked`: how long the server wants it.
    async fn pause(&mut self, asked: Option<Duration>) -> Result<(), Over> {
        let within = self.local.holdings.pause_within(self.options.clock.now());
        let wait = self.backoff.next(getrandom::u64().unwrap_or(0), asked, within);
        let (clock, until) = (self.options.clock, self.options.clock.now() + wait);
        self.meanwhile(clock.sleep_until(until)).await
    }

    /// Another agent has our instance and is newer: stops all that is held, and becomes another instance.
    async fn yield_instance(&mut self) -> Result<(), Over> {
        tracing::error!(
            "another agent uses this node's instance; everything is stopped, and a new instance made"
        );
        self.local.holdings.stop_all(StopReason::Superseded, true);
        self.local.settle();
        while self.local.holdings.live() > 0 && !self.only_unkillable() {
            let input = self.local.next().await;
            self.local.apply(input).map_err(Over::Failed)?;
            if self.local.may_end().is_some() {
                return Err(Over::Stopped);
            }
        }
        self.state.renew_instance().map_err(|error| Over::Failed(Error::State(error)))?;
        self.stream = 0;
        self.pause(None).await
    }

    fn only_unkillable(&self) -> bool {
        let held = self.local.holdings.heartbeat(self.options.clock.now());
        held.iter().all(|listed| matches!(listed.phase, Phase::Unkillable { .. }))
    }

    /// Waits for something of the stream while this side goes on. Stopped, if the agent ends first.
    async fn meanwhile<T>(&mut self, future: impl Future<Output = T>) -> Result<T, Over> {
        let mut future = pin!(future);
        loop {
            if self.local.may_end().is_some() {
                return Err(Over::Stopped);
            }
            let input = tokio::select! {
                value = &mut future => return Ok(value),
                // Cancel-safe, as documented there.
                input = self.local.next() => input,
            };
            self.local.apply(input).map_err(Over::Failed)?;
        }
    }
}

impl Lost {
    /// Whether the server ended the stream for this reason.
    fn is_refusal(&self, reason: &str) -> bool {
        matches!(self, Self::Ended(refusal)
            if refusal.get_details_error_info().is_some_and(|info| info.reason == reason))
    }
}

impl Lost {
    /// Where the server says that the leader is.
    fn leader(&self) -> Option<String> {
        let Self::Ended(refusal) = self else { return None };
        let info = refusal.get_details_error_info().filter(|info| info.reason == "NOT_LEADER")?;
        info.metadata.get("leader").cloned()
    }

    /// How long the server wants this agent to wait.
    fn asked(&self) -> Option<Duration> {
        let Self::Ended(refusal) = self else { return None };
        refusal.get_details_retry_info()?.retry_delay
    }
}

/// What a person should read of a refusal: the sentence and the stable word; of a broken connection, every cause.
fn words(refusal: &Refusal) -> String {
    let word = refusal.get_details_error_info().map(|info| info.reason);
    let word = word.unwrap_or_else(|| format!("{:?}", refusal.code()));
    let causes = std::error::Error::source(refusal).map(|cause| format!(": {}", crate::Chain(cause)));
    format!("{} ({word}){}", refusal.message(), causes.unwrap_or_default())
}

impl From<Lost> for Over {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl From<Violation> for Lost {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation)
    }
}

impl From<Refusal> for Lost {
    fn from(refusal: Refusal) -> Self {
        Self::Ended(Box::new(refusal))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn the_end_of_a_stream_is_told_in_the_servers_words() {
        let mut details = ErrorDetails::new();
        details.set_error_info("NODE_NAME_IN_USE", "tenure", []);
        let sentence = "node name n1 is held by another live instance";
        let refusal = Refusal::with_error_details(tonic::Code::FailedPrecondition, sentence, details);
        let lost = Lost::from(refusal);
        assert!(lost.is_refusal("NODE_NAME_IN_USE"));
        assert_eq!(lost.to_string(), format!("the server ended the stream: {sentence} (NODE_NAME_IN_USE)"));

        let mut broken = Refusal::unknown("transport error");
        broken.set_source(Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        let lost = Lost::from(broken);
        assert!(lost.to_string().ends_with("transport error (Unknown): connection reset"), "{lost}");
    }
}

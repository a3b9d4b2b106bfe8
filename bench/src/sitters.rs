//! Agents that hold a session and come back when it ends, as real ones do: heartbeats, no jobs.
//!
//! Responsible for counting who is welcome to which server. Each has a connection of its own. Who was told when to come
//! back comes then, who was not comes after a random part of a wait that doubles, as the agent does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use tenure_client::wire;
use tenure_proto::node::v1::{
    ClosedGroup, Heartbeat, Hello, NodeMessage, PressureReading, ServerMessage, node_message::Body,
    node_service_client::NodeServiceClient, server_message,
};
use tenure_tests::random::Random;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic_types::StatusExt as _;

use crate::rig::{KIND, SLOT};

/// Messages that wait for the transport.
const OUTBOUND: usize = 4;
/// Between two tries, at first and at the most: what an agent is told by default.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Until a try is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// At once in their first connect: as many as the server takes, on a slow machine too. If they all came at once, each would
/// wait for too long, give up, and come again.
const STARTING: usize = 64;

/// What they say that they offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// No kind, so that nothing is granted to them.
    Nothing,
    /// [`KIND`], on a host under pressure, so that nothing is granted to them and each has a reason.
    Closed,
}

/// A fleet of them. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Sitters {
    count: u32,
    /// Welcomes by epoch: the newest epoch, and how many are welcome to it.
    welcome: watch::Receiver<(u64, u32)>,
    beats: Arc<AtomicU64>,
    last_error: LastError,
    _tasks: JoinSet<()>,
}

impl Sitters {
    /// Starts so many, and waits until all are welcome.
    ///
    /// # Errors
    /// If they are not within `within`.
    pub(crate) async fn start(
        endpoint: &str,
        count: u32,
        offer: Offer,
        within: Duration,
    ) -> anyhow::Result<Self> {
        let (tell, mut welcome) = watch::channel((0, 0));
        let (mut tasks, beats) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
        let starting = Arc::new(Semaphore::new(STARTING));
        let last_error = LastError::default();
        for number in 0..count {
            let (tell, beats, starting) = (tell.clone(), Arc::clone(&beats), Arc::clone(&starting));
            let sitter = Sitter {
                endpoint: endpoint.to_owned(),
                number,
                offer,
                stream: 0,
                tell,
                beats,
                last_error: last_error.clone(),
            };
            tasks.spawn(sitter.sit(starting));
        }
        let all = welcome.wait_for(|(_, welcome)| *welcome == count);
        let first = timeout(within, all).await.map(drop);
        first.with_context(|| {
            format!("{:?} of {count} are welcome; {}", *welcome.borrow(), last_error.get())
        })?;
        Ok(Self { count, welcome, beats, last_error, _tasks: tasks })
    }

    /// Waits until all are welcome to a server of a later epoch than `before`.
    ///
    /// # Errors
    /// If they are not within `within`.
    pub(crate) async fn welcome_after(&mut self, before: u64, within: Duration) -> anyhow::Result<()> {
        let count = self.count;
        let all = self.welcome.wait_for(|(epoch, welcome)| *epoch > before && *welcome == count);
        let back = timeout(within, all).await.map(drop);
        back.with_context(|| {
            format!("{:?} of {count} are back; {}", *self.welcome.borrow(), self.last_error.get())
        })
    }

    /// How many heartbeats they have sent.
    #[expect(clippy::cast_precision_loss, reason = "a count of heartbeats is far below 2^52")]
    pub(crate) fn heartbeats(&self) -> f64 {
        self.beats.load(Ordering::Relaxed) as f64
    }

    /// Of the server to which the newest welcome was.
    pub(crate) fn epoch(&self) -> u64 {
        self.welcome.borrow().0
    }
}

struct Sitter {
    endpoint: String,
    number: u32,
    offer: Offer,
    stream: u64,
    tell: watch::Sender<(u64, u32)>,
    beats: Arc<AtomicU64>,
    last_error: LastError,
}

/// Why the session of any of them ended last.
#[derive(Clone, Debug, Default)]
struct LastError(Arc<Mutex<String>>);

impl LastError {
    fn set(&self, error: &anyhow::Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = format!("{error:#}");
    }

    fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sitter {
    async fn sit(mut self, starting: Arc<Semaphore>) {
        let mut random = Random::new(self.number.into());
        // Until its first welcome. Nobody closes the semaphore.
        let mut turn = starting.acquire_owned().await.ok();
        let mut most = WAITS.0;
        loop {
            let told = match self.session(&mut most, &mut turn).await {
                Ok(()) => None,
                Err(error) => {
                    self.last_error.set(&error);
                    let status = error.downcast_ref::<tonic::Status>();
                    status.and_then(|status| status.get_details_retry_info()?.retry_delay)
                }
            };
            sleep(told.unwrap_or_else(|| random.between(Duration::ZERO, most))).await;
            most = (most * 2).min(WAITS.1);
        }
    }

    /// What the rules of its host closed.
    fn pressure(&self) -> Option<PressureReading> {
        let closed = ClosedGroup {
            refuse: "*".to_owned(),
            rule: "mem_low".to_owned(),
            signal: "mem.headroom".to_owned(),
            observed: 1e8,
            threshold: 5e8,
            closed_for: None,
        };
        let reading =
            PressureReading { generation: 1, closed: vec![closed], weight: 1, ..PressureReading::default() };
        (self.offer == Offer::Closed).then_some(reading)
    }

    /// One session, to its end.
    async fn session(
        &mut self,
        most: &mut Duration,
        turn: &mut Option<OwnedSemaphorePermit>,
    ) -> anyhow::Result<()> {
        let connect =
            Channel::from_shared(self.endpoint.clone())?.tcp_nodelay(true).connect_timeout(PATIENCE);
        let channel = connect.connect().await?;
        let (out, stream) = mpsc::channel(OUTBOUND);
        self.stream += 1;
        let name = format!("bench-{}", self.number);
        let hello = Hello {
            node_name: name.clone(),
            instance: name,
            boot_id: "bench".to_owned(),
            incarnation: 1,
            stream: self.stream,
            protocol: tenure_proto::SESSION_PROTOCOL,
            slots: [(SLOT.to_owned(), 1)].into(),
            kinds: if self.offer == Offer::Closed { vec![KIND.to_owned()] } else { Vec::new() },
            pressure: self.pressure(),
            credits: 1,
            ..Hello::default()
        };
        out.send(NodeMessage { seq: 1, seen: 0, body: Some(Body::Hello(hello)) }).await?;
        let mut client = NodeServiceClient::new(channel);
        let greeted = async {
            let mut messages = client.session(ReceiverStream::new(stream)).await?.into_inner();
            let first: ServerMessage = messages.message().await?.context("no Welcome")?;
            Ok::<_, anyhow::Error>((messages, first))
        };
        let (mut messages, first) = timeout(PATIENCE, greeted).await??;
        let Some(server_message::Body::Welcome(welcome)) = first.body else { anyhow::bail!("no Welcome") };
        *most = WAITS.0;
        drop(turn.take());
        self.tell.send_modify(|(epoch, count)| {
            if welcome.epoch > *epoch {
                (*epoch, *count) = (welcome.epoch, 0);
            }
            *count += u32::from(welcome.epoch == *epoch);
        });
        let every = welcome.heartbeat_interval.as_ref().map(wire::std_duration).context("no interval")?;
        let mut beat = interval(every);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut seq, mut seen) = (1, first.seq);
        let ended = loop {
            tokio::select! {
                _ = beat.tick() => { // cancel-safe
                    seq += 1;
                    let heartbeat = Heartbeat { held: Vec::new(), pressure: self.pressure() };
                    let body = Some(Body::Heartbeat(heartbeat));
                    if out.send(NodeMessage { seq, seen, body }).await.is_err() {
                        break Ok(());
                    }
                    self.beats.fetch_add(1, Ordering::Relaxed);
                }
                message = messages.message() => match message { // cancel-safe
                    Ok(Some(message)) => seen = message.seq,
                    Ok(None) => break Ok(()),
                    Err(status) => break Err(status.into()),
                }
            }
        };
        self.tell.send_modify(|(epoch, count)| *count -= u32::from(welcome.epoch == *epoch && *count > 0));
        ended
    }
}

//! A driver over a store in memory, with its handle, in one process.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure_scheduler::{
    Command, Enqueue, Fingerprint, Fleet, Hello, Host, JobId, KindName, KindPolicy, Limits, NodeName,
    Pressure, Reply, SessionId, Tenant,
};
use tenure_store::{Journal, Payload, Reader, election::Trust, memory::Memory};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    super::{Driver, Ends, Error, Options, Signals},
    SOON,
};
use crate::trace::Spans;
use crate::{
    clock::{self, Clock},
    config::{Config, Retention},
    handle::{Handle, Inboxes, MOST_CALLS, MOST_QUERIES, ServerStatus, Submission, SubmitError, Views},
    leadership::Standing,
    metrics::Metrics,
    outbox::{Bell, Watchers},
    results::Results,
    retention::{self, Sweeper},
    sessions::{FromNode, MOST_INBOX},
    snapshot::Publisher,
    term::Ways,
};

/// A driver that runs.
pub(super) struct Rig {
    pub(super) store: Memory,
    pub(super) handle: Handle,
    pub(super) shutdown: CancellationToken,
    /// Another server leads.
    pub(super) lost: CancellationToken,
    /// Kept open, as in a server.
    _standing: watch::Sender<Standing>,
    tasks: JoinSet<Result<(), Error>>,
}

impl Rig {
    /// With the kinds `a` and `held` declared, which need nothing, have no node and are not kept when they are final,
    /// and `kept`, which is.
    pub(super) async fn start() -> Self {
        Self::start_on(Memory::new()).await
    }

    pub(super) async fn start_on(store: Memory) -> Self {
        let Driven { handle, shutdown, lost, standing, tasks, nodes: _ } =
            Driven::start(store.journal(), store.reader(), Trust::always()).await;
        let rig = Self { store, handle, shutdown, lost, _standing: standing, tasks };
        let now = KindPolicy { retention: Duration::ZERO, ..KindPolicy::default() };
        let kinds = [("a", now.clone()), ("held", now), ("kept", KindPolicy::default())];
        let kinds = kinds.map(|(name, policy)| (KindName::new(name), policy));
        let fleet = Fleet { kinds: kinds.into(), ..Fleet::default() };
        rig.handle
            .submit(bare(Command::Apply { fleet: Box::new(fleet), validate_only: false }))
            .await
            .unwrap();
        rig
    }

    /// Submits now, and answers later. The inbox has taken it when this returns.
    pub(super) fn submit(&self, submission: Submission) -> oneshot::Receiver<Result<Reply, SubmitError>> {
        self.handle.submit_now(submission).unwrap()
    }

    pub(super) async fn answer(
        &self,
        answer: oneshot::Receiver<Result<Reply, SubmitError>>,
    ) -> Result<Reply, SubmitError> {
        timeout(SOON, answer).await.expect("it is answered in time").expect("it is answered")
    }

    /// Waits until so many commits are held.
    pub(super) async fn store_waits_for(&self, commits: u64) {
        self.until(|| self.store.waiting() == commits).await;
    }

    pub(super) async fn leads(&self) {
        self.until(|| self.handle.info().leading).await;
    }

    /// Waits for a level.
    pub(super) async fn until(&self, level: impl Fn() -> bool) {
        let wait = async {
            while !level() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(SOON, wait).await.expect("the level is reached in time");
    }

    pub(super) fn sweeper(&self) -> Sweeper {
        let kept = Retention { final_jobs: Duration::from_secs(3600), ..Retention::default() };
        let options = retention::Options { every: SOON, retention: watch::channel(kept).1 };
        let metrics = Arc::new(Metrics::new().unwrap());
        // A store in memory has no object storage.
        let results = Results::open(&Config::default(), self.handle.reader(), metrics).unwrap();
        Sweeper::new(options, self.handle.clone(), results)
    }

    /// How the driver ended by itself.
    pub(super) async fn ended(mut self) -> Result<(), Error> {
        timeout(SOON, self.tasks.join_next()).await.unwrap().unwrap().unwrap()
    }

    /// Ends the driver, which must work.
    pub(super) async fn end(self) {
        self.shutdown.cancel();
        self.ended().await.unwrap();
    }
}

/// What runs of a driver over any store, and the ways to it.
pub(super) struct Driven {
    pub(super) handle: Handle,
    /// Of what nodes say.
    pub(super) nodes: mpsc::Sender<FromNode>,
    pub(super) shutdown: CancellationToken,
    pub(super) lost: CancellationToken,
    pub(super) standing: watch::Sender<Standing>,
    pub(super) tasks: JoinSet<Result<(), Error>>,
}

impl Driven {
    pub(super) async fn start<J: Journal + Send + 'static>(journal: J, reader: Reader, trust: Trust) -> Self {
        let clock = Clock::new(clock::Options::default());
        let watchers = Watchers::default();
        let (status, status_read) = watch::channel(ServerStatus::starting(&clock));
        let (snapshots, snapshots_read) = watch::channel(Arc::default());
        let (standing, standing_read) = watch::channel(Standing::Alone);
        let (producers, calls) = mpsc::channel(MOST_CALLS);
        let (queries, questions) = mpsc::channel(MOST_QUERIES);
        let (nodes, sessions) = mpsc::channel(MOST_INBOX);
        let shutdown = CancellationToken::new();
        let ways = Ways::new((producers, queries, nodes.clone()), shutdown.clone());
        let views = Views {
            status: status_read,
            snapshots: snapshots_read,
            standing: standing_read,
            ways: watch::channel(Some(ways)).1,
            shutdown: shutdown.clone(),
            trust,
        };
        let handle = Handle::new(clock.clone(), reader, watchers.clone(), views);
        let inboxes = Inboxes { producers: calls, queries: questions };
        let publisher = Publisher::new(snapshots);
        let metrics = Arc::new(Metrics::new().unwrap());
        let ends = Ends {
            inboxes,
            sessions,
            status,
            publisher,
            watchers,
            bell: Bell::default(),
            metrics,
            clock,
            spans: Spans::default(),
        };
        let options = Options { limits: watch::channel(Limits::default()).1 };
        let (driver, leader) = Driver::begin(options, journal, ends).await.unwrap();
        let lost = CancellationToken::new();
        let signals = Signals { shutdown: shutdown.clone(), lost: lost.clone() };
        let mut tasks = JoinSet::new();
        tasks.spawn(driver.run(leader, signals));
        Self { handle, nodes, shutdown, lost, standing, tasks }
    }
}

pub(super) fn job_id(n: u128) -> JobId {
    JobId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + n))
}

/// The `n`th job, with its number as payload.
pub(super) fn enqueue(n: u128, kind: &str) -> Submission {
    let data = n.to_string();
    let payload_size = data.len() as u64;
    let mut fingerprint = [0; 32];
    fingerprint[..16].copy_from_slice(&n.to_be_bytes());
    let command = Command::Enqueue(Box::new(Enqueue {
        fingerprint: Fingerprint(fingerprint),
        payload_size,
        ..Enqueue::new(job_id(n), KindName::new(kind), Tenant::new("default"))
    }));
    Submission {
        command,
        payload: Some(Payload { data: data.into(), content_type: "text/plain".to_owned() }),
        more: Vec::new(),
    }
}

pub(super) fn bare(command: Command) -> Submission {
    Submission { command, payload: None, more: Vec::new() }
}

/// The first Hello of a node that takes nothing.
pub(super) fn hello(node: &NodeName, session: SessionId) -> Hello {
    Hello {
        node: node.clone(),
        session,
        seq: 1,
        instance: "instance".into(),
        boot_id: "boot".into(),
        incarnation: 1,
        stream: 1,
        labels: BTreeMap::new(),
        slots: BTreeMap::new(),
        kinds: Vec::new(),
        host: Host::default(),
        agent_version: "0".into(),
        inputs: true,
        pressure: Pressure { weight: 1, ..Pressure::default() },
        max_epoch_seen: 0,
        held: Vec::new(),
        unstored: Vec::new(),
        credits: 1,
    }
}

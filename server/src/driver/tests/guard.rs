//! A workload that never changes, for `scripts/guard`: what a driver makes a processor execute for whole lifecycles over
//! SQLite, between the inboxes and the queues of sessions. No wire, no TLS, no agent.

use std::time::Duration;

use tempfile::TempDir;
use tenure_scheduler::{
    Command, FencingToken, Finish, FinishedHow, Fleet, Heartbeat, Hello, JobId, JobState, KindName,
    KindPolicy, Message, Needs, NodeName, Ordinal, Pressure, Report, Scope, SessionId, SlotName, Statement,
};
use tenure_store::{election::Trust, sqlite};
use tokio::{sync::mpsc, time::timeout};

use super::rig::{Driven, bare, enqueue, hello, job_id};
use crate::sessions::{Carried, FromNode, Outgoing, Peer, Queued};

/// Jobs of one round: few, since under an instruction counter everything takes fifty times as long, and a commit must not
/// take three seconds.
const JOBS: u128 = 40;
/// For the same reason.
const WITHIN: Duration = Duration::from_secs(120);
const SESSION: SessionId = SessionId(1);

/// The only node, without a wire.
struct Node {
    name: NodeName,
    to_driver: mpsc::Sender<FromNode>,
    messages: mpsc::Receiver<Queued>,
    seq: u64,
    seen: u64,
}

impl Node {
    async fn attach(to_driver: mpsc::Sender<FromNode>) -> Self {
        let name = NodeName::new("n1");
        let (peer, messages) = Peer::of_test(&name);
        let slots = [(SlotName::new("cpu"), 1000)].into();
        let kinds = vec![KindName::new("work")];
        let hello =
            Command::Hello(Box::new(Hello { slots, kinds, credits: 10_000, ..hello(&name, SESSION) }));
        let mut node = Self { name, to_driver, messages, seq: 1, seen: 0 };
        node.say(hello, Some(peer)).await;
        node
    }

    async fn say(&mut self, command: Command, attach: Option<Peer>) {
        let said = FromNode { session: SESSION, command, carried: Carried::default(), attach, credit: None };
        self.to_driver.send(said).await.unwrap();
    }

    /// It is there, holds nothing, and its pressure is what it was: nobody is granted anything for long without.
    async fn heartbeat(&mut self) {
        self.seq += 1;
        let heartbeat = Heartbeat {
            node: self.name.clone(),
            session: SESSION,
            seq: self.seq,
            seen: Ordinal(self.seen),
            held: Vec::new(),
            pressure: Pressure { weight: 1, ..Pressure::default() },
        };
        self.say(Command::Heartbeat(Box::new(heartbeat)), None).await;
    }

    /// The next grants, as many as a round has jobs.
    async fn grants(&mut self) -> Vec<(JobId, FencingToken)> {
        let mut grants = Vec::new();
        while (grants.len() as u128) < JOBS {
            let message = timeout(WITHIN, self.messages.recv()).await.expect("it comes in time").unwrap();
            let Outgoing::Decided(decided) = *message else { panic!("{message:?}") };
            self.seen = decided.ordinal.0;
            if let Message::Grant(grant) = decided.message {
                grants.push((grant.job, grant.token));
            }
        }
        grants
    }

    /// One message for each job: of its whole life.
    async fn run(&mut self, grants: &[(JobId, FencingToken)]) {
        for &(job, token) in grants {
            self.seq += 1;
            let finish = Finish { exit_code: Some(0), ..Finish::new(FinishedHow::Succeeded) };
            let started = Statement::Started { elapsed: Duration::ZERO };
            for statement in [Statement::Accepted, started, Statement::Finished(finish), Statement::Reaped] {
                let seq = (statement == Statement::Reaped).then_some(self.seq);
                let (node, seen) = (self.name.clone(), Ordinal(self.seen));
                let prior = None;
                let report = Report { node, session: SESSION, seq, seen, job, token, statement, prior };
                self.say(Command::Report(Box::new(report)), None).await;
            }
        }
    }
}

/// A round is 40 jobs: enqueued with payloads, granted, run and stored.
#[tokio::test]
#[ignore = "for scripts/guard, which counts its instructions"]
async fn lifecycles_over_sqlite() {
    let rounds = std::env::var("TENURE_GUARD_ROUNDS");
    let rounds: u128 = rounds.map_or(2, |rounds| rounds.parse().expect("a number of rounds"));
    let directory = TempDir::new().unwrap();
    let (journal, reader) = sqlite::open(&sqlite::Options::new(directory.path())).await.unwrap();
    let Driven { handle, nodes, shutdown, lost: _, standing: _standing, mut tasks } =
        Driven::start(journal, reader, Trust::always()).await;
    let needs = Needs::new([(SlotName::new("cpu"), 1)]);
    let kind = (KindName::new("work"), KindPolicy { needs, ..KindPolicy::default() });
    let slots = [(SlotName::new("cpu"), Scope::Node)].into();
    let fleet = Fleet { slots, kinds: [kind].into(), ..Fleet::default() };
    handle.submit(bare(Command::Apply { fleet: Box::new(fleet), validate_only: false })).await.unwrap();
    let mut node = Node::attach(nodes).await;

    for round in 0..rounds {
        node.heartbeat().await;
        let jobs = (0..JOBS).map(|n| enqueue(round * JOBS + n + 1, "work")).collect();
        let replies = handle.submit_batch(jobs).await.unwrap();
        assert!(replies.iter().all(Result::is_ok), "{replies:?}");
        let grants = node.grants().await;
        node.run(&grants).await;
    }
    // What was said before this is stored before this is answered.
    let ended = handle.submit(enqueue(rounds * JOBS + 1, "work")).await;
    assert!(ended.is_ok(), "{ended:?}");
    for n in 1..=rounds * JOBS {
        let job = handle.reader().get_job(job_id(n)).await.unwrap();
        assert!(job.is_some_and(|job| matches!(job.state, JobState::Succeeded { .. })), "job {n}");
    }
    assert_eq!(handle.reader().violations().await.unwrap(), []);
    shutdown.cancel();
    timeout(WITHIN, tasks.join_next()).await.expect("it ends in time").unwrap().unwrap().unwrap();
}

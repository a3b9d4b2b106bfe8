//! That a turn takes a handful of statements, whatever the batch: counted on both databases.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use tenure_scheduler::{
    Applied, Command, Enqueue, Event, FencingToken, Finish, FinishedHow, Fleet, Hello, Host, JobId, KindName,
    KindPolicy, Limits, Mono, Needs, NodeName, Now, Ordinal, Pressure, Report, Scope, SessionId, SlotName,
    State, Statement, Tenant, Wall,
};
use uuid::Uuid;

use crate::{Beside, Journal, Payload, Taken};

thread_local! {
    static SENT: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Notes it for the test on this thread.
pub(crate) fn sent(statement: &'static str) {
    SENT.with_borrow_mut(|sent| sent.push(statement));
}

/// Jobs that begin in each turn, and that end.
const JOBS: u64 = 500;

/// What a driver would do with a store, without its inboxes.
struct Turns<J> {
    journal: J,
    state: State,
    now: Now,
    jobs: u64,
    running: Vec<(JobId, FencingToken)>,
}

impl<J: Journal> Turns<J> {
    /// A leader of a fleet with one node that has room.
    async fn new(mut journal: J) -> Self {
        let Taken { epoch, durable } = journal.takeover(Default::default()).await.unwrap();
        let now = Now { mono: Mono(0), wall: Wall(1_790_769_600_000_000) };
        let state = State::load(epoch, Limits::default(), durable, now);
        let mut turns = Self { journal, state, now, jobs: 0, running: Vec::new() };
        let cpu = SlotName::new("cpu");
        let needs = Needs::new([(cpu.clone(), 1)]);
        let kind = (KindName::new("work"), KindPolicy { needs, ..KindPolicy::default() });
        let slots = [(cpu.clone(), Scope::Node)].into();
        let fleet = Fleet { slots, kinds: [kind].into(), ..Fleet::default() };
        turns.apply(Command::Apply { fleet: Box::new(fleet), validate_only: false });
        turns.apply(Command::Hello(Box::new(Hello {
            node: NodeName::new("n1"),
            session: SessionId(1),
            seq: 1,
            instance: "instance".into(),
            boot_id: "boot".into(),
            incarnation: 1,
            stream: 1,
            labels: BTreeMap::new(),
            slots: [(cpu, 10_000)].into(),
            kinds: vec![KindName::new("work")],
            host: Host::default(),
            agent_version: "0".into(),
            inputs: true,
            pressure: Pressure { weight: 1, ..Pressure::default() },
            max_epoch_seen: 0,
            held: Vec::new(),
            unstored: Vec::new(),
            credits: 10_000,
        })));
        turns.commit().await;
        turns
    }

    fn apply(&mut self, command: Command) -> Applied {
        let applied = self.state.apply(self.now, command).unwrap();
        for event in &applied.events {
            if let Event::Granted { lease, .. } = event {
                self.running.push((lease.job, lease.token));
            }
        }
        applied
    }

    /// Applies the clock and commits. What was sent for it.
    async fn commit(&mut self) -> Vec<&'static str> {
        self.now.mono = self.now.mono.after(Duration::from_millis(20));
        let tick = self.apply(Command::Tick);
        assert!(!tick.more, "it fits into one turn");
        let changes = self.state.take_changes();
        let mut beside = Beside::default();
        for change in &changes.jobs {
            if let tenure_scheduler::JobChange::Insert(job) = change {
                let data = vec![7; usize::try_from(job.payload_size).unwrap()].into();
                beside.payloads.insert(job.id, Payload { data, content_type: "text/plain".into() });
            }
        }
        SENT.take();
        self.journal.commit(self.state.epoch(), &changes, &beside).await.unwrap();
        self.state.committed();
        SENT.take()
    }

    fn report(&mut self, (job, token): (JobId, FencingToken), statement: Statement) {
        let (node, session) = (NodeName::new("n1"), SessionId(1));
        let (seq, seen, prior) = (None, Ordinal(0), None);
        let report = Report { node, session, seq, seen, job, token, statement, prior };
        self.apply(Command::Report(Box::new(report)));
    }

    /// So many jobs are enqueued, and what runs ends.
    async fn turn(&mut self, jobs: u64) -> Vec<&'static str> {
        for lease in std::mem::take(&mut self.running) {
            let finish = Finish { exit_code: Some(0), ..Finish::new(FinishedHow::Succeeded) };
            let started = Statement::Started { elapsed: Duration::ZERO };
            for statement in [Statement::Accepted, started, Statement::Finished(finish), Statement::Reaped] {
                self.report(lease, statement);
            }
        }
        for _ in 0..jobs {
            self.jobs += 1;
            let id = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + u128::from(self.jobs));
            let (kind, tenant) = (KindName::new("work"), Tenant::new("default"));
            self.apply(Command::Enqueue(Box::new(Enqueue {
                payload_size: 100,
                ..Enqueue::new(JobId(id), kind, tenant)
            })));
        }
        self.commit().await
    }
}

/// What a full turn sends: jobs end, others are enqueued and granted at once. One more statement is a round trip more on
/// Postgres for everybody. Of several calls with one statement in a row, `most` of which there may be in all, one is listed.
pub(crate) async fn a_turn_takes_a_handful_of_statements(
    journal: impl Journal,
    expected: &[&str],
    most: usize,
) {
    let mut turns = Turns::new(journal).await;
    turns.turn(JOBS).await;
    assert_eq!(turns.running.len() as u64, JOBS, "all are granted in the turn that enqueues them");
    let mut full = turns.turn(JOBS).await;
    assert_eq!(full.len(), most, "{full:?}");
    full.dedup();
    assert_eq!(full, expected);
    assert_eq!(turns.running.len() as u64, JOBS);
    // Whatever the batch.
    turns.turn(1).await;
    assert_eq!(turns.turn(1).await, full);
    // What nothing changed for is not sent.
    turns.turn(0).await;
    assert_eq!(turns.running.len(), 0);
    let enqueues = turns.turn(1).await;
    let of_ends = ["LEASE_DELETE", "JOB_UPDATE", "LEASE_DELETE+JOB_UPDATE"];
    let of_enqueues: Vec<&str> = full.into_iter().filter(|sent| !of_ends.contains(sent)).collect();
    assert_eq!(enqueues, of_enqueues);
}

/// Rows that go by many, by few and alone, new and changed, are loaded as they were lived through.
pub(crate) async fn rows_of_many_are_what_was_lived_through(journal: impl Journal) {
    let mut turns = Turns::new(journal).await;
    turns.turn(16 + 4 + 1).await;
    assert_eq!(turns.running.len(), 16 + 4 + 1);
    for (n, (job, _)) in turns.running.clone().into_iter().enumerate() {
        turns.apply(Command::Cancel { job, reason: Some(format!("wish {n}").into()), prior: None });
    }
    let sent = turns.commit().await;
    assert!(sent.iter().any(|sent| sent.contains("JOB_UPDATE")), "{sent:?}");
    let Taken { durable, .. } = turns.journal.takeover(Default::default()).await.unwrap();
    assert_eq!(durable.jobs, turns.state.durable().jobs);
}

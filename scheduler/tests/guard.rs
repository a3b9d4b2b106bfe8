//! Workloads that never change, for `scripts/guard`: it counts what they make a processor execute, and compares. Each runs
//! for as many rounds as the environment says, so that two runs of different length differ by rounds alone.
//!
//! Whoever changes a workload changes its figure: `scripts/guard --renew`.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tenure_scheduler::{
    Applied, Command, Durable, Enqueue, Epoch, Event, FencingToken, Fingerprint, Finish, FinishedHow, Fleet,
    Heartbeat, Held, Hello, Host, JobId, KindName, KindPolicy, Limits, Mono, Needs, NodeName, Now, Ordinal,
    Phase, Pressure, Report, Scope, SessionId, SlotName, State, Statement, Tenant, Wall,
};
use uuid::Uuid;

/// Noon of 2026-09-30, UTC, in microseconds.
const BEGIN: i64 = 1_790_769_600_000_000;
/// Each runs four jobs at once.
const NODES: u32 = 50;
/// Jobs that end, and as many that are enqueued, in one turn.
const ENDS: usize = 50;

/// A fleet that is full, and what waits for it.
struct World {
    state: State,
    clock: u64,
    jobs: u32,
    tenants: u32,
    /// The newest `seq` of each node.
    seqs: BTreeMap<NodeName, u64>,
    /// What runs, the oldest first.
    held: VecDeque<(FencingToken, JobId, NodeName)>,
}

fn kind(n: u32) -> KindName {
    KindName::new(format!("kind-{n}"))
}

impl World {
    /// Ten kinds of so many tenants, each with jobs that wait.
    fn new(tenants: u32, waiting: u32) -> Self {
        let now = Now { mono: Mono(0), wall: Wall(BEGIN) };
        let state = State::load(Epoch(1), Limits::default(), Durable::default(), now);
        let (seqs, held) = (BTreeMap::new(), VecDeque::new());
        let mut world = Self { state, clock: 0, jobs: 0, tenants, seqs, held };
        let slots = ["cpu", "gpu"].map(|slot| (SlotName::new(slot), Scope::Node));
        let fleet_slot = (SlotName::new("f"), Scope::Fleet { capacity: 100_000 });
        let policy = |n: u32| {
            // A third needs the fleet too, a third a second slot of the node.
            let second = [None, Some("f"), Some("gpu")][n as usize % 3];
            let needs = second.into_iter().chain(["cpu"]).map(|slot| (SlotName::new(slot), 1));
            (kind(n), KindPolicy { needs: Needs::new(needs), ..KindPolicy::default() })
        };
        let slots = slots.into_iter().chain([fleet_slot]).collect();
        let fleet = Fleet { slots, kinds: (0..10).map(policy).collect(), ..Fleet::default() };
        world.apply(Command::Apply { fleet: Box::new(fleet), validate_only: false });
        (0..NODES).for_each(|n| world.hello(n));
        for _ in 0..NODES * 4 + waiting {
            world.enqueue();
        }
        world.tick();
        world
    }

    fn apply(&mut self, command: Command) -> Applied {
        let wall = Wall(BEGIN + i64::try_from(self.clock).unwrap());
        let now = Now { mono: Mono(self.clock), wall };
        let applied = self.state.apply(now, command).expect("no refusal");
        for event in &applied.events {
            if let Event::Granted { lease, .. } = event {
                self.held.push_back((lease.token, lease.job, lease.node.clone()));
            }
        }
        applied
    }

    /// Timers and placement, then what a driver does after the commit.
    fn tick(&mut self) {
        while self.apply(Command::Tick).more {}
        drop(self.state.take_changes());
        self.state.committed();
        self.clock += 10_000;
    }

    fn enqueue(&mut self) {
        self.jobs += 1;
        let id = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + u128::from(self.jobs));
        let class = self.jobs % (10 * self.tenants);
        let tenant = Tenant::new(format!("tenant-{}", class / 10));
        self.apply(Command::Enqueue(Box::new(Enqueue {
            fingerprint: Fingerprint([7; 32]),
            payload_size: 100,
            ..Enqueue::new(JobId(id), kind(class % 10), tenant)
        })));
    }

    fn hello(&mut self, n: u32) {
        let node = NodeName::new(format!("node-{n}"));
        self.seqs.insert(node.clone(), 1);
        self.apply(Command::Hello(Box::new(Hello {
            instance: node.as_str().into(),
            node,
            session: SessionId(u64::from(n)),
            seq: 1,
            boot_id: "boot".into(),
            incarnation: 1,
            stream: 1,
            labels: BTreeMap::new(),
            slots: [("cpu", 4), ("gpu", 4)].map(|(slot, units)| (SlotName::new(slot), units)).into(),
            kinds: (0..10).map(kind).collect(),
            host: Host::default(),
            agent_version: "0".into(),
            inputs: true,
            pressure: Pressure { weight: 1, ..Pressure::default() },
            max_epoch_seen: 0,
            held: Vec::new(),
            unstored: Vec::new(),
            credits: 10_000,
        })));
    }

    fn next_seq(&mut self, node: &NodeName) -> (SessionId, u64) {
        let seq = self.seqs.get_mut(node).unwrap();
        *seq += 1;
        let n = node.as_str().strip_prefix("node-").and_then(|n| n.parse().ok());
        (SessionId(n.unwrap()), *seq)
    }

    fn heartbeats(&mut self) {
        let mut held: BTreeMap<NodeName, Vec<Held>> = BTreeMap::new();
        for (token, job, node) in &self.held {
            let (job, token, phase) = (*job, *token, Phase::Started);
            let lease = Held { job, token, phase, elapsed: Duration::from_secs(1), wait_epoch: None };
            held.entry(node.clone()).or_default().push(lease);
        }
        for node in self.seqs.keys().cloned().collect::<Vec<_>>() {
            let (session, seq) = self.next_seq(&node);
            let held = held.remove(&node).unwrap_or_default();
            let pressure = Pressure { weight: 1, ..Pressure::default() };
            let seen = Ordinal(seq);
            self.apply(Command::Heartbeat(Box::new(Heartbeat { node, session, seq, seen, held, pressure })));
        }
    }

    /// The oldest of what runs ends, as its node tells it.
    fn end(&mut self) {
        let (token, job, node) = self.held.pop_front().expect("something runs");
        let finish = Finish { exit_code: Some(0), ..Finish::new(FinishedHow::Succeeded) };
        let started = Statement::Started { elapsed: Duration::ZERO };
        for statement in [Statement::Accepted, started, Statement::Finished(finish), Statement::Reaped] {
            let (session, seq) = self.next_seq(&node);
            let (node, seq, seen, prior) = (node.clone(), Some(seq), Ordinal(0), None);
            let report = Report { node, session, seq, seen, job, token, statement, prior };
            self.apply(Command::Report(Box::new(report)));
        }
    }

    fn check(&self, waiting: u32) {
        assert_eq!(self.state.check_invariants(), []);
        assert_eq!(self.held.len(), NODES as usize * 4, "the fleet is full");
        let now = Now { mono: Mono(self.clock), wall: Wall(BEGIN) };
        let depth: u64 = self.state.snapshot(now).health.iter().map(|health| health.depth).sum();
        assert_eq!(depth, u64::from(waiting));
    }
}

#[expect(clippy::disallowed_methods, reason = "a test reads its length; the scheduler reads no environment")]
fn rounds() -> u32 {
    std::env::var("TENURE_GUARD_ROUNDS").map_or(2, |rounds| rounds.parse().expect("a number of rounds"))
}

/// A round is a turn: jobs are enqueued, as many end by four reports each, what waits takes their place, and every node
/// sends a heartbeat.
#[test]
#[ignore = "for scripts/guard, which counts its instructions"]
fn turns_of_a_full_fleet() {
    let mut world = World::new(2, 2000);
    for _ in 0..rounds() {
        world.heartbeats();
        for _ in 0..ENDS {
            world.enqueue();
            world.end();
        }
        world.tick();
    }
    world.check(2000);
}

/// A round is a decision: one job ends, and one of many classes takes its place, while all of the others want it too.
#[test]
#[ignore = "for scripts/guard, which counts its instructions"]
fn decisions_among_many_classes() {
    let mut world = World::new(50, 1500);
    for _ in 0..rounds() {
        world.end();
        world.enqueue();
        world.tick();
    }
    world.check(1500);
}

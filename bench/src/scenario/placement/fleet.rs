//! A scheduler without a server: a fleet that is full, and what waits for it.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context as _, anyhow, ensure};
use tenure_scheduler::{
    Applied, Command, Durable, Enqueue, Epoch, Event, FencingToken, Fingerprint, Finish, FinishedHow, Fleet,
    Hello, Host, JobId, KindName, KindPolicy, Limits, Mono, Needs, NodeName, Now, Ordinal, Pressure, Report,
    Scope, SessionId, SlotName, State, Statement, Tenant, Wall,
};
use uuid::Uuid;

/// Noon of 2026-09-30, UTC, in microseconds.
const BEGIN: i64 = 1_790_769_600_000_000;
/// Kinds whose jobs wait; each has needs of its own.
const KINDS: u32 = 10;
/// Each with a fifth of the nodes that differ in what they offer.
const TYPES: u32 = 20;
/// Units of `work` of each node: so many jobs run there.
const WORK: u32 = 4;
/// The kind that finds room at once, on a slot of its own.
pub(super) const LIGHT: &str = "light";
/// The kind whose jobs need the fleet slot that is exhausted.
pub(super) const DRY: &str = "dry";

/// See the module.
pub(super) struct World {
    pub(super) state: State,
    clock: u64,
    commands: u64,
    jobs: u128,
    /// By node: its session and its newest `seq`.
    sessions: BTreeMap<NodeName, (SessionId, u64)>,
    /// What was granted and has not ended, the oldest first.
    pub(super) held: VecDeque<(FencingToken, JobId, NodeName)>,
    tenants: u32,
}

fn kind_of(n: u32) -> String {
    format!("work-{n}")
}

fn needs(amounts: &[(&str, u32)]) -> Needs {
    Needs::new(amounts.iter().map(|(slot, amount)| (SlotName::new(*slot), *amount)))
}

impl World {
    /// A fleet of so many nodes, whose work slots are full of jobs of so many tenants.
    pub(super) fn new(nodes: u32, tenants: u32) -> anyhow::Result<Self> {
        let now = Now { mono: Mono(0), wall: Wall(BEGIN) };
        let limits = Limits { placements_per_tick: 4096, max_live_jobs: 50_000_000, ..Limits::default() };
        let state = State::load(Epoch(1), limits, Durable::default(), now);
        let (sessions, held) = (BTreeMap::new(), VecDeque::new());
        let mut world = Self { state, clock: 0, commands: 0, jobs: 0, sessions, held, tenants };
        world.apply(Command::Apply { fleet: Box::new(fleet()), validate_only: false })?;
        for n in 0..nodes {
            world.hello(n)?;
        }
        world.fill(u64::from(nodes) * u64::from(WORK))?;
        Ok(world)
    }

    /// So many jobs more.
    pub(super) fn fill(&mut self, jobs: u64) -> anyhow::Result<()> {
        for _ in 0..jobs {
            self.enqueue_work()?;
        }
        self.settle()
    }

    pub(super) fn now(&self) -> Now {
        let wall = BEGIN.saturating_add_unsigned(self.clock);
        Now { mono: Mono(self.clock), wall: Wall(wall) }
    }

    /// One command. A microsecond is 64 of them, so that no node is silent for too long before everything is enqueued.
    pub(super) fn apply(&mut self, command: Command) -> anyhow::Result<Applied> {
        self.commands += 1;
        self.clock = self.commands / 64;
        let applied =
            self.state.apply(self.now(), command).map_err(|refusal| anyhow!("refused: {refusal}"))?;
        for event in &applied.events {
            if let Event::Granted { lease, .. } = event {
                self.held.push_back((lease.token, lease.job, lease.node.clone()));
            }
        }
        Ok(applied)
    }

    /// As a driver commits: not a part of what is measured.
    pub(super) fn commit(&mut self) {
        drop(self.state.take_changes());
        self.state.committed();
    }

    /// Ticks until there is nothing more to do.
    pub(super) fn settle(&mut self) -> anyhow::Result<()> {
        while self.apply(Command::Tick)?.more {
            self.commit();
        }
        self.commit();
        Ok(())
    }

    /// One more job that waits.
    pub(super) fn enqueue_work(&mut self) -> anyhow::Result<()> {
        let n = u32::try_from(self.jobs % u128::from(KINDS * self.tenants))?;
        let enqueue = self.enqueue(&kind_of(n % KINDS), n / KINDS, 0);
        self.apply(enqueue)?;
        if self.jobs.is_multiple_of(512) {
            self.commit();
        }
        Ok(())
    }

    /// A job that was never seen before. Its names are texts of its own, as they come in over the wire.
    pub(super) fn enqueue(&mut self, kind: &str, tenant: u32, priority: i8) -> Command {
        self.jobs += 1;
        let job = self.last_job();
        Command::Enqueue(Box::new(Enqueue {
            fingerprint: Fingerprint([7; 32]),
            payload_size: 100,
            priority: Some(priority),
            ..Enqueue::new(job, KindName::new(kind), Tenant::new(format!("tenant-{tenant}")))
        }))
    }

    /// The job that was enqueued last.
    pub(super) fn last_job(&self) -> JobId {
        JobId(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + self.jobs))
    }

    fn hello(&mut self, n: u32) -> anyhow::Result<()> {
        let node = NodeName::new(format!("node-{n}"));
        let session = SessionId(u64::from(n) + 1);
        self.sessions.insert(node.clone(), (session, 1));
        let of = n % TYPES;
        // Ten slots in all: most everywhere, one on few.
        let mut slots: BTreeMap<SlotName, u32> = (0..7)
            .filter(|slot| !(of + slot).is_multiple_of(5))
            .map(|slot| (SlotName::new(format!("slot-{slot}")), 2))
            .collect();
        slots.extend([(SlotName::new("work"), WORK), (SlotName::new("light"), 1000)]);
        if of == 0 {
            slots.insert(SlotName::new("rare"), 1);
        }
        let kinds = (0..KINDS).map(kind_of).chain([LIGHT.to_owned(), DRY.to_owned()]);
        self.apply(Command::Hello(Box::new(Hello {
            instance: node.as_str().into(),
            node,
            session,
            seq: 1,
            boot_id: "boot".into(),
            incarnation: 1,
            stream: 1,
            labels: BTreeMap::from([("type".to_owned(), of.to_string())]),
            slots,
            kinds: kinds.map(KindName::new).collect(),
            host: Host::default(),
            agent_version: "0".into(),
            inputs: true,
            pressure: Pressure { weight: 1, ..Pressure::default() },
            max_epoch_seen: 0,
            held: Vec::new(),
            unstored: Vec::new(),
            credits: 10_000,
        })))?;
        self.commit();
        Ok(())
    }

    fn report(
        &mut self,
        held: &(FencingToken, JobId, NodeName),
        statement: Statement,
    ) -> anyhow::Result<Command> {
        let (token, job, node) = held.clone();
        let known = self.sessions.get_mut(&node).context("no such node")?;
        known.1 += 1;
        let ((session, seq), seen) = (*known, Ordinal(0));
        Ok(Command::Report(Box::new(Report {
            node,
            session,
            seq: Some(seq),
            seen,
            job,
            token,
            statement,
            prior: None,
        })))
    }

    /// The reports that end something that runs: of its end, and that it is gone.
    pub(super) fn ends(&mut self, held: &(FencingToken, JobId, NodeName)) -> anyhow::Result<[Command; 2]> {
        let finish = Finish { exit_code: Some(0), ..Finish::new(FinishedHow::Succeeded) };
        Ok([self.report(held, Statement::Finished(finish))?, self.report(held, Statement::Reaped)?])
    }

    /// What must hold, or the figures mean nothing.
    pub(super) fn check(&self, queued: u64) -> anyhow::Result<()> {
        let broken = self.state.check_invariants();
        ensure!(broken.is_empty(), "an invariant does not hold: {broken:?}");
        let waiting: u64 = self.state.snapshot(self.now()).health.iter().map(|health| health.depth).sum();
        ensure!(waiting >= queued, "{waiting} jobs wait, and not {queued}");
        Ok(())
    }
}

fn fleet() -> Fleet {
    let of_nodes = (0..7).map(|slot| format!("slot-{slot}"));
    let of_nodes = of_nodes.chain(["work", "light", "rare"].map(str::to_owned));
    let slots = of_nodes.map(|slot| (SlotName::new(slot), Scope::Node));
    let fleets = [("f-0", 1_000_000), ("f-1", 1_000_000), ("f-2", 1_000_000), ("f-dry", 1)];
    let fleets = fleets.map(|(slot, capacity)| (SlotName::new(slot), Scope::Fleet { capacity }));
    let policy = |needs: Needs| KindPolicy { needs, ..KindPolicy::default() };
    let work = (0..KINDS).map(|n| {
        // Some need a slot that not every node has, some a unit of the fleet.
        let slot = format!("slot-{}", n % 7);
        let fleet = format!("f-{}", n % 3);
        let amounts: &[(&str, u32)] = match n % 3 {
            0 => &[("work", 1)],
            1 => &[("work", 1), (&fleet, 1)],
            _ => &[("work", 1), (&slot, 1)],
        };
        (KindName::new(kind_of(n)), policy(needs(amounts)))
    });
    let others = [(LIGHT, needs(&[("light", 1), ("f-0", 1)])), (DRY, needs(&[("f-dry", 1)]))];
    let others = others.map(|(kind, needs)| (KindName::new(kind), policy(needs)));
    Fleet { slots: slots.chain(fleets).collect(), kinds: work.chain(others).collect(), ..Fleet::default() }
}

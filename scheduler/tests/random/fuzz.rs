//! One random history: producers, operators, nodes and the clock, each step one of them.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    time::Duration,
};

use tenure_scheduler::{
    Allowance, Applied, BeginWait, Budget, Command, Concurrency, ConcurrencyKey, CounterName, DedupeKey,
    DedupePolicy, Detach, DueResult, Enqueue, FencingToken, Fingerprint, Finish, FinishedHow, Fleet, JobId,
    KindName, KindPolicy, LeaseName, Limits, Needs, NodeName, OnExhausted, OnParent, PausePolicy, Phase,
    Prior, Producer, ProducerLimits, RateLimit, Refusal, RetryPolicy, Return, Scope, Selector, SlotName,
    Statement, Tenant, TenantPolicy, Throttled, Usage, WaitPolicy, Window, WorkflowId,
};
use uuid::Uuid;

use crate::support::{Agent, Holding, Rng, World};

pub(crate) const NODES: u64 = 4;
pub(crate) const KINDS: [&str; 5] = ["k0", "k1", "k2", "k3", "k4"];
pub(crate) const FLEET_SLOTS: [&str; 2] = ["f1", "f2"];
pub(crate) const NODE_SLOTS: [&str; 2] = ["s1", "s2"];

/// See the module.
pub(crate) struct Fuzz {
    pub(crate) rng: Rng,
    pub(crate) world: World,
    pub(crate) jobs: Vec<JobId>,
    /// Workflows that were submitted, refused ones too.
    pub(crate) flows: Vec<WorkflowId>,
    /// Every grant that was ever seen: what absurd reports are made of.
    pub(crate) grants: Vec<(JobId, FencingToken, NodeName)>,
    /// Processes of agents that lost their state, by the node that they were: they run until then.
    pub(crate) ghosts: Vec<(NodeName, JobId, u64)>,
    /// The wall clock is stepped now and then.
    wall_steps: bool,
    /// Prints its trace.
    traced: bool,
    /// A digest of everything that was decided; none: nobody asks for it.
    pub(crate) transcript: Option<u64>,
}

impl Fuzz {
    pub(crate) fn new(seed: u64, traced: bool) -> Self {
        let mut rng = Rng::new(seed);
        let limits = Limits {
            max_live_jobs: 60,
            children: 3,
            descendants: 6,
            tree_depth: 3,
            placements_per_tick: if rng.percent(30) { 2 } else { 512 },
            whole_jobs: if rng.percent(50) { 3 } else { 8192 },
            // Without chance: the seeds stay the histories that they were.
            workflow_moves: if seed.is_multiple_of(3) { 2 } else { 1024 },
            ..Limits::default()
        };
        let mut world = World::new(limits);
        world.paranoid = rng.percent(20);
        let wall_steps = rng.percent(30);
        let mut fuzz = Self {
            rng,
            world,
            jobs: Vec::new(),
            flows: Vec::new(),
            grants: Vec::new(),
            ghosts: Vec::new(),
            wall_steps,
            traced,
            transcript: None,
        };
        fuzz.run(Command::Apply { fleet: Box::new(fleet(2, 3)), validate_only: false });
        for n in 0..NODES {
            fuzz.new_agent(n);
        }
        fuzz
    }

    fn new_agent(&mut self, n: u64) {
        let mut agent = Agent::new(&format!("n{n}"));
        agent.honest = true;
        self.offer(&mut agent);
        let name = agent.name.clone();
        self.world.agents.insert(name.clone(), agent);
        self.hello(&name);
    }

    /// What a node offers, at random.
    pub(crate) fn offer(&mut self, agent: &mut Agent) {
        let units = |rng: &mut Rng| u32::try_from(rng.below(4)).unwrap();
        agent.slots = NODE_SLOTS.map(|slot| (SlotName::new(slot), units(&mut self.rng))).into();
        let kinds = KINDS.into_iter().filter(|_| self.rng.percent(80)).map(KindName::new);
        agent.kinds = kinds.collect();
        agent.credits = if self.rng.percent(50) { 1 } else { 4 };
        super::routing::offer(&mut self.rng, agent);
    }

    /// Applies a command; a refusal is as good an answer as any other.
    pub(crate) fn run(&mut self, command: Command) -> Option<Applied> {
        let result = self.world.turn(command);
        self.note(result)
    }

    pub(crate) fn note(&mut self, result: Result<Applied, Refusal>) -> Option<Applied> {
        if self.traced {
            self.trace(&result);
        }
        if let Some(transcript) = &mut self.transcript {
            let mut hasher = DefaultHasher::new();
            format!("{transcript} {result:?}").hash(&mut hasher);
            *transcript = hasher.finish();
        }
        self.learn();
        result.ok()
    }

    /// One line for every event that a debug log would have, and for every refusal.
    fn trace(&self, result: &Result<Applied, Refusal>) {
        let at = Duration::from_micros(self.world.clock);
        match result {
            Ok(applied) => {
                let notable = applied.events.iter().filter(|event| event.is_notable());
                notable.for_each(|event| eprintln!("{at:?} {event}"));
            }
            Err(refusal) => eprintln!("{at:?} refused {}: {refusal}", refusal.reason()),
        }
    }

    /// New grants become known.
    fn learn(&mut self) {
        let effects = self.world.take_released();
        for (node, message) in World::messages(&effects) {
            if let tenure_scheduler::Message::Grant(grant) = message {
                self.grants.push((grant.job, grant.token, node.clone()));
            }
        }
    }

    pub(crate) fn step(&mut self) {
        if self.rng.percent(3) {
            self.world.batch = true;
        }
        match self.rng.below(100) {
            0..18 => self.enqueue(),
            18..20 => self.workflow(),
            20..30 => self.tick(),
            30..42 => {
                let length = match self.rng.below(400) {
                    0 => 1_900_000_000, // Who still waits then has risen.
                    1..30 => 40_000_000,
                    _ => 3_000_000,
                };
                let length = Duration::from_micros(self.rng.below(length));
                self.advance(length);
            }
            42..72 => self.work(),
            72..79 => self.beat(),
            79..86 => self.operate(),
            86..91 => self.press(),
            91 if self.wall_steps => {
                let seconds = i64::try_from(self.rng.below(21)).unwrap() - 10;
                self.world.step_wall(seconds * 1_000_000);
            }
            91..96 => self.trouble(),
            _ => self.absurd(),
        }
        if self.world.batch && self.rng.percent(40) {
            self.end_batch();
        }
    }

    pub(crate) fn end_batch(&mut self) {
        self.world.batch = false;
        if self.rng.percent(20) {
            self.world.reload(); // The commit failed: nobody heard of the turn.
        } else {
            self.world.commit();
        }
        self.learn();
    }

    pub(crate) fn tick(&mut self) {
        let result = self.world.turn(Command::Tick);
        self.note(result);
    }

    pub(crate) fn advance(&mut self, length: Duration) {
        if self.world.batch {
            self.end_batch();
        }
        let mut seen = Vec::new();
        self.world.advance(length, |_, applied| seen.push(applied.clone()));
        seen.into_iter().for_each(|applied| {
            self.note(Ok(applied));
        });
    }

    pub(crate) fn node(&mut self) -> NodeName {
        NodeName::new(format!("n{}", self.rng.below(NODES)))
    }

    pub(crate) fn hello(&mut self, name: &NodeName) -> bool {
        let result = self.world.hello(name);
        let good = self.note(result).is_some();
        if good {
            self.unspool(name);
        }
        good
    }

    /// Spooled reports follow a Welcome, or the kill that they are about.
    pub(crate) fn unspool(&mut self, name: &NodeName) {
        let clock = self.world.clock;
        let agent = &self.world.agents[name];
        let spool: Vec<_> = agent.spool.iter().map(|(t, (job, said))| (*t, *job, said.clone())).collect();
        for (token, job, statement) in spool {
            let agent = self.world.agents.get_mut(name).unwrap();
            let command = agent.report(job, token, statement, clock);
            self.run(command);
        }
    }

    fn beat(&mut self) {
        let name = self.node();
        if self.world.agents.get(&name).is_some_and(|agent| agent.session.is_some()) {
            let result = self.world.beat(&name);
            self.note(result);
        }
    }

    fn enqueue(&mut self) {
        let id = match self.rng.below(20) {
            0 => self.rng.pick(&self.jobs),
            _ => None,
        };
        let next = 0x0199_0000_0000_7000_8000_0000_0000_0000 + self.jobs.len() as u128;
        let job = id.unwrap_or(JobId(Uuid::from_u128(next)));
        self.jobs.push(job);
        let rng = &mut self.rng;
        let kind = KindName::new(rng.pick(&KINDS).unwrap());
        let is_keyed = matches!(kind.as_str(), "k0" | "k3") || rng.percent(2);
        let key = rng.percent(20).then(|| DedupeKey::new(format!("key-{}", rng.below(4))));
        let needs = rng.percent(15).then(|| {
            let slots = [NODE_SLOTS, FLEET_SLOTS].concat();
            let amount = |rng: &mut Rng| u32::try_from(rng.below(4)).unwrap();
            let needs: Vec<_> =
                (0..2).map(|_| (SlotName::new(rng.pick(&slots).unwrap()), amount(rng))).collect();
            Needs::new(needs)
        });
        let selector = if rng.percent(25) { super::routing::selector(rng) } else { Selector::default() };
        let micros = |rng: &mut Rng| Duration::from_micros(rng.below(20_000_000));
        let enqueue = Enqueue {
            job,
            producer: Producer::new(if rng.percent(90) { "p" } else { "q" }),
            tenant: rng.percent(30).then(|| Tenant::new("t1")),
            default_tenant: Tenant::new(rng.pick(&["t1", "t2"]).unwrap()),
            kind,
            fingerprint: Fingerprint([u8::from(rng.percent(10)); 32]),
            payload_size: 0,
            dedupe_key: key,
            concurrency_key: (is_keyed && rng.percent(60))
                .then(|| ConcurrencyKey::new(format!("ck-{}", rng.below(3)))),
            priority: rng.percent(30).then(|| priority(rng)),
            run_at: None,
            delay: rng.percent(15).then(|| micros(rng)),
            stale_after: rng.percent(10).then(|| micros(rng)),
            labels: BTreeMap::new(),
            selector,
            prefer: super::routing::prefer(rng),
            needs,
            hard_time_limit: rng.percent(30).then(|| Duration::from_secs(1 + rng.below(30))),
            soft_time_limit: rng.percent(10).then(|| Duration::from_secs(1 + rng.below(20))),
            parent: if rng.percent(30) { rng.pick(&self.jobs) } else { None },
            on_parent_cancel: on_parent(rng),
            on_parent_lost: on_parent(rng),
            lease: None,
            trace: None,
            limits: ProducerLimits {
                tenants: rng.percent(5).then(|| [Tenant::new("t1")].into()),
                max_priority: rng.percent(10).then(|| priority(rng)),
            },
            prior: Prior::default(),
        };
        self.run(Command::Enqueue(Box::new(enqueue)));
    }

    /// A node gets on with something that it holds.
    fn work(&mut self) {
        let busy = self.world.agents.values().filter(|agent| !agent.held.is_empty());
        let busy: Vec<NodeName> = busy.map(|agent| agent.name.clone()).collect();
        let Some(name) = self.rng.pick(&busy) else { return };
        let clock = self.world.clock;
        let Some(agent) = self.world.agents.get_mut(&name) else { return };
        agent.kill_overdue(clock);
        if agent.session.is_some() && !agent.deaf {
            self.unspool(&name);
        }
        let agent = &self.world.agents[&name];
        let held: Vec<_> = agent.held.iter().map(|(token, held)| (*token, *held)).collect();
        let Some((token, held)) = self.rng.pick(&held) else { return };
        if held.parked.is_some() && !self.rng.percent(5) {
            return; // It waits; now and then it dies of it.
        }
        let may_park = held.phase == Phase::Started && held.parked.is_none();
        // Who must detach asks now and then all the same.
        let often = if held.must_detach { 10 } else { 40 };
        if may_park && self.rng.percent(often) && self.park(&name, held, token) {
            return;
        }
        let statement = match held.phase {
            Phase::Granted if clock >= held.start_by => self.returned("stale_grant", false),
            Phase::Granted if self.rng.percent(20) => self.returned("headroom", false),
            Phase::Granted => Statement::Accepted,
            Phase::Accepted if self.rng.percent(10) => self.returned("draining", false),
            Phase::Accepted => {
                self.starts(&name, held.job);
                Statement::Started { elapsed: Duration::ZERO }
            }
            Phase::Started if held.must_detach => self.finished(held.job),
            Phase::Started | Phase::Parked | Phase::Stopping | Phase::Unkillable if self.rng.percent(10) => {
                self.returned("cut_off", true)
            }
            Phase::Started | Phase::Parked | Phase::Stopping | Phase::Unkillable => self.finished(held.job),
            Phase::Finished if self.rng.percent(50) => return,
            Phase::Finished => Statement::Reaped,
        };
        self.say(&name, held.job, token, statement);
    }

    /// Reports, or spools what it cannot report.
    pub(crate) fn say(&mut self, name: &NodeName, job: JobId, token: FencingToken, statement: Statement) {
        let clock = self.world.clock;
        let agent = self.world.agents.get_mut(name).unwrap();
        let connected = agent.session.is_some();
        let command = agent.report(job, token, statement, clock);
        if connected {
            self.run(command);
        }
    }

    /// A process of a job starts: no other one may run anywhere.
    pub(crate) fn starts(&self, name: &NodeName, job: JobId) {
        let clock = self.world.clock;
        let elsewhere = self.world.agents.values().find(|agent| agent.runs(job, clock));
        assert!(
            elsewhere.is_none(),
            "{job} starts on {name} and runs on {:?}",
            elsewhere.map(|agent| &agent.name)
        );
        let ghost = self.ghosts.iter().find(|(_, ghost, until)| *ghost == job && *until > clock);
        assert!(ghost.is_none(), "{job} starts on {name} while a forgotten process of it runs: {ghost:?}");
    }

    fn returned(&mut self, rule: &str, started: bool) -> Statement {
        let generation = self.rng.below(4);
        let retry_after = self.rng.percent(30).then(|| Duration::from_secs(self.rng.below(20)));
        let rule = if self.rng.percent(5) { "stale" } else { rule };
        Statement::Returned(Return {
            rule: rule.into(),
            observed: 1.0,
            threshold: 1.0,
            generation,
            retry_after,
            started,
            usage: Usage::new(),
            has_result: self.rng.percent(30),
            checkpoint: started.then_some(generation),
        })
    }

    /// Of any slot: only one that the lease holds is heeded.
    fn throttled(&mut self) -> Option<Throttled> {
        let slot = SlotName::new(self.rng.pick(&[NODE_SLOTS, FLEET_SLOTS].concat()).unwrap());
        let retry_after = Duration::from_secs(self.rng.below(20));
        self.rng.percent(10).then_some(Throttled { slot, retry_after })
    }

    fn usage(&mut self) -> Usage {
        let used = ["tokens", "pages"].map(|counter| (CounterName::new(counter), self.rng.below(40)));
        used.into_iter().filter(|_| self.rng.percent(60)).collect()
    }

    fn finished(&mut self, job: JobId) -> Statement {
        if self.rng.percent(25)
            && let Some(detach) = self.detach(job)
        {
            return Statement::Finished(Finish {
                exit_code: Some(79),
                usage: self.usage(),
                has_result: self.rng.percent(50),
                detach: Some(Box::new(detach)),
                ..Finish::new(FinishedHow::Detached)
            });
        }
        let how = match self.rng.below(12) {
            0..5 => FinishedHow::Succeeded,
            5..8 => FinishedHow::Failed,
            8 => FinishedHow::FailedPermanent,
            9 if self.rng.percent(50) => FinishedHow::Stalled,
            9 => FinishedHow::TimedOut,
            10 => FinishedHow::Revoked,
            _ => FinishedHow::Lost,
        };
        Statement::Finished(Finish {
            how,
            exit_code: self.rng.percent(50).then(|| i32::try_from(self.rng.below(80)).unwrap()),
            cause: "exit".into(),
            error: "".into(),
            retry_after: self.rng.percent(10).then(|| Duration::from_secs(self.rng.below(10))),
            throttled: self.throttled(),
            usage: self.usage(),
            has_result: self.rng.percent(30),
            partial: self.rng.percent(30),
            checkpoint: self.rng.percent(20).then(|| self.rng.below(9)),
            detach: None,
        })
    }

    /// A process that stays waits for its children, if it has any and is heard.
    fn park(&mut self, name: &NodeName, held: Holding, token: FencingToken) -> bool {
        let agent = &self.world.agents[name];
        let is_heard = agent.session.is_some() && !agent.deaf;
        let Some(detach) = self.detach(held.job).filter(|_| is_heard) else {
            return false;
        };
        let again = held.waits > 0 && self.rng.percent(20);
        let wait_epoch = held.waits + u64::from(!again);
        let command = Command::BeginWait(Box::new(BeginWait {
            lease: LeaseName { node: name.clone(), job: held.job, token },
            wait_epoch,
            children: detach.children,
            policy: detach.policy,
            max_wait: detach.max_wait,
            prior: Vec::new(),
        }));
        let result = self.world.turn(command);
        if !self.world.batch {
            self.world.agents.get_mut(name).unwrap().answered(token, wait_epoch, &result);
        }
        self.note(result).is_some()
    }

    /// A wait for some of the children that a job ever had; now and then one that is absurd.
    fn detach(&mut self, parent: JobId) -> Option<Detach> {
        let all = self.world.store.jobs.values();
        let mut children: Vec<JobId> =
            all.filter(|job| job.parent == Some(parent)).map(|job| job.id).collect();
        if self.rng.percent(10) {
            children.extend(self.rng.pick(&self.jobs));
        }
        if children.is_empty() {
            return None;
        }
        Some(Detach {
            children,
            policy: match self.rng.below(4) {
                0 => WaitPolicy::Any,
                1 => WaitPolicy::AtLeast(2),
                2 => WaitPolicy::FirstFailure,
                _ => WaitPolicy::All,
            },
            max_wait: self.rng.percent(30).then(|| Duration::from_secs(self.rng.below(30))),
            same_node: self.rng.percent(50),
            prior: Vec::new(),
        })
    }

    fn operate(&mut self) {
        let node = self.node();
        let job = self.rng.pick(&self.jobs).unwrap_or(JobId(Uuid::nil()));
        let kind = KindName::new(self.rng.pick(&KINDS).unwrap());
        let slot = SlotName::new(self.rng.pick(&[NODE_SLOTS, FLEET_SLOTS].concat()).unwrap());
        let number = self.rng.below(5);
        let small = u32::try_from(number).unwrap();
        let command = match self.rng.below(18) {
            0..3 => Command::Cancel { job, reason: None, prior: None },
            3..6 => Command::Requeue { job, force: self.rng.percent(40), prior: None, key_taken: false },
            6 => Command::Reprioritize { job, priority: priority(&mut self.rng), prior: None },
            7 => Command::Delete { job, validate_only: self.rng.percent(20), prior: None },
            8 => Command::PauseKind {
                kind,
                policy: if number < 3 { PausePolicy::Hold } else { PausePolicy::Reject },
            },
            9 => Command::ResumeKind { kind },
            10 => Command::PauseSlot {
                slot,
                duration: self.rng.percent(70).then(|| Duration::from_secs(number)),
            },
            11 => Command::ResumeSlot { slot },
            12 => Command::SetCapacity { slot, capacity: small },
            13 => Command::Cordon { node },
            14 => Command::Uncordon { node },
            15 => Command::Drain { node, deadline: Duration::from_secs(number) },
            16 => Command::Apply { fleet: Box::new(fleet(small, 3)), validate_only: self.rng.percent(20) },
            _ => self.sweep_or_aside(job),
        };
        self.run(command);
    }

    fn sweep_or_aside(&mut self, job: JobId) -> Command {
        if self.rng.percent(30) {
            return Command::SetAside { job };
        }
        let finals = self.world.store.jobs.values().filter(|job| job.state.is_final());
        let jobs = finals.take(5).cloned().collect();
        let due = |(job, token): &(JobId, FencingToken)| {
            let row = self.world.store.job(*job);
            let workflow = row.as_ref().and_then(|row| row.workflow).map(|of| of.workflow);
            DueResult { job: *job, token: *token, parent: row.and_then(|row| row.parent), workflow }
        };
        let results = self.world.store.results.keys().take(3).map(due).collect();
        Command::Sweep { jobs, results, workflows: self.world.store.due_workflows() }
    }
}

fn on_parent(rng: &mut Rng) -> OnParent {
    if rng.percent(50) { OnParent::Cancel } else { OnParent::Keep }
}

/// Often one of a few, at times any.
pub(crate) fn priority(rng: &mut Rng) -> i8 {
    let (among, least) = if rng.percent(60) { (7, -3) } else { (201, -100) };
    i8::try_from(i32::try_from(rng.below(among)).unwrap() + least).unwrap()
}

/// None once it heals: a history could not end before the window turns.
fn budget(f1: u32) -> Option<Budget> {
    let allowance = |amount| Allowance { amount, window: Window::Hour };
    let allowances =
        [("tokens", 60), ("pages", 90)].map(|(name, amount)| (CounterName::new(name), allowance(amount)));
    let on_exhausted = if f1 == 1 { OnExhausted::Refuse } else { OnExhausted::Defer };
    (f1 != 4).then(|| Budget { allowances: allowances.into(), on_exhausted })
}

/// A fleet file; the capacity of `f1`, the order and the selector of `k1`, the keys of `k0` and `k3`, the units that `k2` needs, the limit of `k3` and the weight of
/// `t1` differ from apply to apply.
pub(crate) fn fleet(f1: u32, f2: u32) -> Fleet {
    let policy = |needs: &[(&str, u32)], lease: u64| KindPolicy {
        needs: Needs::new(needs.iter().map(|(slot, amount)| (SlotName::new(*slot), *amount))),
        lease: Duration::from_secs(lease),
        retry: RetryPolicy::Intervals(vec![Duration::from_secs(1), Duration::from_secs(5)]),
        hard_time_limit: Duration::from_secs(60),
        reserve_after: Duration::from_secs(2),
        ..KindPolicy::default()
    };
    let by_key = |limit: u32| (limit > 0).then(|| Concurrency { key: "account".into(), limit });
    let keep = |slots: &[&'static str]| slots.iter().map(|slot| SlotName::new(*slot)).collect();
    let soon = Duration::from_secs(4);
    let kinds = [
        KindPolicy {
            concurrency: by_key(f1),
            keep_on_wait: keep(&["s1"]),
            reacquire_timeout: soon,
            ..policy(&[("s1", 1), ("f1", 1)], 10)
        },
        KindPolicy {
            selector: super::routing::kinds(f1),
            budget: budget(f1),
            fifo: f1 % 2 == 1,
            reacquire_timeout: soon,
            ..policy(&[("f1", 1)], 10)
        },
        KindPolicy { dedupe: DedupePolicy::Live, queue_cap: Some(8), ..policy(&[("s2", 1 + f1 % 2)], 30) },
        KindPolicy {
            max_running: (f1 != 2).then_some(f1.max(1)),
            concurrency: by_key(1 + f1 % 2),
            fifo: f1 == 3,
            ..policy(&[], 12)
        },
        KindPolicy {
            max_failures: 1,
            max_losses: 2,
            keep_on_wait: keep(&["f2"]),
            ..policy(&[("s1", 2), ("f2", 1)], 15)
        },
    ];
    let fleets =
        FLEET_SLOTS.into_iter().zip([f1, f2]).map(|(name, capacity)| (name, Scope::Fleet { capacity }));
    let nodes = NODE_SLOTS.into_iter().map(|name| (name, Scope::Node));
    let rate = |tokens, burst| RateLimit { tokens, per: Duration::from_secs(60), burst };
    let rates = match f1 {
        0 => [("f2", rate(12, 1))].into(),
        1 => [("f1", rate(20, 2)), ("f2", rate(2, 3))].into(),
        3 => [("f1", rate(3, 3)), ("f2", rate(20, 1))].into(),
        _ => BTreeMap::new(),
    };
    Fleet {
        rates: rates.into_iter().map(|(name, rate)| (SlotName::new(name), rate)).collect(),
        slots: fleets.chain(nodes).map(|(name, scope)| (SlotName::new(name), scope)).collect(),
        kinds: KINDS.into_iter().map(KindName::new).zip(kinds).collect(),
        tenants: (f1 > 1).then(|| (Tenant::new("t1"), TenantPolicy { weight: f1 })).into_iter().collect(),
        ..Fleet::default()
    }
}

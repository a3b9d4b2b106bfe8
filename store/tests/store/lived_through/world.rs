//! A small world around a scheduler: producers, operators, and nodes that do as they are told, mostly.

mod agents;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tenure_scheduler::{
    Allowance, BeginWait, Budget, Changes, Chord, Command, Concurrency, ConcurrencyKey, CounterName,
    DedupeKey, DedupePolicy, Detach, Effect, Enqueue, Event, Fingerprint, Finish, FinishedHow, Fleet,
    Heartbeat, Job, JobId, KindName, KindPolicy, LeaseName, Mono, NodeName, Now, OnDeadline, OnExhausted,
    OnParent, Part, PausePolicy, Phase, Preferences, Pressure, Prior, Producer, ProducerLimits, RateLimit,
    Report, RequeueMember, Requirement, RetryPolicy, Rule, Scope, Selector, SessionId, Shape, SlotName,
    State, Statement, Submit, SynthesisPolicy, Tenant, TenantPolicy, TraceContext, WaitPolicy, Wall, Window,
    Workflow, WorkflowId,
};
use tenure_store::{Beside, HeldKey, Journal, KindCutoff, Reader, Taken};

use self::agents::{Agent, hello, receive, statement};
use super::load;
use crate::{
    random::Random,
    samples::{id, needs, texts},
    stores::bytes_for,
};

const KINDS: [&str; 3] = ["crawl", "digest", "shell"];
const NODES: [&str; 3] = ["mini-1", "mini-2", "mini-3"];

/// See the module.
pub(super) struct World {
    pub(super) state: State,
    now: Now,
    agents: BTreeMap<NodeName, Agent>,
    effects: Vec<Effect>,
    next_job: u64,
    next_workflow: u64,
    next_session: u64,
    /// Jobs that were, or should have been, enqueued under another.
    children: BTreeMap<JobId, BTreeSet<JobId>>,
    /// What has happened, to see that the world is lively.
    pub(super) seen: BTreeSet<String>,
}

impl World {
    pub(super) fn new(taken: Taken) -> Self {
        let now = Now { mono: Mono(0), wall: Wall(1_780_000_000_000_000) };
        let agents = NODES.map(|name| (NodeName::new(name), Agent::default())).into();
        Self {
            state: load(taken, now),
            now,
            agents,
            effects: Vec::new(),
            next_job: 0,
            next_workflow: 0,
            next_session: 0,
            children: BTreeMap::new(),
            seen: BTreeSet::new(),
        }
    }

    /// A reload: sessions end, `mono` begins anew.
    pub(super) fn new_leader(&mut self, taken: Taken) {
        self.now.mono = Mono(0);
        self.state = load(taken, self.now);
        self.effects.clear();
        self.agents.values_mut().for_each(|agent| agent.session = None);
    }

    /// Collects and applies one turn; what is to be committed.
    pub(super) async fn turn(
        &mut self,
        random: &mut Random,
        journal: &mut impl Journal,
        reader: &Reader,
    ) -> (Changes, Beside) {
        let length = if random.chance(3) { random.below(400_000_000) } else { random.below(3_000_000) };
        self.now.mono = self.now.mono.after(Duration::from_micros(length));
        self.now.wall = self.now.wall.after(Duration::from_micros(length));
        let mut commands = Vec::new();
        for _ in 0..random.below(7) {
            commands.push(self.command(random, reader).await);
        }
        commands.extend(super::crons::plans(&self.state, self.now.wall));
        commands.extend(super::crons::operate(self.now.wall));
        commands.extend(super::webhooks::operate(&self.state, self.now));
        commands.push(Command::Tick);
        for mut command in commands {
            self.look_up(&mut command, journal).await;
            // A refusal leaves no trace, which the comparison shows.
            if let Ok(applied) = self.state.apply(self.now, command) {
                applied.events.iter().for_each(|event| self.count(event));
                self.effects.extend(applied.effects);
            }
        }
        let changes = self.state.take_changes();
        let beside = bytes_for(&changes);
        (changes, beside)
    }

    /// The turn is durable: its effects are released.
    pub(super) fn committed(&mut self, random: &mut Random) {
        self.state.committed();
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Send { node, session, ordinal, message, .. } => {
                    let Some(agent) = self.agents.get_mut(&node) else { continue };
                    // Some are lost with their stream.
                    if agent.session == Some(session) && !random.chance(2) {
                        agent.applied = ordinal;
                        receive(agent, message);
                    } else if agent.session == Some(session) {
                        agent.session = None;
                    }
                }
                Effect::CloseSession { node, session, .. } => {
                    let Some(agent) = self.agents.get_mut(&node) else { continue };
                    agent.session = agent.session.filter(|open| *open != session);
                }
                Effect::Reply(_)
                | Effect::NotifyWatchers { .. }
                | Effect::NotifyWorkflow { .. }
                | Effect::NotifyOutbox => {}
            }
        }
    }

    /// The first word of its line in a trace tells what it was; of a lease the last one does.
    fn count(&mut self, event: &Event) {
        let line = event.to_string();
        let mut words = line.split(' ');
        let word =
            words.next().and_then(|first| if first == "lease" { words.next_back() } else { Some(first) });
        self.seen.extend(word.map(String::from));
    }

    async fn command(&mut self, random: &mut Random, reader: &Reader) -> Command {
        if self.state.kind(&KindName::new(KINDS[0])).is_none() {
            return Command::Apply { fleet: Box::new(fleet(random)), validate_only: false };
        }
        match random.below(100) {
            0..26 => self.enqueue(random),
            26..30 => self.of_workflow(random),
            30..75 => self.of_node(random),
            75..85 => self.of_job(random),
            85..90 => sweep(self.now, random, reader).await,
            _ => operate(random),
        }
    }

    fn enqueue(&mut self, random: &mut Random) -> Command {
        let again = self.next_job > 0 && random.chance(10);
        let n = if again { random.below(self.next_job) } else { self.next_job };
        self.next_job += u64::from(!again);
        let key = random.chance(40).then(|| DedupeKey::new(format!("key-{}", random.below(5))));
        let own_needs = random.chance(30).then(|| needs(&[("browser", 1), ("anthropic", 1)]));
        let parent = (self.next_job > 1 && random.chance(50)).then(|| {
            // Of those that run, so that both live at a time.
            let running = self.agents.values().flat_map(|agent| agent.held.values().map(|(job, _)| *job));
            let running: Vec<JobId> = running.collect();
            random.pick(&running).copied().unwrap_or(id(random.below(self.next_job)))
        });
        if let Some(parent) = parent {
            self.children.entry(parent).or_default().insert(id(n));
        }
        Command::Enqueue(Box::new(Enqueue {
            job: id(n),
            producer: Producer::new("local"),
            tenant: None,
            default_tenant: Tenant::new(if random.chance(25) { "other" } else { "default" }),
            kind: kind(random),
            fingerprint: Fingerprint([u8::try_from(n % 251).unwrap(); 32]),
            payload_size: random.below(3) * 10,
            dedupe_key: key,
            concurrency_key: random
                .chance(30)
                .then(|| ConcurrencyKey::new(format!("ck {}", random.below(2)))),
            priority: random.chance(20).then_some(5),
            run_at: None,
            delay: random.chance(20).then(|| Duration::from_millis(random.below(10_000))),
            stale_after: random.chance(20).then(|| Duration::from_millis(random.below(20_000))),
            labels: if random.chance(30) { texts(&[("for", "people \"ä\"")]) } else { texts(&[]) },
            prefer: Preferences::new((n % 7 == 0).then(|| Requirement::has("gpu", true))),
            selector: if random.chance(10) { selector(n) } else { Selector::default() },
            needs: own_needs,
            hard_time_limit: random.chance(10).then(|| Duration::from_secs(60)),
            soft_time_limit: random.chance(10).then(|| Duration::from_secs(30)),
            parent,
            on_parent_cancel: on_parent(random),
            on_parent_lost: on_parent(random),
            lease: None,
            trace: random.chance(20).then(|| {
                let state = random.chance(50).then(|| "rojo=1".into());
                Arc::new(TraceContext { parent: "00-ab-cd-01".into(), state })
            }),
            limits: ProducerLimits::default(),
            prior: Prior::default(),
        }))
    }

    /// A workflow of a chain and a chord comes, is cancelled, or a member of it comes back.
    fn of_workflow(&mut self, random: &mut Random) -> Command {
        let again = self.next_workflow > 0 && random.chance(60);
        let n = if again { random.below(self.next_workflow) } else { self.next_workflow };
        let workflow = WorkflowId(id(1_000_000 + n).0);
        if again {
            return match random.below(4) {
                0 => Command::CancelWorkflow { workflow, reason: None, prior: None },
                _ => Command::RequeueMember(Box::new(RequeueMember {
                    workflow,
                    place: u32::try_from(random.below(5)).unwrap(),
                    prior: None,
                    prior_jobs: Vec::new(),
                })),
            };
        }
        self.next_workflow += 1;
        let policy = *random.pick(&[SynthesisPolicy::All, SynthesisPolicy::AtLeast(1)]).unwrap();
        let deadline = random.chance(40).then(|| Duration::from_millis(random.below(60_000)));
        let rule = Rule { policy, deadline, on_deadline: OnDeadline::Cancel };
        let chord = Part::Chord(Box::new(Chord { members: vec![Part::Job, Part::Job], rule }));
        let shape = Shape::of(Part::Chain(vec![Part::Job, chord, Part::Job])).unwrap();
        let job = |place| Enqueue {
            payload_size: 3,
            ..Enqueue::new(workflow.member(place), kind(random), Tenant::new("ops"))
        };
        Command::SubmitWorkflow(Box::new(Submit {
            id: workflow,
            producer: Producer::new("local"),
            name: None,
            fingerprint: Fingerprint([1; 32]),
            jobs: (0..shape.size()).map(job).collect(),
            shape: Arc::new(shape),
            validate_only: false,
            prior: None,
        }))
    }

    fn of_job(&mut self, random: &mut Random) -> Command {
        let job = id(random.below(self.next_job.max(1)));
        match random.below(6) {
            0 | 1 => {
                Command::Cancel { job, reason: random.chance(50).then(|| "no need".into()), prior: None }
            }
            2 | 3 => Command::Requeue { job, force: random.chance(30), prior: None, key_taken: false },
            4 => Command::Reprioritize { job, priority: 7, prior: None },
            _ => Command::Delete { job, validate_only: false, prior: None },
        }
    }

    fn of_node(&mut self, random: &mut Random) -> Command {
        let node = NodeName::new(*random.pick(&NODES).unwrap());
        let agent = self.agents.get_mut(&node).unwrap();
        let Some(session) = agent.session.filter(|_| !random.chance(2)) else {
            self.next_session += 1;
            return hello(random, node, agent, SessionId(self.next_session));
        };
        if random.chance(2) {
            agent.session = None;
            return Command::SessionClosed { node, session };
        }
        let held: Vec<_> = agent.held.iter().map(|(token, held)| (*token, *held)).collect();
        let seq = agent.next_seq();
        let is_parent = |(_, (job, phase)): &&(_, (JobId, Phase))| {
            let live = |id: &JobId| self.state.job(*id).is_some_and(|job| !job.state.is_final());
            *phase == Phase::Started && self.children.get(job).is_some_and(|all| all.iter().any(live))
        };
        let parent = held.iter().find(is_parent).filter(|_| random.chance(50));
        let picked = parent.or(random.pick(&held));
        let Some(&(token, (job, phase))) = picked.filter(|_| random.chance(70)) else {
            return Command::Heartbeat(Box::new(Heartbeat {
                node,
                session,
                seq,
                seen: agent.applied,
                held: agent.listing(),
                pressure: Pressure::default(),
            }));
        };
        if phase == Phase::Parked && !random.chance(10) {
            return Command::Tick;
        }
        if phase == Phase::Started
            && random.chance(40)
            && let Some(children) = self.children.get(&job)
        {
            agent.held.insert(token, (job, Phase::Parked));
            let wait_epoch = agent.waits.get(&token).map_or(1, |epoch| epoch + 1);
            agent.waits.insert(token, wait_epoch);
            let Detach { children, policy, max_wait, prior, .. } = detach(random, children);
            return Command::BeginWait(Box::new(BeginWait {
                lease: LeaseName { node, job, token },
                wait_epoch,
                children,
                policy,
                max_wait,
                prior,
            }));
        }
        let (mut statement, next) = statement(random, phase);
        if let (Statement::Finished(finish), Some(children)) = (&mut statement, self.children.get(&job))
            && finish.how != FinishedHow::Revoked
            && random.chance(40)
        {
            finish.how = FinishedHow::Detached;
            finish.has_result = random.chance(50);
            finish.detach = Some(Box::new(detach(random, children)));
        }
        match next {
            Some(next) => agent.held.insert(token, (job, next)),
            None => agent.held.remove(&token),
        };
        let seen = agent.applied;
        Command::Report(Box::new(Report {
            node,
            session,
            seq: Some(seq),
            seen,
            job,
            token,
            statement,
            prior: None,
        }))
    }

    /// What memory does not hold travels along.
    async fn look_up(&mut self, command: &mut Command, journal: &mut impl Journal) {
        if let Command::Enqueue(enqueue) = command {
            let Enqueue { kind, dedupe_key, .. } = &**enqueue;
            let tenant = self.state.tenant_of(enqueue);
            let held =
                |key: &DedupeKey| HeldKey { tenant: tenant.clone(), kind: kind.clone(), key: key.clone() };
            let unknown = |key: &&DedupeKey| !self.state.knows_key(tenant, kind, key);
            let keys: Vec<HeldKey> = dedupe_key.iter().filter(unknown).map(held).collect();
            let found = journal.prior(&self.unknown(enqueue.job), &keys).await.unwrap();
            let holds = |job: &&Job| job.dedupe_held && job.dedupe_key == *dedupe_key && dedupe_key.is_some();
            let by_key = found.iter().find(holds).cloned().map(Box::new);
            let by_id = found.into_iter().find(|job| job.id == enqueue.job).map(Box::new);
            enqueue.prior = Prior { by_id, by_key };
        } else if let Command::Cancel { job, prior, .. }
        | Command::Requeue { job, prior, .. }
        | Command::Reprioritize { job, prior, .. }
        | Command::Delete { job, prior, .. }
        | Command::RunCron { job, prior, .. } = command
        {
            *prior = journal.prior(&self.unknown(*job), &[]).await.unwrap().pop().map(Box::new);
            if let Command::Requeue { prior: Some(job), key_taken, .. } = command
                && let Some(key) = job.dedupe_key.clone().filter(|_| !job.dedupe_held)
            {
                let key = HeldKey { tenant: job.tenant.clone(), kind: job.kind.clone(), key };
                *key_taken = !journal.prior(&[], &[key]).await.unwrap().is_empty();
            }
        } else if let Command::SubmitWorkflow(submit) = command {
            submit.prior = self.prior_workflow(submit.id, journal).await;
            for enqueue in &mut submit.jobs {
                let found = journal.prior(&self.unknown(enqueue.job), &[]).await.unwrap();
                enqueue.prior.by_id = found.into_iter().next().map(Box::new);
            }
        } else if let Command::CancelWorkflow { workflow, prior, .. } = command {
            *prior = self.prior_workflow(*workflow, journal).await;
        } else if let Command::RequeueMember(request) = command {
            request.prior = self.prior_workflow(request.workflow, journal).await;
            let known = self.state.workflow(request.workflow).or(request.prior.as_deref());
            let members = known.map(|known| State::members_behind(known, request.place)).unwrap_or_default();
            let unknown: Vec<JobId> = members.into_iter().flat_map(|id| self.unknown(id)).collect();
            request.prior_jobs = journal.prior(&unknown, &[]).await.unwrap();
        } else if let Command::BeginWait(wait) = command {
            let unknown: Vec<JobId> = wait.children.iter().flat_map(|id| self.unknown(*id)).collect();
            wait.prior = journal.prior(&unknown, &[]).await.unwrap();
        } else if let Command::Report(report) = command {
            report.prior = journal.prior(&self.unknown(report.job), &[]).await.unwrap().pop().map(Box::new);
            if let Statement::Finished(Finish { detach: Some(detach), .. }) = &mut report.statement {
                let unknown: Vec<JobId> = detach.children.iter().flat_map(|id| self.unknown(*id)).collect();
                detach.prior = journal.prior(&unknown, &[]).await.unwrap();
            }
        }
    }

    async fn prior_workflow(&self, id: WorkflowId, journal: &mut impl Journal) -> Option<Box<Workflow>> {
        if self.state.knows_workflow(id) {
            return None;
        }
        journal.prior_workflows(&[id]).await.unwrap().pop().map(Box::new)
    }

    fn unknown(&self, job: JobId) -> Vec<JobId> {
        if self.state.knows_job(job) { Vec::new() } else { vec![job] }
    }
}

fn on_parent(random: &mut Random) -> OnParent {
    if random.chance(50) { OnParent::Cancel } else { OnParent::Keep }
}

fn detach(random: &mut Random, children: &BTreeSet<JobId>) -> Detach {
    Detach {
        children: children.iter().rev().copied().collect(),
        policy: match random.below(4) {
            0 => WaitPolicy::Any,
            1 => WaitPolicy::AtLeast(2),
            2 => WaitPolicy::FirstFailure,
            _ => WaitPolicy::All,
        },
        max_wait: random.chance(30).then(|| Duration::from_millis(random.below(20_000))),
        same_node: random.chance(50),
        prior: Vec::new(),
    }
}

/// A fleet file and a node, which go in the turn in which they came.
pub(super) fn come_and_go(random: &mut Random) -> Vec<Command> {
    let (node, session) = (NodeName::new(NODES[0]), SessionId(1));
    let apply = |fleet| Command::Apply { fleet: Box::new(fleet), validate_only: false };
    vec![
        apply(fleet(random)),
        hello(random, node.clone(), &mut Agent::default(), session),
        Command::SessionClosed { node: node.clone(), session },
        Command::Forget { node, lost: true, validate_only: false },
        apply(Fleet::default()),
        Command::Tick,
    ]
}

fn operate(random: &mut Random) -> Command {
    let (kind, node) = (kind(random), NodeName::new(*random.pick(&NODES).unwrap()));
    let slot = SlotName::new(*random.pick(&["anthropic", "browser", "shell"]).unwrap());
    match random.below(12) {
        0 => Command::Apply { fleet: Box::new(fleet(random)), validate_only: random.chance(20) },
        1 => Command::PauseKind { kind, policy: PausePolicy::Hold },
        2 | 3 => Command::ResumeKind { kind },
        4 => Command::PauseSlot { slot, duration: random.chance(80).then(|| Duration::from_secs(3)) },
        5 | 6 => Command::ResumeSlot { slot },
        7 => Command::SetCapacity { slot, capacity: u32::try_from(random.below(5)).unwrap() },
        8 => Command::Cordon { node },
        9 => Command::Uncordon { node },
        10 => Command::Drain { node, deadline: Duration::from_secs(5) },
        _ => Command::Forget { node, lost: random.chance(50), validate_only: false },
    }
}

/// What a retention sweep finds; the kinds here keep their jobs for half a minute.
async fn sweep(now: Now, random: &mut Random, reader: &Reader) -> Command {
    let ago = |seconds: i64| Wall(now.wall.0 - seconds * 1_000_000);
    let cutoffs = [KindCutoff { kind: kind(random), finished_until: ago(30) }];
    let jobs = reader.due_jobs(&cutoffs, ago(120), 500).await.unwrap();
    let results = reader.due_results(now.wall, 500).await.unwrap();
    let workflows = reader.due_workflows(500).await.unwrap();
    Command::Sweep { jobs, results, workflows }
}

fn fleet(random: &mut Random) -> Fleet {
    let policy = |random: &mut Random, amounts: &[(&'static str, u32)]| KindPolicy {
        needs: needs(amounts),
        lease: Duration::from_secs(10 + random.below(20)),
        max_failures: 2,
        max_losses: 2,
        retry: RetryPolicy::Intervals(vec![Duration::from_secs(1), Duration::from_secs(5)]),
        queue_cap: random.chance(30).then_some(8),
        budget: random.chance(30).then(|| Budget {
            allowances: [(CounterName::new("tokens"), Allowance { amount: 100, window: Window::Hour })]
                .into(),
            on_exhausted: OnExhausted::Refuse,
        }),
        max_running: random.chance(30).then_some(2),
        concurrency: random.chance(60).then(|| Concurrency { key: "account".into(), limit: 1 }),
        fifo: random.chance(20),
        stale_after: random.chance(20).then(|| Duration::from_secs(30)),
        dedupe: if random.chance(50) { DedupePolicy::Live } else { DedupePolicy::Retained },
        result_ttl: Duration::from_secs(20),
        keep_on_wait: if random.chance(30) { [SlotName::new("browser")].into() } else { [].into() },
        reacquire_timeout: Duration::from_secs(3),
        ..KindPolicy::default()
    };
    let kinds = [
        (KINDS[0], policy(random, &[("browser", 1)])),
        (KINDS[1], policy(random, &[("anthropic", 1)])),
        (KINDS[2], policy(random, &[("shell", 1), ("anthropic", 1)])),
    ];
    let capacity = u32::try_from(2 + random.below(3)).unwrap();
    let rate = RateLimit { tokens: 30, per: Duration::from_secs(60), burst: 2 };
    let rates = random.chance(30).then(|| (SlotName::new("anthropic"), rate));
    Fleet {
        rates: rates.into_iter().collect(),
        slots: [("anthropic", Scope::Fleet { capacity }), ("browser", Scope::Node), ("shell", Scope::Node)]
            .map(|(slot, scope)| (SlotName::new(slot), scope))
            .into(),
        kinds: kinds.map(|(kind, policy)| (KindName::new(kind), policy)).into(),
        tenants: random
            .chance(50)
            .then(|| (Tenant::new("other"), TenantPolicy { weight: capacity }))
            .into_iter()
            .collect(),
        crons: super::crons::declared(u64::from(capacity), KINDS),
        webhooks: super::webhooks::declared(u64::from(capacity), KINDS),
        webhooks_stay: false,
    }
}

fn kind(random: &mut Random) -> KindName {
    KindName::new(*random.pick(&KINDS).unwrap())
}

/// What the `n`th job asks of labels.
fn selector(n: u64) -> Selector {
    Selector::new([match n % 5 {
        0 => Requirement::equals("os", "linux"),
        1 => Requirement::one_of("os", ["macos", "linux"]),
        2 => Requirement::none_of("zone", ["\"attic\", north"]),
        3 => Requirement::has("gpu", false),
        _ => Requirement::has("os", true),
    }])
}

//! A world around the scheduler: the driver's turn, a store, agents, two clocks. After every command it asserts the
//! invariants; after every tick it asks the oracle; after every turn it compares memory, rows and a reload. How often it
//! does what costs most is the matter of its [`Closeness`].

use std::{collections::BTreeMap, time::Duration};

use tenure_scheduler::{
    Applied, Command, Durable, Effect, Enqueue, Epoch, Event, FencingToken, Finish, JobId, JobState,
    KindName, Limits, Message, Mono, NodeName, Now, Refusal, Reply, SessionId, State, Statement, Wall,
    Workflow, WorkflowId,
};

use super::{agent::Agent, closeness::Closeness, oracle::Oracle, pace::Pace, store::Store};

/// Noon of 2026-09-30, UTC.
pub(crate) const BEGIN: i64 = 1_790_769_600_000_000;

/// See the module.
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) store: Store,
    pub(crate) oracle: Oracle,
    /// What was granted of slots with a rate, over all leaders.
    pub(crate) pace: Pace,
    pub(crate) agents: BTreeMap<NodeName, Agent>,
    pub(crate) limits: Limits,
    /// Microseconds since the world began. No leader sees it.
    pub(crate) clock: u64,
    /// When this leader began.
    began: u64,
    /// How far the wall clock was stepped.
    step: i64,
    /// It was stepped at some time: lengths of the wall clock are not those that passed.
    stepped: bool,
    pub(crate) sessions: u64,
    /// Slow checks: a refusal left no trace, a twin says the same.
    pub(crate) paranoid: bool,
    pub(crate) closeness: Closeness,
    /// What the rows will be once this turn is committed.
    rows: Durable,
    /// Several commands make one turn: nothing is committed until this is off again.
    pub(crate) batch: bool,
    /// The newest token of each job ever granted: they only grow.
    newest: BTreeMap<JobId, FencingToken>,
    /// Effects of this turn, not released.
    pending: Vec<Effect>,
    /// Effects released by the last commits, until somebody takes them.
    pub(crate) released: Vec<Effect>,
}

impl World {
    pub(crate) fn new(limits: Limits) -> Self {
        let now = Now { mono: Mono(0), wall: Wall(BEGIN) };
        Self {
            state: State::load(Epoch(1), limits.clone(), Durable::default(), now),
            store: Store::default(),
            oracle: Oracle::default(),
            pace: Pace::default(),
            agents: BTreeMap::new(),
            limits,
            clock: 0,
            began: 0,
            step: 0,
            stepped: false,
            sessions: 0,
            paranoid: true,
            closeness: Closeness::default(),
            rows: Durable::default(),
            batch: false,
            newest: BTreeMap::new(),
            pending: Vec::new(),
            released: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Now {
        let wall = BEGIN + i64::try_from(self.clock).unwrap() + self.step;
        Now { mono: Mono(self.clock - self.began), wall: Wall(wall) }
    }

    /// Somebody sets the wall clock.
    pub(crate) fn step_wall(&mut self, micros: i64) {
        self.step += micros;
        self.stepped = true;
    }

    /// Applies one command of the present turn.
    pub(crate) fn apply(&mut self, command: Command) -> Result<Applied, Refusal> {
        let command = self.resolve(command);
        let now = self.now();
        let (is_tick, replies) = (matches!(command, Command::Tick), expected_replies(&command));
        let closely = self.closeness.begin();
        let before = (self.paranoid && closely).then(|| self.state.clone());
        let result = self.state.apply(now, command.clone());
        if let Some(mut twin) = before {
            if result.is_err() {
                let same = format!("{twin:?}") == format!("{:?}", self.state);
                assert!(same, "a refusal left a trace: {command:?}");
            }
            assert_eq!(twin.apply(now, command.clone()), result, "the same command, another result");
        }
        if closely {
            let broken = self.state.check_invariants();
            assert!(broken.is_empty(), "{broken:#?}\nafter {command:?}");
            let differs = self.state.check_index(now);
            assert!(differs.is_empty(), "{differs:#?}\nafter {command:?}");
        }
        if let Err(refusal @ Refusal::QueueFull { .. }) = &result {
            assert!(
                refusal.retry_after() > Some(Duration::ZERO),
                "waiting helps, but for how long? {refusal}"
            );
        }
        let applied = result?;
        let answered = applied.effects.iter().filter(|effect| matches!(effect, Effect::Reply(_))).count();
        assert_eq!(answered, replies, "replies to {command:?}");
        let durable = applied.events.iter().any(Event::is_durable);
        let mut found = None;
        if durable || closely {
            let rows = self.state.durable();
            assert!(durable || rows == self.rows, "rows changed, and no event says so, after {command:?}");
            found = Some(std::mem::replace(&mut self.rows, rows));
        }
        let found = found.as_ref().unwrap_or(&self.rows);
        self.oracle.observe(now, &applied.events, found, &self.rows);
        self.pace.observe(self.clock, &applied.events);
        for event in &applied.events {
            if let Event::WorkflowEnded { workflow, .. } = event {
                let ended = self.state.workflow(*workflow).expect("it is there until the commit");
                // One that ended and came back within one command is none any more.
                let wrong = ended.state.is_final() && super::oracle::ended_wrong(ended);
                assert!(!wrong, "a workflow ended otherwise than its members: {ended:?}");
            }
            if let Event::Granted { lease, .. } = event {
                let older = self.newest.insert(lease.job, lease.token);
                assert!(older.is_none_or(|older| older < lease.token), "a token does not grow: {lease:?}");
            }
        }
        if is_tick {
            self.oracle.in_order(now, &applied.events, &self.rows);
            if closely && !applied.more {
                self.at_rest(now);
            }
        }
        self.pending.extend(applied.effects.iter().cloned());
        Ok(applied)
    }

    /// Nothing is left to do.
    fn at_rest(&self, now: Now) {
        if let Some((job, node)) = self.oracle.lost_wake_up(now, &self.rows) {
            let said = self.state.explain(now, job);
            panic!("a lost wake-up: {job} is queued and fits on {node}; explained: {said:#?}");
        }
        self.oracle.at_rest_with_children(&self.rows);
        self.oracle.at_rest_with_workflows(now, &self.rows);
        self.everyone_says_why(&self.rows);
        self.explanations_agree(&self.rows);
    }

    /// A stored job that does not run says why: a reason that holds, and no more time than it has been there.
    fn everyone_says_why(&self, rows: &Durable) {
        let now = self.now();
        let waits = |state: &JobState| state.is_waiting() || matches!(state, JobState::Waiting { .. });
        for (id, job) in rows.jobs.iter().filter(|(_, job)| waits(&job.state)) {
            let view = self.state.live_view(now, *id).and_then(|view| view.deferral);
            let view = view.unwrap_or_else(|| panic!("{id} waits and does not say why"));
            let in_line = view.reason.name() == "behind" && rows.kinds[&job.kind].policy.fifo;
            let looked_at = in_line || !matches!(view.reason.name(), "ready" | "behind");
            assert!(looked_at, "{id} was not looked at: {view:?}");
            let untried = view.history.iter().find(|wait| wait.count == 0);
            assert!(untried.is_none(), "{id} waited for what was never tried: {view:?}");
            let waited: Duration = view.history.iter().map(|wait| wait.duration).sum();
            let age = now.wall.since(job.created_at);
            assert!(self.stepped || waited <= age, "{id} waited {waited:?} and is {age:?} old: {view:#?}");
            assert!(self.stepped || view.since <= now.wall, "{id} waits since later than now: {view:?}");
        }
    }

    /// What is explained is what the rows say: of one job, each in turn.
    fn explanations_agree(&self, rows: &Durable) {
        let now = self.now();
        let waiting: Vec<_> = rows.jobs.values().filter(|job| job.state.is_waiting()).collect();
        let chosen = usize::try_from(self.clock / 1000 % 1009).unwrap_or(0);
        let Some(job) = waiting.get(chosen % waiting.len().max(1)) else { return };
        let explained = super::explained::explanation(self, job.id).expect("it is live");
        let shown = self.state.live_view(now, job.id).and_then(|view| view.deferral);
        assert_eq!(explained.deferral, shown, "{}", job.id);
        let unstepped = (!self.stepped).then_some(now.wall);
        self.oracle.agrees(unstepped, rows, job, &explained);
    }

    /// What memory cannot know is looked up, as the driver does.
    fn resolve(&self, command: Command) -> Command {
        let prior = |id: JobId| if self.state.knows_job(id) { None } else { self.store.job(id) };
        match command {
            Command::Enqueue(enqueue) => {
                let tenant = self.state.tenant_of(&enqueue);
                let key = enqueue.dedupe_key.clone().map(|key| (tenant.clone(), enqueue.kind.clone(), key));
                let key = key.filter(|(tenant, kind, key)| !self.state.knows_key(tenant, kind, key));
                let mut prior = self.store.prior(enqueue.job, key);
                prior.by_id = prior.by_id.filter(|_| !self.state.knows_job(enqueue.job));
                Command::Enqueue(Box::new(Enqueue { prior, ..*enqueue }))
            }
            Command::Cancel { job, reason, .. } => Command::Cancel { job, reason, prior: prior(job) },
            Command::Requeue { job, force, .. } => {
                let prior = prior(job);
                let key = prior
                    .as_ref()
                    .filter(|job| !job.dedupe_held)
                    .and_then(|job| Some((job.tenant.clone(), job.kind.clone(), job.dedupe_key.clone()?)));
                let key = key.filter(|(tenant, kind, key)| !self.state.knows_key(tenant, kind, key));
                let key_taken = key.is_some_and(|key| self.store.prior(job, Some(key)).by_key.is_some());
                Command::Requeue { job, force, prior, key_taken }
            }
            Command::Reprioritize { job, priority, .. } => {
                Command::Reprioritize { job, priority, prior: prior(job) }
            }
            Command::Delete { job, validate_only, .. } => {
                Command::Delete { job, validate_only, prior: prior(job) }
            }
            Command::Report(mut report) => {
                report.prior = prior(report.job);
                if let Statement::Finished(Finish { detach: Some(detach), .. }) = &mut report.statement {
                    let unknown = detach.children.iter().filter_map(|id| prior(*id));
                    detach.prior = unknown.map(|job| *job).collect();
                }
                Command::Report(report)
            }
            Command::BeginWait(mut wait) => {
                wait.prior = wait.children.iter().filter_map(|id| prior(*id)).map(|job| *job).collect();
                Command::BeginWait(wait)
            }
            Command::SubmitWorkflow(mut submit) => {
                submit.prior = self.prior_workflow(submit.id);
                for enqueue in &mut submit.jobs {
                    enqueue.prior.by_id = prior(enqueue.job);
                }
                Command::SubmitWorkflow(submit)
            }
            Command::CancelWorkflow { workflow, reason, .. } => {
                Command::CancelWorkflow { workflow, reason, prior: self.prior_workflow(workflow) }
            }
            Command::RequeueMember(mut request) => {
                request.prior = self.prior_workflow(request.workflow);
                let known = request.prior.as_deref().or(self.state.workflow(request.workflow));
                let members = known.map(|known| State::members_behind(known, request.place));
                request.prior_jobs =
                    members.into_iter().flatten().filter_map(prior).map(|job| *job).collect();
                Command::RequeueMember(request)
            }
            other @ (Command::Apply { .. }
            | Command::SettleDeliveries { .. }
            | Command::Redeliver { .. }
            | Command::TestWebhook { .. }
            | Command::ResumeWebhook { .. }
            | Command::PauseKind { .. }
            | Command::ResumeKind { .. }
            | Command::PauseSlot { .. }
            | Command::ResumeSlot { .. }
            | Command::SetCapacity { .. }
            | Command::Cordon { .. }
            | Command::Uncordon { .. }
            | Command::Drain { .. }
            | Command::Forget { .. }
            | Command::Hello(_)
            | Command::Heartbeat(_)
            | Command::NodeDraining { .. }
            | Command::SessionClosed { .. }
            | Command::SessionBlocked { .. }
            | Command::Sweep { .. }
            | Command::SetAside { .. }
            | Command::SetAsideCron { .. }
            | Command::PlanCron(_)
            | Command::PauseCron { .. }
            | Command::ResumeCron { .. }
            | Command::Tick) => other,
            Command::RunCron { entry, job, .. } => Command::RunCron { entry, job, prior: prior(job) },
        }
    }

    fn prior_workflow(&self, id: WorkflowId) -> Option<Box<Workflow>> {
        if self.state.knows_workflow(id) { None } else { self.store.workflow(id).map(Box::new) }
    }

    /// Ends the turn: commit, compare, release.
    pub(crate) fn commit(&mut self) {
        self.pace.commit();
        let changes = self.state.take_changes();
        let nothing = changes.is_empty();
        self.store.commit(changes);
        self.state.committed();
        assert!(self.state.take_changes().is_empty(), "a change is taken twice");
        if self.closeness.end() && !nothing {
            let rows = Durable { classes: BTreeMap::new(), ..self.store.load() };
            let durable = self.state.durable();
            assert_eq!(durable, rows, "the rows differ from what was lived through");
            let mut again =
                State::load(Epoch(self.state.epoch().0 + 1), self.limits.clone(), rows, self.now());
            assert_eq!(again.durable(), durable, "a reload differs from what was lived through");
            assert!(again.check_invariants().is_empty(), "{:#?}", again.check_invariants());
            let differs = again.check_index(self.now());
            assert!(differs.is_empty(), "{differs:#?}");
            assert!(again.take_changes().is_empty(), "a reload changes rows");
        }
        for effect in std::mem::take(&mut self.pending) {
            self.release(&effect);
            self.released.push(effect);
        }
    }

    fn release(&mut self, effect: &Effect) {
        match effect {
            Effect::Send { node, session, ordinal, applied, message } => {
                if let Some(agent) = self.agents.get_mut(node) {
                    agent.read(*session, *ordinal, *applied, message);
                }
            }
            Effect::CloseSession { node, session, .. } => {
                if let Some(agent) = self.agents.get_mut(node).filter(|agent| agent.session == Some(*session))
                {
                    agent.session = None;
                }
            }
            Effect::Reply(_)
            | Effect::NotifyWatchers { .. }
            | Effect::NotifyWorkflow { .. }
            | Effect::NotifyOutbox => {}
        }
    }

    /// A turn of one command.
    pub(crate) fn turn(&mut self, command: Command) -> Result<Applied, Refusal> {
        let result = self.apply(command);
        if !self.batch {
            self.commit();
        }
        result
    }

    /// Ticks until nothing is left to do.
    pub(crate) fn tick(&mut self) -> Vec<Applied> {
        let mut all = Vec::new();
        loop {
            self.plan_crons();
            let applied = self.turn(Command::Tick).expect("a tick is never refused");
            let more = applied.more || self.state.unplanned_crons(1).next().is_some();
            all.push(applied);
            if !more {
                return all;
            }
            assert!(all.len() < 10_000, "a tick never comes to rest");
        }
    }

    /// Says how the timetables go on of which more has to be known, as the driver does.
    fn plan_crons(&mut self) {
        let now = self.now().wall;
        let plans: Vec<_> =
            self.state.unplanned_crons(64).map(|entry| super::crons::plan(entry, now)).collect();
        for plan in plans {
            self.turn(Command::PlanCron(Box::new(plan))).expect("a plan is never refused");
        }
    }

    /// The leader is gone, with what it had not committed; another one loads what the store holds.
    pub(crate) fn reload(&mut self) {
        self.pending.clear();
        let epoch = Epoch(self.state.epoch().0 + 1);
        self.began = self.clock;
        self.state = State::load(epoch, self.limits.clone(), self.store.load(), self.now());
        assert_eq!(self.state.durable().jobs, self.store.load().jobs);
        self.rows = self.state.durable();
        self.oracle = Oracle::found(self.now(), &self.store.load());
        self.closeness.look_next();
        self.pace.reload(self.stepped);
        for agent in self.agents.values_mut() {
            agent.session = None;
        }
    }

    /// A node begins a session.
    pub(crate) fn hello(&mut self, name: &NodeName) -> Result<Applied, Refusal> {
        let session = self.next_session();
        let clock = self.clock;
        let agent = self.agents.get_mut(name).unwrap();
        agent.next_beat = clock + 5_000_000;
        let before = (agent.session, agent.seq, agent.seen);
        let command = agent.hello(session, clock);
        let result = self.turn(command);
        if result.is_err() {
            let agent = self.agents.get_mut(name).unwrap();
            (agent.session, agent.seq, agent.seen) = before;
        }
        self.set_beat(name);
        result
    }

    pub(crate) fn next_session(&mut self) -> SessionId {
        self.sessions += 1;
        SessionId(self.sessions)
    }

    fn set_beat(&mut self, name: &NodeName) {
        let clock = self.clock;
        if let Some(agent) = self.agents.get_mut(name) {
            agent.next_beat = clock + u64::try_from(agent.interval.as_micros()).unwrap();
        }
    }

    /// A heartbeat of a node by its present session.
    pub(crate) fn beat(&mut self, name: &NodeName) -> Result<Applied, Refusal> {
        let clock = self.clock;
        let command = self.agents.get_mut(name).unwrap().beat(clock);
        let result = self.turn(command);
        self.set_beat(name);
        result
    }

    /// Time passes. The driver wakes at every deadline; steady agents send heartbeats. `saw` hears every turn.
    pub(crate) fn advance(&mut self, length: Duration, mut saw: impl FnMut(&Self, &Applied)) {
        let target = self.clock + u64::try_from(length.as_micros()).unwrap();
        for _ in 0..1_000_000 {
            let due = self.state.next_deadline(self.now()).map(|mono| mono.0.saturating_add(self.began));
            let beating = |agent: &&Agent| agent.steady && agent.session.is_some();
            let beat =
                self.agents.values().filter(beating).map(|agent| (agent.next_beat, agent.name.clone())).min();
            let next = due.into_iter().chain(beat.as_ref().map(|(at, _)| *at)).min().unwrap_or(target);
            self.clock = next.clamp(self.clock, target);
            if let Some((at, name)) = beat.filter(|(at, _)| *at <= self.clock) {
                self.clock = self.clock.max(at);
                if let Ok(applied) = self.beat(&name) {
                    saw(self, &applied);
                }
            }
            for applied in self.tick() {
                saw(self, &applied);
            }
            let due = self.state.next_deadline(self.now()).map(|mono| mono.0.saturating_add(self.began));
            if self.clock == target && due.is_none_or(|due| due > target) {
                let beating = |agent: &&Agent| agent.steady && agent.session.is_some();
                if self.agents.values().filter(beating).all(|agent| agent.next_beat > target) {
                    return;
                }
            }
        }
        panic!("time does not pass");
    }

    /// Takes the messages that were released since somebody last looked.
    pub(crate) fn take_released(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.released)
    }

    /// The messages among them that say something else than that all is well.
    pub(crate) fn messages(effects: &[Effect]) -> impl Iterator<Item = (&NodeName, &Message)> {
        effects.iter().filter_map(|effect| match effect {
            Effect::Send { node, message, .. } => Some((node, message)),
            Effect::CloseSession { .. }
            | Effect::Reply(_)
            | Effect::NotifyWatchers { .. }
            | Effect::NotifyWorkflow { .. }
            | Effect::NotifyOutbox => None,
        })
    }

    /// The answer to the last command of a producer or operator.
    pub(crate) fn reply(effects: &[Effect]) -> Option<&Reply> {
        effects.iter().find_map(|effect| match effect {
            Effect::Reply(reply) => Some(reply),
            Effect::CloseSession { .. }
            | Effect::Send { .. }
            | Effect::NotifyWatchers { .. }
            | Effect::NotifyWorkflow { .. }
            | Effect::NotifyOutbox => None,
        })
    }

    /// Of every slot of the fleet and of every node: its units free, and its units in all.
    pub(crate) fn free_units(&self) -> Vec<(String, u32, u32)> {
        let snapshot = self.state.snapshot(self.now());
        let fleet = snapshot.slots.iter().map(|view| (view.slot.name.to_string(), view.count));
        let nodes = snapshot.nodes.iter().flat_map(|view| {
            view.slots.iter().map(|(slot, count)| (format!("{slot} of {}", view.node.name), *count))
        });
        fleet.chain(nodes).map(|(name, count)| (name, count.free(), count.capacity)).collect()
    }

    pub(crate) fn health(&self, kind: &str) -> tenure_scheduler::KindHealth {
        let kind = KindName::new(kind);
        let snapshot = self.state.snapshot(self.now());
        snapshot.health.into_iter().find(|health| health.kind == kind).expect("a declared kind")
    }
}

/// Exactly one to each command of a producer or operator.
fn expected_replies(command: &Command) -> usize {
    match command {
        Command::Apply { .. }
        | Command::Enqueue(_)
        | Command::Cancel { .. }
        | Command::Requeue { .. }
        | Command::Reprioritize { .. }
        | Command::Delete { .. }
        | Command::PauseKind { .. }
        | Command::ResumeKind { .. }
        | Command::PauseSlot { .. }
        | Command::ResumeSlot { .. }
        | Command::SetCapacity { .. }
        | Command::Cordon { .. }
        | Command::Uncordon { .. }
        | Command::Drain { .. }
        | Command::Forget { .. }
        | Command::BeginWait(_)
        | Command::PauseCron { .. }
        | Command::ResumeCron { .. }
        | Command::RunCron { .. }
        | Command::SubmitWorkflow(_)
        | Command::CancelWorkflow { .. }
        | Command::RequeueMember(_)
        | Command::SettleDeliveries { .. }
        | Command::Redeliver { .. }
        | Command::TestWebhook { .. }
        | Command::ResumeWebhook { .. }
        | Command::Sweep { .. } => 1,
        Command::Hello(_)
        | Command::Heartbeat(_)
        | Command::Report(_)
        | Command::NodeDraining { .. }
        | Command::SessionClosed { .. }
        | Command::SessionBlocked { .. }
        | Command::SetAside { .. }
        | Command::SetAsideCron { .. }
        | Command::PlanCron(_)
        | Command::Tick => 0,
    }
}

//! The script language: one command a line, names instead of ids, the trace as text. Each line is a turn of its own
//! (apply, commit, release) but between `begin` and `commit`; only `tick` and `advance` place.
//!
//! | line | does |
//! |---|---|
//! | `slot S N [rate=50/min burst=10]`, `slot S node`, `kind K key=value…`, `tenant T weight=2`, `drop kind K` (`slot S`, `tenant T`) | changes the fleet file and applies it |
//! | `node N slots=s:1 labels=k:v host=os:linux kinds=a,b credits=1` | a new agent says Hello; without `kinds` it runs all declared |
//! | `hello N [inc=2] [boot=b] [instance=i] [stream=1]`, `beat N [seen=1]`, `close N`, `leaving N` | its stream |
//! | `mute N`, `steady N`, `deaf N`, `hearing N`, `forget-held N` | what the agent does by itself; muted: no heartbeats |
//! | `press N close=*:rule:5:3 caps=s:1 gen=2 weight=2` | its pressure reading, sent at once |
//! | `enqueue J kind=K …`, `cancel J`, `requeue J [force]`, `priority J 5`, `delete J`, `sweep J…`, `aside J` | producers |
//! | `detach J children=a,b policy=any max_wait=1m same state` | a report: it ended in order to wait for children |
//! | `park J children=a,b policy=any max_wait=1m [epoch=2]` | its process stays and waits |
//! | `workflow W chain(a,b,chord(c,d)e:at_least:2:deadline:30s:leave) kind=k`, `cancel-workflow W`, `requeue-member J` | workflows, of jobs with these names |
//! | `flow W`, `inputs J` | says how a workflow stands, and what a member of it is handed |
//! | `accepted J`, `started J [elapsed=3s]`, `run J`, `finish J ok…`, `reaped J`, `return J rule=r`, `done J` | reports |
//! | `pause …`, `resume …`, `capacity S N`, `cordon N`, `uncordon N`, `drain N 5m`, `forget N [lost]` | operators |
//! | `spool J ok` | its agent has the report on disk and could not send it |
//! | `tick`, `turn`, `advance 5s`, `wall +1h`, `reload`, `limits key=value…`, `begin`, `commit`, `lose` | the clock and the driver |
//! | `job J`, `why J`, `explain J`, `groups J`, `health K`, `show X`, `hide X` | says something |
//!
//! Cron entries have lines of their own: see `crons.rs`.
//!
//! A selector, or a list of what is preferred (`prefer=`), is `a:x`, `a:x|y`, `a:!x|y`, `a` (has it) and `!a`, with commas between.
//! Reports take `token=1.2`, `node=N` and `via=7` (a session) to be absurd. A grant is read by its agent at once.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use expect_test::Expect;
use tenure_scheduler::{
    Applied, Command, Concurrency, CronName, DueResult, Event, FencingToken, Fleet, Host, JobId, KindName,
    KindPolicy, Limits, NodeName, PausePolicy, Phase, Placement, Preferences, Refusal, Reply, RetryPolicy,
    Scope, SessionId, SlotName, Tenant, TenantPolicy, WebhookName,
};
use uuid::Uuid;

use super::{
    agent::Agent,
    words::{Line, duration},
    world::World,
};

/// Runs a script and compares its trace.
pub(crate) fn check(script: &str, expected: Expect) {
    let mut run = Script::new();
    run.lines(script);
    expected.assert_eq(&run.trace);
}

/// A script on its way.
pub(crate) struct Script {
    pub(crate) world: World,
    pub(crate) trace: String,
    fleet: Fleet,
    pub(super) names: BTreeMap<String, JobId>,
    pub(super) ids: BTreeMap<JobId, String>,
    /// The newest grant of each job: token and node.
    grants: BTreeMap<JobId, (FencingToken, NodeName)>,
    classes: BTreeMap<String, String>,
    /// What is shown beside the usual: renewals, messages, phases.
    shown: Vec<String>,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self {
            // Nearly every job is packed between two turns.
            world: World::new(Limits { whole_jobs: 2, ..Limits::default() }),
            trace: String::new(),
            fleet: Fleet::default(),
            names: BTreeMap::new(),
            ids: BTreeMap::new(),
            grants: BTreeMap::new(),
            classes: BTreeMap::new(),
            shown: Vec::new(),
        }
    }

    pub(crate) fn lines(&mut self, script: &str) {
        for text in script.lines() {
            if let Some(line) = Line::parse(text) {
                self.line(&line);
            }
        }
    }

    /// A job by its name. The same name is the same id in every script.
    pub(crate) fn id(&mut self, name: &str) -> JobId {
        let next =
            JobId(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + self.names.len() as u128 + 1));
        let id = *self.names.entry(name.to_owned()).or_insert(next);
        self.ids.insert(id, name.to_owned());
        id
    }

    pub(crate) fn say(&mut self, text: &str) {
        let text = self.with_names(text);
        let at = Duration::from_micros(self.world.clock);
        if at.is_zero() {
            writeln!(self.trace, "{text}").unwrap();
        } else {
            writeln!(self.trace, "{at:?}: {text}").unwrap();
        }
    }

    /// Ids become names.
    fn with_names(&self, text: &str) -> String {
        let mut words = text.split(' ').map(|word| {
            let bare = word.trim_end_matches([':', ',']);
            let name = bare.parse().ok().and_then(|id: JobId| self.ids.get(&id));
            name.map_or(word.to_owned(), |name| word.replace(bare, name))
        });
        let first = words.next().unwrap_or_default();
        words.fold(first, |text, word| text + " " + &word)
    }

    fn line(&mut self, line: &Line) {
        match line.verb.as_str() {
            "slot" | "kind" | "tenant" | "cron" | "webhook" | "drop" => self.fleet_line(line),
            "node" => self.node_line(line),
            "hello" => self.hello_line(line),
            "beat" => self.beat_line(line),
            "mute" => self.agent(line).steady = false,
            "steady" => self.agent(line).steady = true,
            "deaf" => self.agent(line).deaf = true,
            "hearing" => self.agent(line).deaf = false,
            "forget-held" => self.agent(line).drop_held(),
            "close" | "leaving" | "block" | "unblock" => self.session_line(line),
            "press" => self.press_line(line),
            "enqueue" => {
                let command = self.enqueue_command(line);
                self.run_named(line.name(0), command);
            }
            "detach" | "accepted" | "started" | "run" | "finish" | "reaped" | "return" | "done"
            | "progress" | "checkpoint" => {
                self.report_line(line);
            }
            "park" => self.park_line(line),
            "tried" | "redeliver" | "test" | "back" => {
                let name = line.names.first().cloned().unwrap_or_else(|| "nothing".to_owned());
                self.run_named(&name, super::webhooks::command(line));
            }
            "due" | "webhooks" => {
                let (state, now) = (&self.world.state, self.world.now().wall);
                let text = match line.verb.as_str() {
                    "due" => super::webhooks::due(state, now, line),
                    _ => super::webhooks::text(state, now),
                };
                text.lines().for_each(|line| self.say(line));
            }
            "fire" | "cron?" => self.cron_line(line),
            "workflow" | "cancel-workflow" | "requeue-member" | "flow" | "inputs" => self.flow_line(line),
            "cancel" | "requeue" | "priority" | "delete" | "sweep" | "aside" => self.job_line(line),
            "pause" | "resume" | "capacity" | "cordon" | "uncordon" | "drain" | "forget" => {
                self.operator_line(line);
            }
            "tick" => {
                for applied in self.world.tick() {
                    self.events(&applied);
                }
                self.messages();
            }
            // One turn of it, whatever it leaves to the next ones.
            "turn" => {
                if let Ok(applied) = self.world.turn(Command::Tick) {
                    self.events(&applied);
                }
                self.messages();
            }
            "advance" => self.advance(duration(line.name(0))),
            "wall" => self.step_wall(line.name(0)),
            "reload" => self.world.reload(),
            "limits" => self.limits_line(line),
            "begin" => self.world.batch = true,
            "commit" => {
                self.world.batch = false;
                self.world.commit();
                self.messages();
            }
            "lose" => {
                self.world.batch = false;
                self.world.reload();
            }
            "spool" => self.spool_line(line),
            "job" | "why" | "explain" | "groups" | "health" | "attempts" => self.say_line(line),
            "show" => self.shown.push(line.name(0).to_owned()),
            "hide" => self.shown.retain(|word| word != line.name(0)),
            other => panic!("no such line: {other}"),
        }
    }

    /// Whether a job was ever granted: its reports have a token to name.
    pub(crate) fn is_granted(&mut self, name: &str) -> bool {
        let job = self.id(name);
        self.grants.contains_key(&job)
    }

    /// Runs a command; its refusal is told under the name of what it is about.
    pub(crate) fn run_named(&mut self, name: &str, command: Command) {
        let result = self.world.apply(command);
        self.finish_line(name, result);
    }

    pub(crate) fn finish_line(&mut self, name: &str, result: Result<Applied, Refusal>) {
        match result {
            Ok(applied) => {
                self.events(&applied);
                if let Some(text) = World::reply(&applied.effects).and_then(super::trace::reply) {
                    self.say(&format!("{name} {text}"));
                }
            }
            Err(refusal) => {
                let text = super::trace::refusal(&refusal);
                self.say(&format!("refused {name} {text}"));
            }
        }
        if !self.world.batch {
            self.world.commit();
            self.messages();
        }
    }

    pub(crate) fn events(&mut self, applied: &Applied) {
        for event in &applied.events {
            self.learn(event);
            if let Some(text) = super::trace::event(event, &self.classes, &self.shown, self.world.now()) {
                self.say(&text);
            }
        }
    }

    /// Who holds what, and what a class is.
    fn learn(&mut self, event: &Event) {
        if let Event::Granted { lease, .. } = event {
            self.grants.insert(lease.job, (lease.token, lease.node.clone()));
        }
        if let Event::CronFired { entry, job, instant: Some(_) } = event {
            let known = self.ids.values().filter(|name| name.starts_with(&format!("{entry}."))).count();
            let name = format!("{entry}.{}", known + 1);
            self.names.insert(name.clone(), *job);
            self.ids.insert(*job, name);
        }
        if let Event::Deferred { class, job, .. } | Event::Masked { class, job, .. } = event {
            let kind = self.world.state.job(*job).map(|job| job.kind.to_string());
            self.classes.insert(class.to_string(), kind.unwrap_or_default());
        }
    }

    /// The messages that left since the last line, if they are shown.
    pub(crate) fn messages(&mut self) {
        let effects = self.world.take_released();
        for effect in &effects {
            if let Some(text) = super::trace::effect(effect, &self.shown) {
                self.say(&text);
            }
        }
    }

    fn advance(&mut self, length: Duration) {
        let mut seen = Vec::new();
        let start = self.world.clock;
        self.world.advance(length, |world, applied| seen.push((world.clock, applied.clone())));
        let end = std::mem::replace(&mut self.world.clock, start);
        for (at, applied) in seen {
            self.world.clock = at;
            self.events(&applied);
            for effect in &applied.effects {
                if let Some(text) = super::trace::effect(effect, &self.shown) {
                    self.say(&text);
                }
            }
        }
        self.world.clock = end;
        self.world.take_released();
    }

    fn step_wall(&mut self, text: &str) {
        let (sign, length) = text.split_at(1);
        let micros = i64::try_from(duration(length).as_micros()).unwrap();
        self.world.step_wall(if sign == "-" { -micros } else { micros });
    }

    fn limits_line(&mut self, line: &Line) {
        let limits = &mut self.world.limits;
        let set = |key: &str, field: &mut u32| *field = line.number(key).unwrap_or(*field);
        set("classes", &mut limits.max_classes);
        set("children", &mut limits.children);
        set("descendants", &mut limits.descendants);
        set("budget", &mut limits.placements_per_tick);
        set("moves", &mut limits.workflow_moves);
        limits.max_live_jobs = line.number("live").unwrap_or(limits.max_live_jobs);
        limits.tree_depth = line.number("depth").unwrap_or(limits.tree_depth);
        self.world.reload();
    }

    fn fleet_line(&mut self, line: &Line) {
        let before = self.fleet.clone();
        match (line.verb.as_str(), line.name(0)) {
            ("slot", name) => {
                let scope = match line.name(1) {
                    "node" => Scope::Node,
                    capacity => Scope::Fleet { capacity: capacity.parse().unwrap() },
                };
                let (name, rate) = (SlotName::new(name), super::words::rate(line));
                self.fleet.rates.remove(&name);
                self.fleet.rates.extend(rate.map(|rate| (name.clone(), rate)));
                self.fleet.slots.insert(name, scope);
            }
            ("kind", name) => {
                self.fleet.kinds.insert(KindName::new(name), policy(line));
            }
            ("tenant", name) => {
                let weight = line.number("weight").unwrap_or(1);
                self.fleet.tenants.insert(Tenant::new(name), TenantPolicy { weight });
            }
            ("cron", name) => {
                self.fleet.crons.insert(CronName::new(name), super::crons::policy(line));
            }
            (_, "cron") => {
                self.fleet.crons.remove(&super::crons::name(line, 1));
            }
            ("webhook", "stay") => self.fleet.webhooks_stay = true,
            ("webhook", name) => {
                self.fleet.webhooks.insert(WebhookName::new(name), super::webhooks::policy(line));
            }
            (_, "webhook") => {
                self.fleet.webhooks.remove(&WebhookName::new(line.name(1)));
            }
            (_, "tenant") => {
                self.fleet.tenants.remove(&Tenant::new(line.name(1)));
            }
            (_, "kind") => {
                self.fleet.kinds.remove(&KindName::new(line.name(1)));
            }
            (_, _) => {
                self.fleet.slots.remove(&SlotName::new(line.name(1)));
                self.fleet.rates.remove(&SlotName::new(line.name(1)));
            }
        }
        let fleet = Box::new(self.fleet.clone());
        let result = self.world.apply(Command::Apply { fleet, validate_only: false });
        if let Ok(applied) = &result
            && let Some(Reply::Applied { changes }) = World::reply(&applied.effects)
            && self.shown.iter().any(|word| word == "applied")
        {
            changes.iter().for_each(|change| self.say(change));
        }
        if let Err(Refusal::FleetConflict { conflicts }) = &result {
            conflicts.iter().for_each(|conflict| self.say(&format!("conflict: {conflict}")));
        }
        if result.is_err() {
            self.fleet = before;
        }
        self.finish_line(line.name(0), result);
    }

    fn node_line(&mut self, line: &Line) {
        let mut agent = Agent::new(line.name(0));
        agent.slots = line.amounts("slots").unwrap_or_default().into_iter().collect();
        agent.labels = line.texts("labels");
        let host = line.texts("host");
        let fact = |name: &str| host.get(name).map(String::as_str).unwrap_or_default().into();
        agent.host =
            Host { os: fact("os"), arch: fact("arch"), containment: fact("containment"), ..Host::default() };
        agent.kinds = match line.get("kinds") {
            Some(_) => line.list("kinds").into_iter().map(KindName::new).collect(),
            None => self.fleet.kinds.keys().cloned().collect(),
        };
        agent.credits = line.number("credits").unwrap_or(100);
        self.world.agents.insert(agent.name.clone(), agent);
        self.hello_line(line);
    }

    fn hello_line(&mut self, line: &Line) {
        let name = NodeName::new(line.name(0));
        let kinds: Vec<KindName> = self.fleet.kinds.keys().cloned().collect();
        let agent = self.world.agents.get_mut(&name).expect("a node of the script");
        if let Some(incarnation) = line.number("inc") {
            (agent.incarnation, agent.stream) = (incarnation, 0);
        }
        agent.boot = line.get("boot").map_or(agent.boot.clone(), str::to_owned);
        agent.instance = line.get("instance").map_or(agent.instance.clone(), str::to_owned);
        agent.stream = line.number::<u64>("stream").map_or(agent.stream, |stream| stream - 1);
        if line.verb == "hello" {
            agent.slots =
                line.amounts("slots").map_or(agent.slots.clone(), |slots| slots.into_iter().collect());
            agent.kinds = if line.has("all-kinds") { kinds } else { agent.kinds.clone() };
        }
        agent.is_old = line.has("old");
        agent.max_epoch_seen = line.number("epoch").unwrap_or(0);
        let result = self.world.hello(&name);
        let name = name.to_string();
        self.finish_line(&name, result);
    }

    fn beat_line(&mut self, line: &Line) {
        let name = NodeName::new(line.name(0));
        let clock = self.world.clock;
        let agent = self.world.agents.get_mut(&name).expect("a node of the script");
        let mut command = agent.beat(clock);
        if let Command::Heartbeat(beat) = &mut command {
            if let Some(seen) = line.number("seen") {
                beat.seen = tenure_scheduler::Ordinal(seen);
            }
            if let Some(session) = line.number("via") {
                beat.session = SessionId(session);
            }
            if let Some(token) = line.get("with") {
                let token = token_of(token);
                let job = self.id("stranger");
                let phase = tenure_scheduler::Phase::Started;
                let (elapsed, wait_epoch) = (Duration::ZERO, None);
                beat.held.push(tenure_scheduler::Held { job, token, phase, elapsed, wait_epoch });
            }
        }
        self.run_named(line.name(0), command);
    }

    fn agent(&mut self, line: &Line) -> &mut Agent {
        self.world.agents.get_mut(&NodeName::new(line.name(0))).expect("a node of the script")
    }

    fn session_line(&mut self, line: &Line) {
        let agent = self.agent(line);
        let (node, session) = (agent.name.clone(), agent.session.unwrap_or_default());
        agent.seq += 1;
        let (seq, seen) = (agent.seq, tenure_scheduler::Ordinal(agent.seen));
        let command = match line.verb.as_str() {
            "close" => {
                agent.session = None;
                Command::SessionClosed { node, session }
            }
            "leaving" => Command::NodeDraining { node, session, seq, seen, restart: true },
            verb => Command::SessionBlocked { node, session, blocked: verb == "block" },
        };
        self.run_named(line.name(0), command);
    }

    fn press_line(&mut self, line: &Line) {
        let pressure = super::trace::pressure(line);
        let generation = self.agent(line).pressure.generation + 1;
        let generation = line.number("gen").unwrap_or(generation);
        self.agent(line).pressure = tenure_scheduler::Pressure { generation, ..pressure };
        let result = self.world.beat(&NodeName::new(line.name(0)));
        self.finish_line(line.name(0), result);
    }

    fn enqueue_command(&mut self, line: &Line) -> Command {
        let id = line.get("id").unwrap_or(line.name(0)).to_owned();
        let (job, parent) = (self.id(&id), line.get("parent").map(str::to_owned));
        let parent = parent.map(|parent| self.id(&parent));
        let now = self.world.now();
        super::commands::enqueue(line, job, parent, now)
    }

    fn report_line(&mut self, line: &Line) {
        let job = self.id(line.name(0));
        let grant = self.grants.get(&job).cloned();
        let token =
            line.get("token").map(token_of).or(grant.as_ref().map(|grant| grant.0)).unwrap_or_default();
        let node = line.get("node").map(NodeName::new).or(grant.map(|grant| grant.1)).expect("a granted job");
        let job = line.get("job").map_or(job, |job| self.id(job));
        let statements = if line.verb == "detach" {
            let children = line.list("children").iter().map(|name| self.id(name)).collect();
            vec![super::commands::detached(line, children)]
        } else {
            super::commands::statements(line)
        };
        for statement in statements {
            let clock = self.world.clock;
            let agent = self.world.agents.get_mut(&node).expect("a node of the script");
            let mut command = agent.report(job, token, statement, clock);
            if let (Command::Report(report), Some(session)) = (&mut command, line.number("via")) {
                report.session = SessionId(session);
            }
            self.run_named(line.name(0), command);
        }
    }

    /// A process waits for children; its agent parks it if the answer says so.
    fn park_line(&mut self, line: &Line) {
        let job = self.id(line.name(0));
        let (token, node) = self.grants.get(&job).cloned().expect("a granted job");
        let token = line.get("token").map(token_of).unwrap_or(token);
        let node = line.get("node").map_or(node, NodeName::new);
        let children = line.list("children").iter().map(|name| self.id(name)).collect();
        let wait_epoch = line.number("epoch").unwrap_or(1);
        let command = super::commands::begin_wait(line, (node.clone(), job, token), wait_epoch, children);
        let result = self.world.apply(command);
        self.world.agents.get_mut(&node).expect("a node of the script").answered(token, wait_epoch, &result);
        self.finish_line(line.name(0), result);
    }

    /// Every process on every node takes its next step: parents without children enqueue so many and park, or detach if
    /// they must; all others end well.
    pub(crate) fn get_on(&mut self, children: usize) {
        let held: Vec<_> = self.world.agents.values().flat_map(|agent| agent.held.clone()).collect();
        for (token, held) in held {
            let name = self.ids[&held.job].clone();
            let is_parent = name.starts_with('p') && !name.contains('c');
            let names: Vec<String> = (0..children).map(|n| format!("{name}c{n}")).collect();
            let named = names.join(",");
            if held.parked.is_some() {
                continue;
            }
            let resumed = self.world.state.job(held.job).is_some_and(|job| job.detached.is_some());
            let line = match held.phase {
                Phase::Granted => format!("run {name}"),
                Phase::Finished => format!("reaped {name}"),
                Phase::Accepted | Phase::Started | Phase::Parked | Phase::Stopping | Phase::Unkillable => {
                    if is_parent && held.must_detach {
                        format!("detach {name} children={named}")
                    } else if is_parent && held.waits == 0 && !resumed {
                        names
                            .iter()
                            .for_each(|child| self.lines(&format!("enqueue {child} kind=c parent={name}")));
                        format!("park {name} children={named}")
                    } else {
                        format!("finish {name} ok")
                    }
                }
            };
            let (epoch, count) = (token.epoch().0, token.count());
            self.lines(&format!("{line} token={epoch}.{count}"));
        }
    }

    /// The agent has a report of an end on its disk, and could not send it.
    fn spool_line(&mut self, line: &Line) {
        let job = self.id(line.name(0));
        let (token, node) = self.grants.get(&job).cloned().expect("a granted job");
        let mut finish = line.clone();
        finish.verb = "finish".into();
        let finish = super::commands::statements(&finish);
        let agent = self.world.agents.get_mut(&node).expect("a node of the script");
        agent.spool.extend(finish.into_iter().map(|statement| (token, (job, statement))));
    }

    fn job_line(&mut self, line: &Line) {
        let job = self.id(line.name(0));
        let command = match line.verb.as_str() {
            "cancel" => Command::Cancel { job, reason: None, prior: None },
            "requeue" => Command::Requeue { job, force: line.has("force"), prior: None, key_taken: false },
            "priority" => Command::Reprioritize { job, priority: line.name(1).parse().unwrap(), prior: None },
            "delete" => Command::Delete { job, validate_only: line.has("check"), prior: None },
            "aside" => Command::SetAside { job },
            _ => {
                let ids: Vec<JobId> = line.names.clone().iter().map(|name| self.id(name)).collect();
                let jobs = ids.iter().filter_map(|id| self.world.store.job(*id)).map(|job| *job).collect();
                let results = self.world.store.results.keys().filter(|(job, _)| ids.contains(job));
                let due = |(job, token): &(JobId, FencingToken)| {
                    let row = self.world.store.job(*job);
                    let workflow = row.as_ref().and_then(|row| row.workflow).map(|of| of.workflow);
                    DueResult { job: *job, token: *token, parent: row.and_then(|row| row.parent), workflow }
                };
                let workflows = self.world.store.due_workflows();
                Command::Sweep { jobs, results: results.map(due).collect(), workflows }
            }
        };
        self.run_named(line.name(0), command);
    }

    fn operator_line(&mut self, line: &Line) {
        let command = match (line.verb.as_str(), line.name(0)) {
            ("pause", "kind") => {
                let policy = if line.has("reject") { PausePolicy::Reject } else { PausePolicy::Hold };
                Command::PauseKind { kind: KindName::new(line.name(1)), policy }
            }
            ("resume", "kind") => Command::ResumeKind { kind: KindName::new(line.name(1)) },
            ("pause", "cron") => Command::PauseCron { entry: super::crons::name(line, 1), by: "ops".into() },
            ("resume", "cron") => Command::ResumeCron { entry: super::crons::name(line, 1) },
            ("pause", _) => {
                let duration = line.names.get(2).map(|text| duration(text));
                Command::PauseSlot { slot: SlotName::new(line.name(1)), duration }
            }
            ("resume", _) => Command::ResumeSlot { slot: SlotName::new(line.name(1)) },
            ("capacity", slot) => {
                let slot = SlotName::new(slot);
                Command::SetCapacity { slot, capacity: line.name(1).parse().unwrap() }
            }
            ("cordon", node) => Command::Cordon { node: NodeName::new(node) },
            ("uncordon", node) => Command::Uncordon { node: NodeName::new(node) },
            ("drain", node) => Command::Drain { node: NodeName::new(node), deadline: duration(line.name(1)) },
            (_, node) => Command::Forget {
                node: NodeName::new(node),
                lost: line.has("lost"),
                validate_only: line.has("check"),
            },
        };
        let about = line.names.last().cloned().unwrap_or_default();
        let name = if matches!(line.verb.as_str(), "pause" | "resume") { line.name(1) } else { line.name(0) };
        let name = if name.is_empty() { about } else { name.to_owned() };
        self.run_named(&name, command);
    }

    fn cron_line(&mut self, line: &Line) {
        if line.verb == "fire" {
            let (entry, job) = (super::crons::name(line, 1), self.id(line.name(2)));
            return self.run_named(line.name(2), Command::RunCron { entry, job, prior: None });
        }
        let text = self.world.state.cron(&super::crons::name(line, 0)).map(super::crons::text);
        text.expect("an entry of the script").lines().for_each(|line| self.say(line));
    }

    fn say_line(&mut self, line: &Line) {
        let name = line.name(0).to_owned();
        let text = match line.verb.as_str() {
            "health" => super::trace::health(&self.world.health(&name)),
            verb => {
                let job = self.id(&name);
                super::trace::query(&self.world, verb, &name, job)
            }
        };
        text.lines().for_each(|line| self.say(line));
    }
}

/// `1.2`: the second grant of the first epoch.
pub(crate) fn token_of(text: &str) -> FencingToken {
    let (epoch, count) = text.split_once('.').expect("epoch.count");
    FencingToken::mint(tenure_scheduler::Epoch(epoch.parse().unwrap()), count.parse().unwrap())
}

/// What a `kind` line says, over the defaults; retries after 10 s, 60 s, so that traces are round.
fn policy(line: &Line) -> KindPolicy {
    let defaults = KindPolicy::default();
    let retry = match line.get("retry") {
        Some("exp") => RetryPolicy::default(),
        Some(_) => RetryPolicy::Intervals(line.list("retry").iter().map(|text| duration(text)).collect()),
        None => RetryPolicy::Intervals(vec![Duration::from_secs(10), Duration::from_secs(60)]),
    };
    KindPolicy {
        needs: line.needs("needs").unwrap_or_default(),
        selector: line.selector("selector"),
        prefer: Preferences::new(line.requirements("prefer")),
        node_backoff: line.get("node_backoff") != Some("off"),
        lease: line.duration("lease").unwrap_or(defaults.lease),
        max_failures: line.number("max_failures").unwrap_or(defaults.max_failures),
        max_losses: line.number("max_losses").unwrap_or(defaults.max_losses),
        retry,
        hard_time_limit: line.duration("hard").unwrap_or(defaults.hard_time_limit),
        soft_time_limit: line.duration("soft"),
        progress_timeout: line.duration("silence"),
        queue_cap: line.number("cap"),
        max_running: line.number("max_running"),
        concurrency: line
            .number("concurrency")
            .map(|limit| Concurrency { key: "conversation".into(), limit }),
        fifo: line.has("fifo"),
        reserve_after: line.duration("reserve_after").unwrap_or(defaults.reserve_after),
        budget: super::words::budget(line),
        stale_after: line.duration("stale_after"),
        dedupe: match line.get("dedupe") {
            Some("live") => tenure_scheduler::DedupePolicy::Live,
            Some(_) | None => defaults.dedupe,
        },
        placement: match line.get("placement") {
            Some("spread") => Placement::Spread,
            Some(_) | None => defaults.placement,
        },
        priority: line.number("priority").unwrap_or(defaults.priority),
        keep_on_wait: line.list("keep").into_iter().map(SlotName::new).collect(),
        reacquire_timeout: line.duration("reacquire").unwrap_or(defaults.reacquire_timeout),
        ..defaults
    }
}

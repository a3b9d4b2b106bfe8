//! The agent's session: connect, Hello, serve, back off. Its decisions are those of the real `Holdings`; around them this
//! follows `session.rs` of the agent, as events of the simulation.

use std::{collections::BTreeMap, time::Duration};

use tenure_node_agent::{
    clock::Mono,
    holdings::{
        self, Action, End, FencingToken, Holdings, Listed, Phase, Statement, StopReason, Terms, Verdict,
        Violation,
    },
};
use tenure_scheduler::{
    self as scheduler, Held, Hello, KindName, Message, Ordinal, ReportKind, Return, RevokeReason, SlotName,
    Usage, micros,
};

use crate::{
    clock::{MS, S},
    host::{CPU, runner::Orders, shim::ShimWord},
    net::{ConnId, Ending, NodeBody, Packet},
    server::no_pressure,
    trace::say,
    world::{Happening, KINDS, World},
};

/// A server that has not answered a Hello by then is asked again.
const WELCOME: u64 = 15 * S;
/// Bounds of a wait before the next connection.
const BACKOFF: (u64, u64) = (200 * MS, 30 * S);
/// A session that lived this long was healthy.
const HEALTHY: u64 = 60 * S;

/// See the module.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) life: u64,
    pub(crate) up: bool,
    /// By SIGSTOP.
    pub(crate) stopped: bool,
    pub(super) held: Vec<Happening>,
    pub(crate) holdings: Holdings,
    pub(super) conn: Option<ConnId>,
    /// When Welcome came, by its own clock.
    welcomed: Option<u64>,
    /// Another agent has its instance: it stops everything, and becomes another one.
    yielding: bool,
    stream: u64,
    beat: u64,
    failures: u32,
    /// Which server is tried next.
    next: usize,
    /// Timers belong to one connection, or to the wait for the next.
    term: u64,
    due: u64,
    /// What its runner was told of each attempt that it has prepared itself.
    pub(super) orders: BTreeMap<u64, Orders>,
}

/// What reaches an agent.
#[derive(Debug)]
pub(crate) enum AgentInput {
    Packet {
        conn: ConnId,
        packet: Packet,
    },
    Connect {
        term: u64,
    },
    NotWelcomed {
        term: u64,
    },
    Beat {
        term: u64,
    },
    /// A deadline of its holdings.
    Due {
        planned: u64,
    },
    Prepared {
        token: u64,
    },
    /// The shim is ready: the command starts.
    Go {
        token: u64,
    },
    Shim {
        token: u64,
        word: ShimWord,
    },
}

impl Agent {
    pub(super) fn new(holdings: Holdings) -> Self {
        Self {
            life: 0,
            up: false,
            stopped: false,
            held: Vec::new(),
            holdings,
            conn: None,
            welcomed: None,
            yielding: false,
            stream: 0,
            beat: S,
            failures: 0,
            next: 0,
            term: 0,
            due: u64::MAX,
            orders: BTreeMap::new(),
        }
    }
}

impl World {
    /// The present of a host, as its agent and shims read it.
    pub(super) fn node_now(&self, index: usize) -> Mono {
        Mono::from_micros(self.hosts[index].clock.at(self.now))
    }

    pub(super) fn plan_agent(&mut self, index: usize, after: u64, input: AgentInput) {
        let host = &self.hosts[index];
        let due = host.clock.when(host.clock.at(self.now) + after);
        let life = host.agent.life;
        self.plan(due, Happening::Agent { host: index, life, input });
    }

    pub(super) fn agent_input(&mut self, index: usize, input: AgentInput) {
        let agent = &mut self.hosts[index].agent;
        match input {
            AgentInput::Packet { conn, packet } if agent.conn == Some(conn) => {
                self.agent_reads(index, packet)
            }
            AgentInput::Packet { .. } => {}
            AgentInput::Connect { term } if term == agent.term => self.say_hello(index),
            AgentInput::NotWelcomed { term } if term == agent.term => {
                if agent.welcomed.is_none() {
                    self.session_over(index, None);
                }
            }
            AgentInput::Beat { term } if term == agent.term => {
                let now = self.node_now(index);
                let agent = &mut self.hosts[index].agent;
                let after = agent.beat;
                let listed = agent.holdings.heartbeat(now);
                let held = listed.into_iter().filter_map(held).collect();
                self.say_to_server(index, NodeBody::Beat(held));
                self.plan_agent(index, after, AgentInput::Beat { term });
            }
            AgentInput::Connect { .. } | AgentInput::NotWelcomed { .. } | AgentInput::Beat { .. } => {}
            AgentInput::Due { planned } => {
                if agent.due == planned {
                    agent.due = u64::MAX;
                }
            }
            AgentInput::Prepared { token } => agent.holdings.prepared(FencingToken(token)),
            AgentInput::Go { token } => self.go(index, token),
            AgentInput::Shim { token, word } => self.shim_says(index, token, word),
        }
        self.settle(index);
    }

    pub(super) fn connect_soon(&mut self, index: usize, after: u64) {
        let agent = &mut self.hosts[index].agent;
        agent.term += 1;
        let term = agent.term;
        self.plan_agent(index, after, AgentInput::Connect { term });
    }

    fn say_hello(&mut self, index: usize) {
        let server = self.hosts[index].agent.next % self.servers.len();
        let conn = self.connect(index, server);
        let now = self.node_now(index);
        let host = &mut self.hosts[index];
        host.agent.conn = Some(conn);
        host.agent.stream += 1;
        host.agent.term += 1;
        let (listed, unstored) = host.agent.holdings.hello(now);
        let hello = Hello {
            node: host.name.clone(),
            session: scheduler::SessionId(0),
            seq: 0,
            instance: host.dir.instance.as_str().into(),
            boot_id: format!("b{}", host.boot).into(),
            incarnation: host.dir.incarnation,
            stream: host.agent.stream,
            labels: Default::default(),
            slots: [(SlotName::new("cpu"), CPU)].into(),
            kinds: KINDS.iter().map(|kind| KindName::new(kind.name)).collect(),
            host: scheduler::Host::default(),
            agent_version: "sim".into(),
            inputs: true,
            pressure: no_pressure(),
            max_epoch_seen: host.agent.holdings.max_epoch_seen(),
            held: listed.into_iter().filter_map(held).collect(),
            unstored: unstored
                .into_iter()
                .filter_map(|(token, job)| Some((job.parse().ok()?, scheduler::FencingToken(token.0))))
                .collect(),
            credits: 8,
        };
        let term = host.agent.term;
        let within = host.agent.holdings.reconnect_within().map_or(5 * S, micros).clamp(500 * MS, 5 * S);
        self.say_to_server(index, NodeBody::Hello(Box::new(hello)));
        // A path that is cut is no connection, and that is noticed sooner.
        let silent = !self.net.passes(index, server);
        let after = if silent { within } else { WELCOME };
        self.plan_agent(index, after, AgentInput::NotWelcomed { term });
    }

    /// Numbers and sends one message.
    fn say_to_server(&mut self, index: usize, body: NodeBody) {
        let now = self.node_now(index);
        let agent = &mut self.hosts[index].agent;
        let Some(conn) = agent.conn else { return };
        let seq = agent.holdings.next_seq(now);
        let seen = Ordinal(agent.holdings.seen());
        self.send(conn, true, Packet::Node { seq, seen, body });
    }

    /// It comes back soon.
    pub(super) fn say_draining(&mut self, index: usize) {
        if self.hosts[index].agent.welcomed.is_some() {
            self.say_to_server(index, NodeBody::Draining);
        }
    }

    fn agent_reads(&mut self, index: usize, packet: Packet) {
        match packet {
            Packet::End(ending) => self.session_over(index, Some(ending)),
            Packet::Node { .. } => {}
            Packet::Server { ordinal, applied, message } => {
                if self.agent_applies(index, ordinal, applied, *message).is_err() {
                    self.violated(format!("h{index}: the server broke the protocol"));
                }
            }
        }
    }

    fn agent_applies(
        &mut self,
        index: usize,
        ordinal: Ordinal,
        applied: u64,
        message: Message,
    ) -> Result<(), Violation> {
        let now = self.node_now(index);
        let agent = &mut self.hosts[index].agent;
        if agent.welcomed.is_none() {
            let Message::Welcome { epoch, heartbeat_interval, anchor, renewed, .. } = message else {
                return Ok(());
            };
            agent.holdings.receive_first(ordinal.0);
            agent.holdings.welcomed(epoch.0, anchor, &renewals(&renewed))?;
            agent.welcomed = Some(now.as_micros());
            agent.beat = micros(heartbeat_interval).clamp(200 * MS, 30 * S);
            let (term, after) = (agent.term, agent.beat);
            self.hosts[index].dir.max_epoch = self.hosts[index].agent.holdings.max_epoch_seen();
            self.plan_agent(index, after, AgentInput::Beat { term });
            return Ok(());
        }
        agent.holdings.receive(ordinal.0)?;
        match message {
            Message::Welcome { .. } => self.violated(format!("h{index} is welcomed twice")),
            Message::Grant(grant) => {
                let terms = terms(&grant);
                if agent.holdings.granted(now, applied, &terms)? {
                    self.prepare(index, &grant);
                }
                let host = &mut self.hosts[index];
                host.dir.max_epoch = host.agent.holdings.max_epoch_seen();
            }
            Message::Renewed { anchor, leases } => agent.holdings.renewed(anchor, &renewals(&leases))?,
            Message::Revoke { leases } => {
                for (token, reason) in leases {
                    agent.holdings.revoked(FencingToken(token.0), stop_reason(reason));
                }
            }
            Message::Stored(stored) => {
                let end = match stored.report {
                    ReportKind::Finished => End::Finished,
                    ReportKind::Returned => End::Returned,
                    ReportKind::Reaped => return Ok(()),
                };
                agent.holdings.answered(FencingToken(stored.token.0), end, Verdict::Done);
            }
            Message::Drain { deadline: Some(deadline) } => agent.holdings.drain(now, now + deadline),
            Message::Drain { deadline: None } => agent.holdings.drain_over(),
            Message::Configure { heartbeat_interval } => {
                agent.beat = micros(heartbeat_interval).max(200 * MS)
            }
            Message::Resume { .. } => {}
        }
        Ok(())
    }

    /// The stream is over, or was none.
    fn session_over(&mut self, index: usize, ending: Option<Ending>) {
        self.hang_up_session(index);
        let now = self.node_now(index).as_micros();
        let agent = &mut self.hosts[index].agent;
        agent.holdings.disconnected();
        let welcomed = agent.welcomed.take();
        if welcomed.is_some_and(|at| now - at >= HEALTHY) {
            agent.failures = 0;
        }
        let reason = match ending {
            Some(Ending::Refused { reason, leader }) => {
                agent.next = leader.unwrap_or(agent.next + 1);
                reason
            }
            Some(Ending::Closed) | None => {
                agent.next += 1;
                "CLOSED"
            }
        };
        if reason == "SUPERSEDED_SESSION" && welcomed.is_none() {
            say!(self, ("h{index}"), "another agent has its instance: it stops everything");
            let agent = &mut self.hosts[index].agent;
            agent.yielding = true;
            agent.term += 1;
            agent.holdings.stop_all(StopReason::Superseded, true);
            return;
        }
        self.pause(index);
    }

    fn pause(&mut self, index: usize) {
        let now = self.node_now(index);
        let agent = &mut self.hosts[index].agent;
        agent.failures = agent.failures.saturating_add(1);
        let grown = BACKOFF.0.saturating_mul(1 << agent.failures.min(16)).min(BACKOFF.1);
        let within = agent.holdings.pause_within(now).map(micros);
        let wait = BACKOFF.0 + self.random.below(grown - BACKOFF.0 + 1);
        self.connect_soon(index, within.map_or(wait, |within| wait.min(within)));
    }

    /// Carries out what is due, says what is to be said.
    pub(super) fn settle(&mut self, index: usize) {
        let now = self.node_now(index);
        loop {
            let agent = &mut self.hosts[index].agent;
            agent.holdings.advance(now);
            let actions = agent.holdings.take_actions();
            let said = if agent.welcomed.is_some() && agent.conn.is_some() {
                agent.holdings.next_statement(now)
            } else {
                None
            };
            if actions.is_empty() && said.is_none() {
                break;
            }
            actions.into_iter().for_each(|action| self.carry_out(index, &action));
            if let Some(statement) = said {
                self.report(index, statement);
            }
        }
        self.stop_yielding(index);
        let agent = &self.hosts[index].agent;
        let due = agent.holdings.next_deadline().map(|due| self.hosts[index].clock.when(due.as_micros()));
        if let Some(due) = due.map(|due| due.max(self.now + 1)).filter(|due| *due < agent.due) {
            self.hosts[index].agent.due = due;
            let life = self.hosts[index].agent.life;
            self.plan(due, Happening::Agent { host: index, life, input: AgentInput::Due { planned: due } });
        }
    }

    fn stop_yielding(&mut self, index: usize) {
        let now = self.node_now(index);
        let agent = &mut self.hosts[index].agent;
        let unkillable = |listed: &Listed| matches!(listed.phase, Phase::Unkillable { .. });
        let done = agent.holdings.live() == 0 || agent.holdings.heartbeat(now).iter().all(unkillable);
        if agent.yielding && done {
            agent.yielding = false;
            agent.stream = 0;
            self.instances += 1;
            self.hosts[index].dir.instance = format!("i{index}.{}", self.instances);
            self.pause(index);
        }
    }

    fn carry_out(&mut self, index: usize, action: &Action) {
        match *action {
            Action::Prepare { .. } => {} // With the grant.
            Action::Abandon { token } => self.abandon(index, token.0),
            Action::Start { token, gone_by } => self.order_start(index, token.0, gone_by),
            Action::Extend { token, gone_by } => self.order_extend(index, token.0, gone_by),
            Action::Stop { token, stop } => self.order_stop(index, token.0, stop),
            // No job of the simulator waits for others.
            Action::Resume { .. } => {}
            Action::Forget { token } | Action::SetAside { token } => {
                self.hosts[index].dir.spool.remove(&token.0);
            }
        }
    }

    fn report(&mut self, index: usize, said: Statement) {
        let (token, job, statement) = match said {
            Statement::Accepted { job, token } => (token, job.parse().ok(), scheduler::Statement::Accepted),
            Statement::Started { job, token, elapsed } => {
                (token, job.parse().ok(), scheduler::Statement::Started { elapsed })
            }
            Statement::Progress { job, token, percent, message } => {
                let percent = u8::try_from(percent).unwrap_or(100);
                let progress = scheduler::Statement::Progress { percent, message: message.into() };
                (token, job.parse().ok(), progress)
            }
            Statement::Reaped { job, token } => (token, job.parse().ok(), scheduler::Statement::Reaped),
            Statement::Returned { job, token, give_back } => {
                (token, job.parse().ok(), scheduler::Statement::Returned(returned(&give_back)))
            }
            // No simulated job saves anything.
            Statement::Checkpoint { .. } => return,
            Statement::Spooled { token } => {
                let Some(spooled) = self.hosts[index].dir.spool.get(&token.0) else {
                    return self.violated(format!("h{index}: {token} is not in the spool"));
                };
                (token, Some(spooled.job), spooled.statement.clone())
            }
        };
        let Some(job) = job else { return };
        let token = scheduler::FencingToken(token.0);
        self.say_to_server(index, NodeBody::Report { job, token, statement });
    }
}

fn returned(give_back: &holdings::Return) -> Return {
    Return {
        rule: give_back.rule.as_str().into(),
        observed: give_back.observed,
        threshold: give_back.threshold,
        generation: give_back.generation,
        retry_after: give_back.retry_after,
        started: false,
        usage: Usage::new(),
        has_result: false,
        checkpoint: None,
    }
}

fn held(listed: Listed) -> Option<Held> {
    let phase = match listed.phase {
        Phase::Granted => scheduler::Phase::Granted,
        Phase::Accepted | Phase::Starting => scheduler::Phase::Accepted,
        Phase::Started { .. } => scheduler::Phase::Started,
        Phase::Stopping { .. } => scheduler::Phase::Stopping,
        Phase::Finished { .. } => scheduler::Phase::Finished,
        Phase::Unkillable { .. } => scheduler::Phase::Unkillable,
    };
    Some(Held {
        job: listed.job.parse().ok()?,
        token: scheduler::FencingToken(listed.token.0),
        phase,
        elapsed: listed.elapsed,
        wait_epoch: listed.parked_in,
    })
}

fn renewals(leases: &[(scheduler::FencingToken, Duration)]) -> Vec<(FencingToken, Duration)> {
    leases.iter().map(|(token, length)| (FencingToken(token.0), *length)).collect()
}

fn terms(grant: &scheduler::Grant) -> Terms {
    Terms {
        job: grant.job.to_string(),
        token: FencingToken(grant.token.0),
        kind: grant.kind.to_string(),
        slots: grant.slots.iter().map(|(slot, units)| (slot.to_string(), units)).collect(),
        lease: grant.lease,
        first_lease: grant.first_lease,
        start_window: grant.start_window,
        stale_in: grant.stale_in,
    }
}

fn stop_reason(reason: RevokeReason) -> StopReason {
    match reason {
        RevokeReason::NotLive => StopReason::NotLive,
        RevokeReason::Cancelled => StopReason::Cancelled,
        RevokeReason::Unanswered => StopReason::Unanswered,
        RevokeReason::Drained => StopReason::Drained,
    }
}

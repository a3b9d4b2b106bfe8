//! A leader's turns, by the rules of the driver: collect, look up what memory does not hold, apply, commit once, release.
//!
//! The driver itself is async code around a journal; this is its order of steps as events of the simulation. Rules held
//! here: a turn takes all input of nodes that has arrived before it ticks; nothing leaves before the commit; a commit is
//! never repeated; past its trust a leader says only what the commit vouches for.

use tenure_scheduler::{
    Command, Durable, Effect, Enqueue, Epoch, Event, Limits, Message, Mono, Now, Refusal, Reply, SessionId,
    State, Wall,
};

use crate::{
    clock::{Clock, S},
    crons,
    db::{Line, Request, tables::Tables},
    net::{Ending, Packet},
    server::{
        Role, ServerInput,
        election::Pending,
        pulse::{BEAT, Pulse},
    },
    trace::say,
    world::{Broken, World},
};

/// Timetables that one turn asks for.
const MOST_PLANS: usize = 16;

/// The longest wait for a commit.
const COMMIT: u64 = 10 * S;

/// What a node said, with the session that it said it by.
#[derive(Debug)]
pub(crate) struct FromNode {
    pub(crate) session: u64,
    pub(crate) command: Command,
}

/// What a client called.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Whose.
    pub(crate) client: usize,
    /// Which of its attempts.
    pub(crate) attempt: u64,
    pub(crate) command: Command,
}

/// Why a call was not carried out.
#[derive(Debug, Clone)]
pub(crate) enum No {
    /// Not now, not here.
    Unavailable {
        leader: Option<usize>,
    },
    Refused(Box<Refusal>),
}

/// What waits for a commit.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    events: Vec<Event>,
    effects: Vec<Effect>,
    replies: Vec<(usize, u64, Result<Reply, Box<Refusal>>)>,
    ended: Vec<(u64, &'static str)>,
    /// It was released too early, by a server that is broken on purpose.
    said: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) state: State,
    pulse: Pulse,
    committing: Option<Turn>,
    tick_soon: bool,
    /// When the next turn is planned, in true time.
    planned: u64,
}

impl Leader {
    pub(super) fn new(epoch: u64, rows: Durable, (clock, now): (&Clock, u64), fast: bool) -> Self {
        let at = Now { mono: Mono(0), wall: Wall(clock.wall(now)) };
        let pulse = Pulse::new(clock.at(now), if fast { 22 } else { 10 });
        // So few that workflows of a handful of members end slice by slice.
        let limits = Limits { workflow_moves: 2, ..Limits::default() };
        let state = State::load(Epoch(epoch), limits, rows, at);
        Self { state, pulse, committing: None, tick_soon: true, planned: u64::MAX }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.state.epoch().0
    }
}

impl World {
    /// There is something to do for a leader, after so long by its own clock.
    pub(super) fn wake_leader(&mut self, index: usize, after: u64) {
        let jitter = self.random.between(20, 300);
        let server = &mut self.servers[index];
        let Role::Leading(leader) = &mut server.role else { return };
        let due = server.clock.when(server.clock.at(self.now) + after) + jitter;
        if leader.committing.is_none() && due < leader.planned {
            leader.planned = due;
            let term = server.term;
            let life = server.life;
            let input = ServerInput::Turn { term, planned: due };
            self.plan(due, crate::world::Happening::Server { server: index, life, input });
        }
    }

    pub(super) fn turn_is_due(&mut self, index: usize, planned: u64) {
        let Role::Leading(leader) = &mut self.servers[index].role else { return };
        if leader.planned != planned || leader.committing.is_some() {
            return;
        }
        leader.planned = u64::MAX;
        let epoch = leader.epoch();
        if !self.is_trusted(index) {
            return self.reload(index, epoch, "it trusts itself no more");
        }
        let seen = self.servers[index]
            .nodes
            .iter()
            .map(|from| if let Command::Hello(hello) = &from.command { hello.max_epoch_seen } else { 0 });
        let seen = seen.max().unwrap_or(0);
        if seen > epoch {
            self.servers[index].at_least = seen;
            return self.reload(index, epoch, "a node saw a higher epoch");
        }
        self.turn(index);
        self.next_turn(index);
    }

    fn next_turn(&mut self, index: usize) {
        let server = &mut self.servers[index];
        let busy = !server.nodes.is_empty() || !server.calls.is_empty();
        let (clock, now) = (&server.clock, self.now);
        let Role::Leading(leader) = &mut server.role else { return };
        let busy = busy || leader.state.unplanned_crons(1).next().is_some();
        let at = Now { mono: leader.pulse.beat(clock.at(now)), wall: Wall(clock.wall(now)) };
        let due = leader.state.next_deadline(at).map_or(BEAT, |due| due.0.saturating_sub(at.mono.0));
        let wait = if busy || leader.tick_soon { 0 } else { due.min(BEAT) };
        self.wake_leader(index, wait);
    }

    fn turn(&mut self, index: usize) {
        let server = &mut self.servers[index];
        let (clock, now) = (server.clock.clone(), self.now);
        let Role::Leading(leader) = &mut server.role else { return };
        let at = Now { mono: leader.pulse.beat(clock.at(now)), wall: Wall(clock.wall(now)) };
        let unplanned = leader.state.unplanned_crons(1).next().is_some();
        let due =
            leader.tick_soon || unplanned || leader.state.next_deadline(at).is_some_and(|due| due <= at.mono);
        if server.nodes.is_empty() && server.calls.is_empty() && !due {
            return;
        }
        leader.tick_soon = false;
        let mut nodes: Vec<_> = server.nodes.drain(..).collect();
        let mut calls: Vec<_> = server.calls.drain(..).collect();
        let epoch = leader.epoch();
        if !self.look_up(index, &mut nodes, &mut calls) {
            self.servers[index].calls.extend(calls);
            return self.reload(index, epoch, "jobs cannot be looked up");
        }
        let mut turn = Turn::default();
        self.apply_nodes(index, at, nodes, &mut turn);
        self.apply_calls(index, at, calls, &mut turn);
        self.apply_plans(index, at, &mut turn);
        let Role::Leading(leader) = &mut self.servers[index].role else { return };
        if let Ok(applied) = leader.state.apply(at, Command::Tick) {
            leader.tick_soon = applied.more;
            turn.events.extend(applied.events);
            turn.effects.extend(applied.effects);
        }
        self.counts.steps += 1;
        self.check_leader(index);
        self.oracle_decided(index, &turn.events, &turn.effects);
        self.finish_turn(index, turn);
    }

    fn finish_turn(&mut self, index: usize, mut turn: Turn) {
        let Role::Leading(leader) = &mut self.servers[index].role else { return };
        let epoch = leader.epoch();
        let changes = leader.state.take_changes();
        if changes.is_empty() {
            leader.state.committed();
            return self.release(index, turn);
        }
        if self.broken == Broken::EarlyRelease {
            let early = Turn { effects: std::mem::take(&mut turn.effects), ..Turn::default() };
            self.release(index, early);
            let replies = std::mem::take(&mut turn.replies);
            self.reply(replies);
            turn.said = true;
        }
        let Role::Leading(leader) = &mut self.servers[index].role else { return };
        leader.committing = Some(turn);
        let request = Request::Commit { epoch, changes: Box::new(changes) };
        self.ask(index, Line::Commit, (Pending::Commit, request), COMMIT);
    }

    /// The newest commit is durable.
    pub(super) fn committed(&mut self, index: usize) {
        let Role::Leading(leader) = &mut self.servers[index].role else { return };
        let Some(mut turn) = leader.committing.take() else { return };
        leader.state.committed();
        let epoch = leader.epoch();
        if self.is_trusted(index) {
            self.release(index, turn);
            self.next_turn(index);
        } else {
            // The commit vouches for the replies, and for nothing else.
            let replies = std::mem::take(&mut turn.replies);
            self.reply(replies);
            self.oracle_committed(&turn.events);
            self.reload(index, epoch, "it trusts itself no more");
        }
    }

    fn release(&mut self, index: usize, turn: Turn) {
        let Turn { events, effects, replies, ended, said: _ } = turn;
        self.tell_events(index, &events);
        self.oracle_committed(&events);
        self.reply(replies);
        for effect in effects {
            match effect {
                Effect::Send { session, ordinal, applied, message, node } => {
                    let Some(conn) = self.servers[index].sessions.get(&session.0).copied() else { continue };
                    if let Message::Grant(grant) = &message {
                        say!(self, ("s{index}"), "grants {} {} to {node}", grant.job, grant.token);
                        self.counts.grants += 1;
                        self.oracle_granted(grant.token, grant.job);
                    }
                    self.send(conn, false, Packet::Server { ordinal, applied, message: Box::new(message) });
                }
                Effect::CloseSession { session, reason, .. } => self.end_session(index, session.0, reason),
                Effect::Reply(_)
                | Effect::NotifyWatchers { .. }
                | Effect::NotifyWorkflow { .. }
                | Effect::NotifyOutbox => {}
            }
        }
        for (session, reason) in ended {
            self.end_session(index, session, reason);
        }
    }

    fn reply(&mut self, replies: Vec<(usize, u64, Result<Reply, Box<Refusal>>)>) {
        for (client, attempt, reply) in replies {
            self.answer_client(client, attempt, reply.map_err(No::Refused));
        }
    }

    fn tell_events(&mut self, index: usize, events: &[Event]) {
        for event in events.iter().filter(|event| event.is_notable()) {
            say!(self, ("s{index}"), "{event}");
        }
    }

    fn apply_nodes(&mut self, index: usize, at: Now, nodes: Vec<FromNode>, turn: &mut Turn) {
        let server = &mut self.servers[index];
        let Role::Leading(leader) = &mut server.role else { return };
        for FromNode { session, command } in nodes {
            let ends = matches!(command, Command::SessionClosed { .. });
            if !ends && !server.sessions.contains_key(&session) {
                continue; // It spoke to a state that is gone, or was told to go.
            }
            match leader.state.apply(at, command) {
                Ok(applied) => {
                    turn.events.extend(applied.events);
                    turn.effects.extend(applied.effects);
                }
                // Of a session that was superseded the scheduler knows nothing.
                Err(_) if ends => {}
                Err(refusal) => turn.ended.push((session, refusal.reason())),
            }
        }
    }

    fn apply_calls(&mut self, index: usize, at: Now, calls: Vec<Call>, turn: &mut Turn) {
        let Role::Leading(leader) = &mut self.servers[index].role else { return };
        for Call { client, attempt, command } in calls {
            let reply = match leader.state.apply(at, command) {
                Err(refusal) => Err(Box::new(refusal)),
                Ok(applied) => {
                    turn.events.extend(applied.events);
                    let mut reply = None;
                    for effect in applied.effects {
                        if let Effect::Reply(said) = effect {
                            reply = Some(said);
                        } else {
                            turn.effects.push(effect);
                        }
                    }
                    let Some(reply) = reply else { continue };
                    Ok(reply)
                }
            };
            turn.replies.push((client, attempt, reply));
        }
    }

    /// How timetables go on of which the scheduler has to know more.
    fn apply_plans(&mut self, index: usize, at: Now, turn: &mut Turn) {
        let Role::Leading(leader) = &mut self.servers[index].role else { return };
        let plans: Vec<_> =
            leader.state.unplanned_crons(MOST_PLANS).map(|row| crons::plan(row, at.wall)).collect();
        for (plan, left_out) in plans {
            self.oracle.left_out |= left_out;
            if let Ok(applied) = leader.state.apply(at, Command::PlanCron(Box::new(plan))) {
                turn.events.extend(applied.events);
            }
        }
    }

    /// Puts what memory does not hold into the commands. False: the database does not answer.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the driver's own `prior.rs` has the whole list")]
    fn look_up(&mut self, index: usize, nodes: &mut [FromNode], calls: &mut [Call]) -> bool {
        let server = &self.servers[index];
        let connected = server
            .lines
            .get(&Line::Commit)
            .is_none_or(|line| line.generation.is_none_or(|generation| generation == self.db.generation));
        let reachable = self.db.up && connected && !self.db.held.contains_key(&(index, Line::Commit));
        let Role::Leading(leader) = &server.role else { return false };
        let state = &leader.state;
        let tables = &self.db.tables;
        let of_nodes = nodes.iter_mut().map(|from| &mut from.command);
        for command in of_nodes.chain(calls.iter_mut().map(|call| &mut call.command)) {
            let find = |id| if state.knows_job(id) { None } else { tables.job(id) };
            match command {
                Command::Enqueue(enqueue) => {
                    let tenant = state.tenant_of(enqueue).clone();
                    let Enqueue { job, kind, dedupe_key, prior, .. } = &mut **enqueue;
                    if !reachable {
                        return false;
                    }
                    prior.by_id = find(*job);
                    prior.by_key = dedupe_key.clone().and_then(|key| {
                        let known = state.knows_key(&tenant, kind, &key);
                        if known { None } else { tables.holder(&(tenant, kind.clone(), key)) }
                    });
                }
                Command::Cancel { job, prior, .. } | Command::Delete { job, prior, .. } => {
                    *prior = find(*job);
                    if prior.is_some() && !reachable {
                        return false;
                    }
                }
                Command::Requeue { job, prior, key_taken, .. } => {
                    *prior = find(*job);
                    if prior.is_some() && !reachable {
                        return false;
                    }
                    let given_up = prior.as_ref().filter(|job| !job.dedupe_held);
                    *key_taken = given_up.is_some_and(|job| {
                        let key = job.dedupe_key.clone();
                        key.is_some_and(|key| {
                            tables.holder(&(job.tenant.clone(), job.kind.clone(), key)).is_some()
                        })
                    });
                }
                Command::SubmitWorkflow(_) | Command::CancelWorkflow { .. } | Command::RequeueMember(_) => {
                    if !reachable {
                        return false;
                    }
                    look_up_workflow(command, state, tables);
                }
                Command::Report(report) => {
                    report.prior = find(report.job);
                    if report.prior.is_some() && !reachable {
                        return false;
                    }
                }
                _ => {}
            }
        }
        true
    }

    /// It leads no more: the state is dropped, sessions end, callers are told to come back.
    pub(super) fn end_leading(&mut self, index: usize, why: &str) {
        let server = &mut self.servers[index];
        let Role::Leading(leader) = &mut server.role else { return };
        let epoch = leader.epoch();
        say!(self, ("s{index}"), "leads epoch {epoch} no more: {why}");
        let turn = leader.committing.take();
        server.role = Role::Taking;
        server.term += 1;
        server.nodes.clear();
        let calls = std::mem::take(&mut server.calls);
        let sessions = std::mem::take(&mut server.sessions);
        self.hang_up(index, Line::Commit);
        for conn in sessions.into_values() {
            self.close(conn, false, Ending::Refused { reason: "STORE_UNAVAILABLE", leader: None });
        }
        let waiting = turn.filter(|turn| !turn.said).map(|turn| turn.replies).unwrap_or_default();
        let waiting = waiting.into_iter().map(|(client, attempt, _)| (client, attempt));
        for (client, attempt) in waiting.chain(calls.into_iter().map(|call| (call.client, call.attempt))) {
            self.answer_client(client, attempt, Err(No::Unavailable { leader: None }));
        }
    }

    pub(super) fn end_session(&mut self, index: usize, session: u64, reason: &'static str) {
        let server = &mut self.servers[index];
        let Some(conn) = server.sessions.remove(&session) else { return };
        let node = self.net.conns.get(&conn).map(|conn| conn.host);
        say!(self, ("s{index}"), "ends session {session}: {reason}");
        self.close(conn, false, Ending::Refused { reason, leader: None });
        if let Some(host) = node {
            let command =
                Command::SessionClosed { node: self.hosts[host].name.clone(), session: SessionId(session) };
            self.servers[index].nodes.push_back(FromNode { session, command });
        }
    }
}

/// What memory does not hold of a workflow and of those of its members that a command is about.
fn look_up_workflow(command: &mut Command, state: &State, tables: &Tables) {
    let find = |id| if state.knows_workflow(id) { None } else { tables.workflow(id).map(Box::new) };
    if let Command::SubmitWorkflow(submit) = command {
        submit.prior = find(submit.id);
        for enqueue in submit.jobs.iter_mut().filter(|enqueue| !state.knows_job(enqueue.job)) {
            enqueue.prior.by_id = tables.job(enqueue.job);
        }
    } else if let Command::CancelWorkflow { workflow, prior, .. } = command {
        *prior = find(*workflow);
    } else if let Command::RequeueMember(request) = command {
        request.prior = find(request.workflow);
        let known = state.workflow(request.workflow).or(request.prior.as_deref());
        let jobs = known.map(|row| State::members_behind(row, request.place)).unwrap_or_default();
        let unknown = jobs.into_iter().filter(|id| !state.knows_job(*id));
        request.prior_jobs = unknown.filter_map(|id| tables.job(id).map(|job| *job)).collect();
    }
}

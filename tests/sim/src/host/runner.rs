//! Attempts and their shims. A shim lives on without its agent and enforces its deadlines alone: with the real
//! `Deadlines`, on the clock of its host. What becomes of an end follows `runner/*` of the agent.

use std::collections::BTreeMap;

use tenure_node_agent::{
    clock::Mono,
    holdings::{End, FencingToken, Options, Stop, StopReason, Unstored},
    own_rule::OwnRule,
    shim::{
        Cause,
        deadlines::{Deadlines, Due},
    },
};
use tenure_scheduler::{Finish, FinishedHow, Grant, JobId, Return, Statement};

use crate::{
    clock::{MS, S},
    faults::Fault,
    host::{AgentInput, CPU, Spooled},
    oracle::Process,
    trace::say,
    world::{Broken, Happening, KINDS, World, kind_of},
};

/// A tree that is still there so long after SIGKILL is reported.
const UNKILLABLE: u64 = 60 * S;
/// A word takes less than this to its agent; what is said after it waits for so long.
const LATER: u64 = 6 * MS;

/// What the agent ordered of an attempt that it has prepared itself.
#[derive(Debug)]
pub(crate) struct Orders {
    grant: Box<Grant>,
    gone_by: Mono,
    stop: Option<Stop>,
    returning: Option<Record>,
}

/// What a shim wrote down when its command had ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    cause: Cause,
    code: Option<i32>,
}

/// What a shim says to its agent.
#[derive(Debug)]
pub(crate) enum ShimWord {
    Started,
    Ended(Record),
    Unkillable,
    Reaped,
}

/// What reaches a shim.
#[derive(Debug)]
pub(crate) enum ShimInput {
    /// Its timer, or a thaw.
    Wake,
    CommandEnds,
    TreeGone,
    Renew {
        gone_by: Mono,
    },
    Stop {
        cause: Cause,
        at_once: bool,
    },
    /// SIGKILL to what it holds, by the next agent.
    Sweep,
}

/// An attempt directory, and the tree that belongs to it.
#[derive(Debug)]
pub(crate) struct Attempt {
    job: JobId,
    kind: usize,
    slots: BTreeMap<String, u32>,
    deadlines: Deadlines,
    /// What it exits with if nobody stops it.
    code: i32,
    command: bool,
    tree: bool,
    killing: bool,
    stubborn: bool,
    lingering: bool,
    /// SIGKILL takes so long.
    unkillable: Option<u64>,
    record: Option<Record>,
    /// Why its agent stopped it.
    stop: Option<StopReason>,
    wake: u64,
    /// Its directory was deleted: nobody knows what it is.
    lost: bool,
    /// It had ended before the present agent looked.
    ended_before: bool,
}

impl Attempt {
    pub(super) fn lose_files(&mut self) {
        self.lost = true;
        self.record = None;
    }
}

/// What the node file says.
pub(super) fn options() -> Options {
    Options {
        slots: [("cpu".to_owned(), CPU)].into(),
        kinds: KINDS.iter().map(|kind| (kind.name.to_owned(), kind.grace)).collect(),
        starts: BTreeMap::new(),
    }
}

pub(super) fn unstored(token: u64, spooled: &Spooled) -> (FencingToken, Unstored) {
    (FencingToken(token), Unstored { job: spooled.job.to_string(), end: spooled.end })
}

// The agent's half.
impl World {
    pub(super) fn prepare(&mut self, index: usize, grant: &Grant) {
        let token = grant.token.0;
        let orders =
            Orders { grant: Box::new(grant.clone()), gone_by: Mono::ZERO, stop: None, returning: None };
        self.hosts[index].agent.orders.insert(token, orders);
        let after = self.random.between(MS, 50 * MS);
        self.plan_agent(index, after, AgentInput::Prepared { token });
    }

    pub(super) fn abandon(&mut self, index: usize, token: u64) {
        self.hosts[index].agent.orders.remove(&token);
    }

    pub(super) fn order_start(&mut self, index: usize, token: u64, gone_by: Mono) {
        if let Some(orders) = self.hosts[index].agent.orders.get_mut(&token) {
            orders.gone_by = gone_by;
        }
        let after = self.random.between(5 * MS, 60 * MS);
        self.plan_agent(index, after, AgentInput::Go { token });
    }

    pub(super) fn order_extend(&mut self, index: usize, token: u64, gone_by: Mono) {
        if let Some(orders) = self.hosts[index].agent.orders.get_mut(&token) {
            orders.gone_by = orders.gone_by.max(gone_by);
        }
        self.tell_shim(index, token, ShimInput::Renew { gone_by });
    }

    pub(super) fn order_stop(&mut self, index: usize, token: u64, stop: Stop) {
        if let Some(orders) = self.hosts[index].agent.orders.get_mut(&token) {
            orders.stop = Some(stop);
        }
        if let Some(attempt) = self.hosts[index].attempts.get_mut(&token) {
            attempt.stop.get_or_insert(stop.reason);
        }
        let cause = match stop.reason {
            StopReason::Drained => Cause::Drained,
            StopReason::NotLive | StopReason::Cancelled | StopReason::Unanswered | StopReason::Superseded => {
                Cause::Revoked
            }
        };
        self.tell_shim(index, token, ShimInput::Stop { cause, at_once: stop.at_once });
    }

    fn tell_shim(&mut self, index: usize, token: u64, input: ShimInput) {
        let boot = self.hosts[index].boot;
        let at = self.now + self.random.between(50, 500);
        self.plan(at, Happening::Shim { host: index, boot, token, input });
    }

    /// The shim is ready. Told to stop meanwhile, it leaves and nothing has run.
    pub(super) fn go(&mut self, index: usize, token: u64) {
        let now = self.node_now(index);
        let Some(orders) = self.hosts[index].agent.orders.get(&token) else { return };
        if orders.stop.is_some() {
            self.hosts[index].agent.orders.remove(&token);
            return self.hosts[index].agent.holdings.never_started(FencingToken(token), OwnRule::Draining);
        }
        let (grant, gone_by) = (orders.grant.clone(), orders.gone_by);
        let gone_by = if self.broken == Broken::NoGoneBy { Mono::MAX } else { gone_by };
        let kind = kind_of(&grant.kind);
        let spec = &KINDS[kind];
        let deadlines = Deadlines::new(now, grant.hard_time_limit, spec.grace, grant.lease, gone_by);
        let dice = self.random.below(100);
        let code = if dice < 80 {
            0
        } else if dice < 97 {
            1
        } else {
            64
        };
        let unkillable = self.happens(Fault::Unkillable).then(|| self.random.between(5 * S, 200 * S));
        let attempt = Attempt {
            job: grant.job,
            kind,
            slots: grant.slots.iter().map(|(slot, units)| (slot.to_string(), units)).collect(),
            deadlines,
            code,
            command: true,
            tree: true,
            killing: false,
            stubborn: self.happens(Fault::Stubborn),
            lingering: self.happens(Fault::Lingering),
            unkillable,
            record: None,
            stop: None,
            wake: u64::MAX,
            lost: false,
            ended_before: false,
        };
        say!(self, ("h{index}"), "{} {} runs", grant.job, grant.token);
        self.hosts[index].attempts.insert(token, attempt);
        let process =
            Process { host: index, job: grant.job, kind, gone_by: gone_by.as_micros(), unkillable: false };
        self.process_starts(grant.token, process);
        let runs = self.random.between(200 * MS, spec.longest);
        self.shim_later(index, token, runs, ShimInput::CommandEnds);
        self.plan_wake(index, token);
        self.shim_tells(index, token, ShimWord::Started);
    }

    pub(super) fn shim_says(&mut self, index: usize, token: u64, word: ShimWord) {
        let now = self.node_now(index);
        let agent = &mut self.hosts[index].agent;
        let own = agent.orders.get_mut(&token);
        match (word, own) {
            (ShimWord::Started, Some(_)) => agent.holdings.started(now, FencingToken(token)),
            (ShimWord::Unkillable, _) => agent.holdings.unkillable(FencingToken(token)),
            (ShimWord::Ended(record), Some(orders)) => {
                let stop = orders.stop.map(|stop| stop.reason);
                match end_of(record, stop) {
                    End::Returned => orders.returning = Some(record),
                    End::Finished => self.spool(index, token, (record, stop)),
                }
            }
            (ShimWord::Reaped, Some(orders)) => {
                let stop = orders.stop.map(|stop| stop.reason);
                if let Some(record) = orders.returning {
                    self.spool(index, token, (record, stop));
                } else {
                    agent.holdings.reaped(FencingToken(token));
                }
                self.hosts[index].agent.orders.remove(&token);
                self.hosts[index].attempts.remove(&token);
            }
            (ShimWord::Reaped, None) => self.leftover_gone(index, token),
            (ShimWord::Started | ShimWord::Ended(_), None) => {}
        }
    }

    /// Writes an end into the spool, and tells the holdings.
    fn spool(&mut self, index: usize, token: u64, (record, stop): (Record, Option<StopReason>)) {
        let Some(attempt) = self.hosts[index].attempts.get(&token) else { return };
        let (job, end) = (attempt.job, end_of(record, stop));
        let statement = statement(record, stop);
        self.hosts[index].dir.spool.insert(token, Spooled { job, end, statement });
        self.hosts[index].agent.holdings.ended(FencingToken(token), &job.to_string(), end);
    }

    /// Before Hello: what had ended goes into the spool.
    pub(super) fn spool_ended(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        for (token, attempt) in &mut host.attempts {
            attempt.ended_before = attempt.record.is_some();
            let Some(record) = attempt.record.filter(|record| end_of(*record, None) == End::Finished) else {
                continue;
            };
            let (job, end) = (attempt.job, End::Finished);
            let spooled = Spooled { job, end, statement: statement(record, None) };
            host.dir.spool.entry(*token).or_insert(spooled);
        }
    }

    /// What an earlier agent left is ended, and held until it is. The answer is how long that holds up the Hello.
    pub(super) fn find_leftovers(&mut self, index: usize) -> u64 {
        let mut wait = 0;
        let tokens: Vec<u64> = self.hosts[index].attempts.keys().copied().collect();
        for token in tokens {
            let host = &mut self.hosts[index];
            let Some(attempt) = host.attempts.get_mut(&token) else { continue };
            attempt.stop = None;
            if attempt.lost && !attempt.tree {
                host.attempts.remove(&token);
                continue;
            }
            if attempt.lost {
                let slow = attempt.unkillable.is_some();
                wait = wait.max(if slow { 10 * S } else { 200 * MS });
                self.tell_shim(index, token, ShimInput::Sweep);
                continue;
            }
            let (job, slots) = (attempt.job.to_string(), attempt.slots.clone());
            let tree = attempt.tree;
            host.agent.holdings.left_over(FencingToken(token), &job, slots);
            if tree {
                self.tell_shim(index, token, ShimInput::Stop { cause: Cause::Terminated, at_once: false });
            } else {
                self.shim_tells_after(index, token, LATER, ShimWord::Reaped);
            }
        }
        wait
    }

    fn leftover_gone(&mut self, index: usize, token: u64) {
        let host = &mut self.hosts[index];
        let Some(attempt) = host.attempts.get(&token) else { return };
        if attempt.lost {
            host.attempts.remove(&token);
            return;
        }
        let mut returned = false;
        if !host.dir.spool.contains_key(&token) {
            let record = attempt.record.unwrap_or(Record { cause: Cause::Lost, code: None });
            let lost = record.cause == Cause::Terminated && !attempt.ended_before;
            let record = if lost { Record { cause: Cause::Lost, ..record } } else { record };
            returned = end_of(record, None) == End::Returned;
            self.spool(index, token, (record, None));
        }
        if !returned {
            self.hosts[index].agent.holdings.reaped(FencingToken(token));
        }
        self.hosts[index].attempts.remove(&token);
    }
}

// The shim's half.
impl World {
    /// After so long by the clock of its host.
    fn shim_later(&mut self, index: usize, token: u64, after: u64, input: ShimInput) {
        let host = &self.hosts[index];
        let at = host.clock.when(host.clock.at(self.now) + after);
        let boot = host.boot;
        self.plan(at, Happening::Shim { host: index, boot, token, input });
    }

    /// Its agent hears of it, if one lives.
    fn shim_tells(&mut self, index: usize, token: u64, word: ShimWord) {
        if self.hosts[index].agent.up {
            let after = self.random.between(50, 5 * MS);
            self.plan_agent(index, after, AgentInput::Shim { token, word });
        }
    }

    fn plan_wake(&mut self, index: usize, token: u64) {
        let (clock, now) = (self.hosts[index].clock.clone(), self.now);
        let boot = self.hosts[index].boot;
        let Some(attempt) = self.hosts[index].attempts.get_mut(&token) else { return };
        let Some(wake) = attempt.deadlines.wake_at().filter(|at| *at < Mono::from_micros(u64::MAX / 4))
        else {
            return;
        };
        let at = clock.when(wake.as_micros()).max(now + 1);
        if at < attempt.wake || attempt.wake <= now {
            attempt.wake = at;
            self.plan(at, Happening::Shim { host: index, boot, token, input: ShimInput::Wake });
        }
    }

    pub(super) fn shim_input(&mut self, index: usize, token: u64, input: ShimInput) {
        let now = self.node_now(index);
        let unbounded = self.broken == Broken::NoGoneBy;
        let Some(attempt) = self.hosts[index].attempts.get_mut(&token) else { return };
        if !attempt.tree {
            return;
        }
        match input {
            ShimInput::Wake => {}
            ShimInput::Renew { gone_by } if !unbounded => {
                attempt.deadlines.renew(gone_by);
                self.oracle.renewed(token, gone_by.as_micros());
            }
            ShimInput::Renew { .. } => {}
            ShimInput::Stop { cause, at_once } => {
                let grace = if at_once { std::time::Duration::ZERO } else { KINDS[attempt.kind].grace };
                attempt.deadlines.stop(cause, grace, now);
            }
            ShimInput::Sweep => attempt.deadlines.stop(Cause::Lost, std::time::Duration::ZERO, now),
            ShimInput::CommandEnds => return self.command_ends(index, token),
            ShimInput::TreeGone => return self.tree_gone(index, token),
        }
        self.keep_deadlines(index, token);
    }

    fn keep_deadlines(&mut self, index: usize, token: u64) {
        let now = self.node_now(index);
        let Some(attempt) = self.hosts[index].attempts.get_mut(&token) else { return };
        let (stubborn, unkillable) = (attempt.stubborn, attempt.unkillable);
        match attempt.deadlines.due(now) {
            Due::Nothing => {}
            Due::Ask if stubborn || !attempt.command => {}
            Due::Ask => {
                let after = self.random.between(MS, 1_500 * MS);
                self.shim_later(index, token, after, ShimInput::CommandEnds);
            }
            Due::Kill if attempt.killing => {}
            Due::Kill => {
                attempt.killing = true;
                let after = unkillable.unwrap_or_else(|| self.random.between(MS, 60 * MS));
                if unkillable.is_some() {
                    say!(self, ("h{index}"), "{} does not die", tenure_scheduler::FencingToken(token));
                    self.oracle.unkillable(token);
                }
                if after > UNKILLABLE {
                    self.shim_tells_after(index, token, UNKILLABLE, ShimWord::Unkillable);
                }
                self.shim_later(index, token, after, ShimInput::TreeGone);
            }
        }
        self.plan_wake(index, token);
    }

    fn command_ends(&mut self, index: usize, token: u64) {
        let now = self.node_now(index);
        let Some(attempt) = self.hosts[index].attempts.get_mut(&token) else { return };
        if !std::mem::take(&mut attempt.command) {
            return;
        }
        let record = match attempt.deadlines.cause() {
            Some(cause) => Record { cause, code: None },
            None => Record { cause: Cause::Exit, code: Some(attempt.code) },
        };
        if !attempt.lost {
            attempt.record = Some(record);
        }
        attempt.deadlines.clear_away(now);
        let lingering = attempt.lingering || attempt.killing;
        self.shim_tells(index, token, ShimWord::Ended(record));
        if !lingering {
            let after = self.random.between(MS, 20 * MS);
            self.shim_later(index, token, after, ShimInput::TreeGone);
        }
        self.keep_deadlines(index, token);
    }

    fn tree_gone(&mut self, index: usize, token: u64) {
        let Some(attempt) = self.hosts[index].attempts.get_mut(&token) else { return };
        if attempt.command {
            self.command_ends(index, token);
        }
        let Some(attempt) = self.hosts[index].attempts.get_mut(&token) else { return };
        attempt.tree = false;
        self.process_ends(index, token);
        self.shim_tells_after(index, token, LATER, ShimWord::Reaped);
    }

    /// Power off: no tree is left, and of the directories only what was written down.
    pub(super) fn trees_die(&mut self, index: usize) {
        let tokens: Vec<u64> = self.hosts[index].attempts.keys().copied().collect();
        for token in tokens {
            let Some(attempt) = self.hosts[index].attempts.get_mut(&token) else { continue };
            if std::mem::take(&mut attempt.tree) {
                self.process_ends(index, token);
            }
        }
        self.hosts[index].attempts.retain(|_, attempt| attempt.record.is_some() && !attempt.lost);
    }

    /// A shim is killed: the kernel kills its command with it.
    pub(crate) fn kill_shim(&mut self, index: usize) -> bool {
        let alive = |attempt: &&Attempt| attempt.command && attempt.unkillable.is_none();
        let attempts = &self.hosts[index].attempts;
        let tokens: Vec<u64> =
            attempts.iter().filter(|(_, attempt)| alive(attempt)).map(|(token, _)| *token).collect();
        let Some(token) = self.random.pick(&tokens).filter(|_| !self.hosts[index].suspended) else {
            return false;
        };
        say!(self, ("fault"), "the shim of {} on h{index} is killed", tenure_scheduler::FencingToken(token));
        let Some(attempt) = self.hosts[index].attempts.get_mut(&token) else { return false };
        (attempt.command, attempt.tree) = (false, false);
        self.process_ends(index, token);
        self.shim_tells(index, token, ShimWord::Ended(Record { cause: Cause::Lost, code: None }));
        self.shim_tells_after(index, token, LATER, ShimWord::Reaped);
        true
    }

    fn shim_tells_after(&mut self, index: usize, token: u64, after: u64, word: ShimWord) {
        if self.hosts[index].agent.up {
            self.plan_agent(index, after, AgentInput::Shim { token, word });
        }
    }

    /// The world heals: what did not die dies.
    pub(super) fn kill_what_cannot_be(&mut self, index: usize) {
        let tokens: Vec<u64> = self.hosts[index].attempts.keys().copied().collect();
        for token in tokens {
            let Some(attempt) = self.hosts[index].attempts.get_mut(&token) else { continue };
            attempt.unkillable = None;
            if attempt.killing {
                self.tell_shim(index, token, ShimInput::TreeGone);
            }
        }
    }

    fn process_ends(&mut self, index: usize, token: u64) {
        say!(self, ("h{index}"), "{} is gone", tenure_scheduler::FencingToken(token));
        self.oracle.ended(token);
    }
}

/// As the agent's runner judges it.
fn end_of(record: Record, stop: Option<StopReason>) -> End {
    match record.cause {
        Cause::CutOff | Cause::Drained | Cause::Terminated => End::Returned,
        Cause::Revoked => match stop {
            Some(StopReason::Unanswered | StopReason::Superseded | StopReason::Drained) => End::Returned,
            Some(StopReason::NotLive | StopReason::Cancelled) | None => End::Finished,
        },
        Cause::Exit | Cause::Signal | Cause::Oom | Cause::Limit | Cause::Disk | Cause::Spawn | Cause::Lost => {
            End::Finished
        },
    }
}

fn statement(record: Record, stop: Option<StopReason>) -> Statement {
    if end_of(record, stop) == End::Returned {
        let rule = match (record.cause, stop) {
            (Cause::CutOff, _) => OwnRule::CutOff,
            (Cause::Terminated, _) => OwnRule::Terminated,
            (_, Some(stop)) => stop.rule(),
            (_, None) => OwnRule::Draining,
        };
        return Statement::Returned(Return {
            rule: rule.to_string().into(),
            observed: 0.0,
            threshold: 0.0,
            generation: 0,
            retry_after: None,
            started: true,
        });
    }
    let how = match (record.cause, record.code) {
        (Cause::Exit, Some(0)) => FinishedHow::Succeeded,
        (Cause::Exit | Cause::Signal | Cause::Oom | Cause::Disk | Cause::Spawn, _) => FinishedHow::Failed,
        (Cause::Limit, _) => FinishedHow::TimedOut,
        (Cause::Revoked, _) => FinishedHow::Revoked,
        (Cause::CutOff | Cause::Drained | Cause::Terminated | Cause::Lost, _) => FinishedHow::Lost,
    };
    Statement::Finished(Finish {
        how,
        exit_code: record.code,
        cause: record.cause.as_str().into(),
        error: "".into(),
        retry_after: None,
        throttled: None,
        usage: Default::default(),
        has_result: how == FinishedHow::Succeeded,
        detach: None,
    })
}

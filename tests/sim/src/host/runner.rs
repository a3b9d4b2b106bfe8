//! The agent's half of an attempt: from a grant that may run to a report that is safe, and what an earlier agent left.
//! Follows `runner/*` and `leftovers` of the agent.

use std::{collections::BTreeMap, time::Duration};

use tenure_node_agent::{
    clock::Mono,
    holdings::{Adopted, End, FencingToken, Options, Stop, StopReason, Unstored},
    own_rule::OwnRule,
    shim::{Cause, deadlines::Deadlines},
};
use tenure_scheduler::{Finish, FinishedHow, Grant, Return, Statement, Usage};

use crate::{
    clock::{MS, S},
    faults::Fault,
    host::{
        AgentInput, CPU, Spooled,
        shim::{Attempt, LATER, Record, ShimInput, ShimWord},
    },
    oracle::Process,
    trace::say,
    world::{Broken, Happening, KINDS, World, kind_of},
};

/// What the agent ordered of an attempt that it has prepared itself.
#[derive(Debug)]
pub(crate) struct Orders {
    /// None: an earlier agent has started it.
    grant: Option<Box<Grant>>,
    gone_by: Mono,
    stop: Option<Stop>,
    returning: Option<Record>,
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

impl World {
    pub(super) fn prepare(&mut self, index: usize, grant: &Grant) {
        let token = grant.token.0;
        let orders =
            Orders { grant: Some(Box::new(grant.clone())), gone_by: Mono::ZERO, stop: None, returning: None };
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

    pub(super) fn tell_shim(&mut self, index: usize, token: u64, input: ShimInput) {
        let boot = self.hosts[index].boot;
        let at = self.now + self.random.between(50, 500);
        self.plan(at, Happening::Shim { host: index, boot, token, input });
    }

    /// The shim is ready. Told to stop meanwhile, it leaves and nothing has run.
    pub(super) fn go(&mut self, index: usize, token: u64) {
        let now = self.node_now(index);
        let Some(orders) = self.hosts[index].agent.orders.get(&token) else { return };
        let Some(grant) = orders.grant.clone() else { return };
        if orders.stop.is_some() {
            self.hosts[index].agent.orders.remove(&token);
            return self.hosts[index].agent.holdings.never_started(FencingToken(token), OwnRule::Draining);
        }
        let gone_by = orders.gone_by;
        let gone_by = if self.broken == Broken::NoGoneBy { Mono::MAX } else { gone_by };
        let kind = kind_of(&grant.kind);
        let spec = &KINDS[kind];
        let deadlines = Deadlines::new(now, grant.hard_time_limit, spec.grace, grant.lease, gone_by);
        let dice = self.random.below(100);
        let code = if dice < 80 || self.outage.is_some() {
            0
        } else if dice < 97 {
            1
        } else {
            64
        };
        let late = gone_by <= now;
        let unkillable = self.happens(Fault::Unkillable).then(|| self.random.between(5 * S, 200 * S));
        let attempt = Attempt {
            job: grant.job,
            kind,
            slots: grant.slots.iter().map(|(slot, units)| (slot.to_string(), units)).collect(),
            deadlines,
            code,
            command: !late,
            tree: !late,
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
        self.hosts[index].attempts.insert(token, attempt);
        if late {
            // Frozen until its lease was over: the shim leaves, and nothing has run.
            let record = Record { cause: Cause::Terminated, code: None };
            self.shim_tells(index, token, ShimWord::Ended(record));
            return self.shim_tells_after(index, token, LATER, ShimWord::Reaped);
        }
        say!(self, ("h{index}"), "{} {} runs", grant.job, grant.token);
        let process = Process {
            host: index,
            job: grant.job,
            kind,
            gone_by: gone_by.as_micros(),
            unkillable: false,
            unknown: false,
        };
        self.process_starts(grant.token, process);
        let shortest = if self.outage.is_some() { spec.longest / 4 } else { 200 * MS };
        let runs = self.random.between(shortest, spec.longest);
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

    /// What an earlier agent left goes on if it runs; else it is ended, and held until it is. The answer is how long that
    /// holds up the Hello.
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
            let (tree, ended) = (attempt.tree, attempt.record.is_some());
            if tree && !ended {
                let held = Adopted {
                    slots,
                    lease: Duration::from_secs(KINDS[attempt.kind].lease),
                    grace: KINDS[attempt.kind].grace,
                    gone_by: attempt.deadlines.gone_by(),
                    started: Some(attempt.deadlines.start()),
                    stopping: attempt.deadlines.is_stopping(),
                    waiting: None,
                };
                let orders = Orders { grant: None, gone_by: held.gone_by, stop: None, returning: None };
                host.agent.orders.insert(token, orders);
                host.agent.holdings.adopted(FencingToken(token), &job, held);
                self.counts.adoptions += 1;
                continue;
            }
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

/// As the agent's runner judges it.
fn end_of(record: Record, stop: Option<StopReason>) -> End {
    match record.cause {
        Cause::CutOff | Cause::Drained | Cause::Terminated => End::Returned,
        Cause::Revoked => match stop {
            Some(StopReason::Unanswered | StopReason::Superseded | StopReason::Drained) => End::Returned,
            Some(StopReason::NotLive | StopReason::Cancelled) | None => End::Finished,
        },
        Cause::Exit
        | Cause::Signal
        | Cause::Oom
        | Cause::Limit
        | Cause::SoftLimit
        | Cause::Stalled
        | Cause::Disk
        | Cause::Spawn
        | Cause::Lost => End::Finished,
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
            usage: Usage::new(),
            has_result: false,
            checkpoint: None,
        });
    }
    let how = match (record.cause, record.code) {
        (Cause::Exit, Some(0)) => FinishedHow::Succeeded,
        (Cause::Exit | Cause::Signal | Cause::Oom | Cause::Disk | Cause::Spawn, _) => FinishedHow::Failed,
        (Cause::Limit | Cause::SoftLimit, _) => FinishedHow::TimedOut,
        (Cause::Stalled, _) => FinishedHow::Stalled,
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
        partial: false,
        checkpoint: None,
        detach: None,
    })
}

//! What must hold, whatever happens: watched from outside, with the true time and a view of every process at once.
//!
//! Two processes of one job never run at the same time, but for what only the fencing token protects from: a process that
//! cannot be killed once its lease is over, a host that was frozen past its lease until its shim's first look at the
//! clock, and leases that a failover to a standby that lags behind has lost.

mod crons;
mod flows;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_scheduler::{Effect, Event, FencingToken, JobId, Message, Reply, Stage, micros};

use crate::{
    clock::S,
    host::CPU,
    server::Role,
    world::{API, KINDS, World},
};

/// A process tree, from its start until nothing is left of it.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) host: usize,
    pub(crate) job: JobId,
    pub(crate) kind: usize,
    /// By the clock of its host.
    pub(crate) gone_by: u64,
    pub(crate) unkillable: bool,
    /// It cannot be killed, and the state directory that named it is gone: no agent knows what it takes.
    pub(crate) unknown: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    alive: BTreeMap<u64, Process>,
    /// Hosts that are suspended.
    frozen: BTreeSet<usize>,
    /// Hosts that just woke: until then a shim may not have looked at its clock.
    waking: BTreeMap<usize, u64>,
    /// Every grant that was ever sent.
    granted: BTreeMap<u64, JobId>,
    lost_tokens: BTreeSet<u64>,
    lost_jobs: BTreeSet<JobId>,
    /// Jobs whose cancel was answered: in which round, and the newest token that the job had by then.
    cancelled: BTreeMap<JobId, (u32, FencingToken)>,
    /// Jobs whose enqueue was answered.
    acknowledged: BTreeSet<JobId>,
    looked: flows::Looked,
    fired: crons::Fired,
    /// Of a timetable that was behind by years not every instant was counted.
    pub(crate) left_out: bool,
    /// By leader and token: when it heard of the lease, and for how long that counts.
    heard: BTreeMap<(usize, u64), (u64, Duration)>,
}

impl Oracle {
    pub(crate) fn renewed(&mut self, token: u64, gone_by: u64) {
        if let Some(process) = self.alive.get_mut(&token) {
            process.gone_by = process.gone_by.max(gone_by);
        }
    }

    pub(crate) fn unkillable(&mut self, token: u64, unknown: bool) {
        if let Some(process) = self.alive.get_mut(&token) {
            process.unkillable = true;
            process.unknown = unknown;
        }
    }

    pub(crate) fn ended(&mut self, token: u64) {
        self.alive.remove(&token);
    }

    pub(crate) fn suspended(&mut self, host: usize) {
        self.frozen.insert(host);
    }

    pub(crate) fn woken(&mut self, host: usize, until: u64) {
        self.frozen.remove(&host);
        self.waking.insert(host, until);
    }

    /// A failover lost the newest changes of these.
    pub(crate) fn lost(&mut self, jobs: &BTreeSet<JobId>, tokens: &BTreeSet<FencingToken>) {
        self.lost_jobs.extend(jobs);
        self.lost_tokens.extend(tokens.iter().map(|token| token.0));
    }

    /// What asked for an end of these may be lost.
    pub(crate) fn forget_cancels(&mut self, jobs: impl Iterator<Item = JobId>) {
        for job in jobs {
            self.cancelled.remove(&job);
        }
    }

    pub(crate) fn has_lost(&self, job: JobId) -> bool {
        self.lost_jobs.contains(&job)
    }

    pub(crate) fn processes(&self) -> usize {
        self.alive.len()
    }
}

impl World {
    /// Whether a process counts: not so where only the token protects.
    fn counts(&self, token: u64, process: &Process) -> bool {
        let over = self.hosts[process.host].clock.at(self.now) >= process.gone_by;
        let waking = self.oracle.waking.get(&process.host).is_some_and(|until| self.now <= *until);
        let exempt = self.oracle.lost_tokens.contains(&token)
            || self.oracle.frozen.contains(&process.host)
            || (over && (process.unkillable || waking));
        !exempt
    }

    pub(crate) fn process_starts(&mut self, token: FencingToken, process: Process) {
        self.counts.processes += 1;
        let alive = self.oracle.alive.iter().filter(|(token, other)| self.counts(**token, other));
        let others: Vec<(u64, Process)> = alive.map(|(token, other)| (*token, other.clone())).collect();
        if self.oracle.lost_tokens.contains(&token.0) {
            self.oracle.alive.insert(token.0, process);
            return;
        }
        if let Some((other, there)) = others.iter().find(|(_, other)| other.job == process.job) {
            let other = FencingToken(*other);
            self.violated(format!(
                "two processes of {}: {token} starts on h{}, {other} runs on h{}",
                process.job, process.host, there.host
            ));
        }
        let cpu = |process: &Process| KINDS[process.kind].cpu;
        let here = others.iter().filter(|(_, other)| other.host == process.host && !other.unknown);
        let used: u32 = here.map(|(_, other)| cpu(other)).sum::<u32>() + cpu(&process);
        if used > CPU {
            self.violated(format!("h{} runs {used} of {CPU} cpu with {token}", process.host));
        }
        let api = |process: &Process| KINDS[process.kind].api;
        let used: u32 = others.iter().map(|(_, other)| api(other)).sum::<u32>() + api(&process);
        if api(&process) > 0 && used > API {
            self.violated(format!("{used} of {API} api are in use with {token}"));
        }
        self.runs_alone(&process, &others);
        self.oracle.alive.insert(token.0, process);
    }

    /// The invariants of the scheduler's own memory.
    pub(crate) fn check_leader(&mut self, index: usize) {
        let Role::Leading(leader) = &self.servers[index].role else { return };
        if let Some(violation) = leader.state.check_invariants().into_iter().next() {
            let (invariant, subject, detail) = (violation.invariant, violation.subject, violation.detail);
            self.violated(format!("s{index}: {invariant} {subject}: {detail}"));
        }
    }

    /// A leader counts its takeover as a heartbeat of every holder.
    pub(crate) fn oracle_loaded(&mut self, index: usize) {
        self.oracle.heard.retain(|(leader, _), _| *leader != index);
        for (token, lease) in &self.db.tables.leases {
            self.oracle.heard.insert((index, token.0), (self.now, lease.length));
        }
        let lost = |job: &&JobId| !self.db.tables.jobs.contains_key(job) && !self.oracle.has_lost(**job);
        if let Some(job) = self.oracle.acknowledged.iter().find(lost) {
            self.violated(format!("I1: {job} was acknowledged and is not stored"));
        }
    }

    /// What a leader has decided, committed or not: no lease ends early (I15).
    pub(crate) fn oracle_decided(&mut self, index: usize, events: &[Event], effects: &[Effect]) {
        self.gates_decided(index, events);
        self.firings_decided(index, events);
        for event in events {
            if let Event::AttemptEnded(end) = event
                && (&*end.cause == "lease_expired" || end.error.starts_with("its first lease"))
                && let Some((heard, length)) = self.oracle.heard.get(&(index, end.token.0)).copied()
            {
                let silent = micros(length) * 21 / 20 + 2 * S;
                // Its clock may be fast.
                let least = silent * 20 / 21;
                if self.now < heard + least {
                    let after = self.now - heard;
                    self.violated(format!("I15: {} ends after {after} µs of silence", end.token));
                }
            }
        }
        let mut heard = |token: FencingToken, length| {
            self.oracle.heard.insert((index, token.0), (self.now, length));
        };
        for effect in effects {
            let Effect::Send { message, .. } = effect else { continue };
            match message {
                Message::Grant(grant) => heard(grant.token, grant.first_lease),
                Message::Renewed { leases, .. } | Message::Welcome { renewed: leases, .. } => {
                    leases.iter().for_each(|(token, length)| heard(*token, *length));
                }
                Message::Revoke { .. }
                | Message::Resume { .. }
                | Message::Stored(_)
                | Message::Drain { .. }
                | Message::Configure { .. } => {}
            }
        }
    }

    /// A grant leaves a server: its token was never that of another job (I5), also where a failover forgot the first.
    pub(crate) fn oracle_granted(&mut self, token: FencingToken, job: JobId) {
        let before = self.oracle.granted.insert(token.0, job);
        if let Some(other) = before.filter(|other| *other != job) {
            self.violated(format!("I5: {token} is granted for {job}, and was for {other}"));
        }
    }

    /// What is durable now.
    pub(crate) fn oracle_committed(&mut self, events: &[Event]) {
        self.firings_committed(events);
        for event in events {
            if let Event::Granted { lease, .. } = event {
                let cancelled = self.oracle.cancelled.get(&lease.job);
                // A leader that was frozen inside a commit hears of it late: the token says what came first.
                let after =
                    |(round, newest): &(u32, FencingToken)| *round >= lease.round && lease.token > *newest;
                if cancelled.is_some_and(after) && !self.oracle.has_lost(lease.job) {
                    self.violated(format!("I17: {} is granted after it was cancelled", lease.job));
                }
            }
            let over = if let Event::AttemptEnded(end) = event {
                end.lease.is_none_or(|stage| stage == Stage::Unreaped).then_some(end.token)
            } else if let Event::LeaseGone(token) | Event::SlotsFreed(token) = event {
                Some(*token)
            } else {
                None
            };
            if let Some(token) = over
                && let Some(process) = self.oracle.alive.get(&token.0)
                && self.counts(token.0, process)
            {
                let host = process.host;
                self.violated(format!("{event}, but its process lives on h{host}"));
            }
        }
    }

    /// A leader answers a cancel.
    pub(crate) fn oracle_cancelled(&mut self, reply: &Reply) {
        if let Reply::Job { job, .. } = reply {
            let answer = (job.round, job.token);
            let known = self.oracle.cancelled.entry(job.id).or_insert(answer);
            // Of several answers in a round the first one counts.
            if known.0 < job.round {
                *known = answer;
            }
        }
    }

    /// A client has heard that its job is stored.
    pub(crate) fn oracle_acknowledged(&mut self, job: JobId) {
        self.oracle.acknowledged.insert(job);
        if !self.db.tables.jobs.contains_key(&job) && !self.oracle.has_lost(job) {
            self.violated(format!("I1: {job} is acknowledged and not stored"));
        }
    }

    /// At the end of everything.
    pub(crate) fn oracle_ends(&mut self) {
        self.flows_end();
        self.timetables_end();
        for job in self.oracle.acknowledged.clone() {
            let stored = self.db.tables.jobs.get(&job);
            let lost = self.oracle.has_lost(job);
            match stored {
                None if !lost => self.violated(format!("I1: {job} was acknowledged and is not stored")),
                Some(job) if job.state.name() == "succeeded" && !lost => {
                    if !self.db.tables.result(job.id, job.token) {
                        let id = job.id;
                        self.violated(format!("{id} succeeded and has no result"));
                    }
                }
                Some(_) | None => {}
            }
        }
    }
}

//! A shim and its tree: it lives on without its agent, and enforces its deadlines alone, with the real `Deadlines` on the
//! clock of its host. Its timer, its signals and its tree are models.

use std::collections::BTreeMap;

use tenure_node_agent::{
    clock::Mono,
    holdings::StopReason,
    shim::{
        Cause,
        deadlines::{Deadlines, Due},
    },
};
use tenure_scheduler::{FencingToken, JobId};

use crate::{
    clock::{MS, S},
    host::AgentInput,
    trace::say,
    world::{Broken, Happening, KINDS, World},
};

/// A tree that is still there so long after SIGKILL is reported.
const UNKILLABLE: u64 = 60 * S;
/// A word takes less than this to its agent; what is said after it waits for so long.
pub(super) const LATER: u64 = 6 * MS;

/// What a shim wrote down when its command had ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(super) cause: Cause,
    pub(super) code: Option<i32>,
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
    pub(super) job: JobId,
    pub(super) kind: usize,
    pub(super) slots: BTreeMap<String, u32>,
    pub(super) deadlines: Deadlines,
    /// What it exits with if nobody stops it.
    pub(super) code: i32,
    pub(super) command: bool,
    pub(super) tree: bool,
    pub(super) killing: bool,
    pub(super) stubborn: bool,
    pub(super) lingering: bool,
    /// SIGKILL takes so long.
    pub(super) unkillable: Option<u64>,
    pub(super) record: Option<Record>,
    /// Why its agent stopped it.
    pub(super) stop: Option<StopReason>,
    pub(super) wake: u64,
    /// Its directory was deleted: nobody knows what it is.
    pub(super) lost: bool,
    /// It had ended before the present agent looked.
    pub(super) ended_before: bool,
}

impl Attempt {
    pub(super) fn lose_files(&mut self) {
        self.lost = true;
        self.record = None;
    }
}

impl World {
    /// After so long by the clock of its host.
    pub(super) fn shim_later(&mut self, index: usize, token: u64, after: u64, input: ShimInput) {
        let host = &self.hosts[index];
        let at = host.clock.when(host.clock.at(self.now) + after);
        let boot = host.boot;
        self.plan(at, Happening::Shim { host: index, boot, token, input });
    }

    /// Its agent hears of it, if one lives.
    pub(super) fn shim_tells(&mut self, index: usize, token: u64, word: ShimWord) {
        if self.hosts[index].agent.up {
            let after = self.random.between(50, 5 * MS);
            self.plan_agent(index, after, AgentInput::Shim { token, word });
        }
    }

    pub(super) fn plan_wake(&mut self, index: usize, token: u64) {
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
        let (stubborn, unkillable, lost) = (attempt.stubborn, attempt.unkillable, attempt.lost);
        match attempt.deadlines.due(now) {
            // No simulated kind has a soft limit.
            Due::Nothing | Due::Notify => {}
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
                    say!(self, ("h{index}"), "{} does not die", FencingToken(token));
                    self.oracle.unkillable(token, lost);
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
        say!(self, ("fault"), "the shim of {} on h{index} is killed", FencingToken(token));
        let Some(attempt) = self.hosts[index].attempts.get_mut(&token) else { return false };
        (attempt.command, attempt.tree) = (false, false);
        self.process_ends(index, token);
        self.shim_tells(index, token, ShimWord::Ended(Record { cause: Cause::Lost, code: None }));
        self.shim_tells_after(index, token, LATER, ShimWord::Reaped);
        true
    }

    pub(super) fn shim_tells_after(&mut self, index: usize, token: u64, after: u64, word: ShimWord) {
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
        say!(self, ("h{index}"), "{} is gone", FencingToken(token));
        self.oracle.ended(token);
    }
}

//! How often a tree is looked at until nothing of it is left, and when it is called unkillable.
//!
//! Responsible for rounds, pauses and the count of empty scans, for the shim and for the agent alike. Not
//! responsible for SIGTERM and its grace.
//! Invariant: `is_gone` only after two scans in a row without a member, and with an empty cgroup where there is one.

use std::time::Duration;

use super::tree::{Member, Tree};
use crate::clock::Mono;

/// A tree that lives this long after its first SIGKILL is called unkillable.
const UNKILLABLE: Duration = Duration::from_secs(60);
/// The first pause between two rounds; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// The pause once it is unkillable.
const HOPELESS_PAUSE: Duration = Duration::from_secs(1);
/// SIGKILL is sent this often in one round, without a pause, while there is somebody to get it: a tree that forks
/// must not get time between two of them.
const STROKES: u32 = 5;

/// The end of one tree.
#[derive(Debug)]
pub(crate) struct Sweep {
    next_at: Mono,
    pause: Duration,
    killing_since: Option<Mono>,
    gone: bool,
}

/// What one round found.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is not time yet.
    Wait,
    /// Something is there.
    Alive {
        /// What.
        members: Vec<Member>,
        /// It has got SIGKILL for a minute.
        unkillable: bool,
    },
    /// Nothing is left.
    Gone,
}

impl Sweep {
    /// The first round is due `now`.
    pub(crate) fn new(now: Mono) -> Self {
        Self { next_at: now, pause: FIRST_PAUSE, killing_since: None, gone: false }
    }

    /// From now on every round sends SIGKILL.
    pub(crate) fn kill(&mut self, now: Mono) {
        if self.killing_since.is_none() {
            self.killing_since = Some(now);
            self.pause = FIRST_PAUSE;
            self.next_at = now;
        }
    }

    /// Whether rounds send SIGKILL.
    pub(crate) fn is_killing(&self) -> bool {
        self.killing_since.is_some()
    }

    /// When the next round is due.
    pub(crate) fn next_at(&self) -> Mono {
        self.next_at
    }

    /// Whether nothing is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// One round, if it is due; `hurry` makes it due: something has just ended.
    pub(crate) fn round(&mut self, tree: &Tree, now: Mono, hurry: bool) -> Verdict {
        if self.gone {
            return Verdict::Gone;
        }
        if now < self.next_at && !hurry {
            return Verdict::Wait;
        }
        // A process table that cannot be read holds somebody, for all we know.
        let members = self.strike(tree).unwrap_or(None);
        self.settle(members, now)
    }

    /// What follows from a round: nobody twice in a row (`Some(empty)`), somebody, or too many to tell.
    fn settle(&mut self, members: Option<Vec<Member>>, now: Mono) -> Verdict {
        let unkillable = self.killing_since.is_some_and(|since| now.since(since) >= UNKILLABLE);
        match members {
            Some(members) if members.is_empty() => {
                self.gone = true;
                Verdict::Gone
            }
            members => {
                self.next_at = now + if unkillable { HOPELESS_PAUSE } else { self.pause };
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                Verdict::Alive { members: members.unwrap_or_default(), unkillable }
            }
        }
    }

    /// Looks, and kills if it is time to. `Some(empty)` if two looks in a row found nobody.
    fn strike(&self, tree: &Tree) -> std::io::Result<Option<Vec<Member>>> {
        let mut empty = 0;
        for stroke in 0..STROKES {
            let members = tree.members()?;
            let held = tree.is_held()?;
            if members.is_empty() && !held {
                empty += 1;
                if empty == 2 {
                    return Ok(Some(members));
                }
                continue;
            }
            empty = 0;
            let living = held || members.iter().any(|member| !member.zombie);
            if !self.is_killing() || !living {
                // Somebody whom this look missed is met by the next.
                return Ok(Some(members).filter(|members| !members.is_empty()));
            }
            tree.kill_held();
            tree.kill_all(&members);
            if stroke > 0 {
                tree.kill_groups(&members);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Identity;
    use super::*;

    fn at(millis: u64) -> Mono {
        Mono::from_micros(millis * 1_000)
    }

    fn somebody() -> Option<Vec<Member>> {
        let identity = Identity { pid: 1, start: 0 };
        Some(vec![Member { identity, group: 1, session: 1, zombie: false }])
    }

    #[test]
    fn a_tree_that_does_not_go_is_unkillable_a_minute_after_its_first_sigkill() {
        let mut sweep = Sweep::new(at(0));
        let unkillable = |verdict| matches!(verdict, Verdict::Alive { unkillable: true, .. });
        assert!(!unkillable(sweep.settle(somebody(), at(100_000))), "it was only asked");
        sweep.kill(at(100_000));
        assert!(!unkillable(sweep.settle(somebody(), at(159_999))));
        assert!(unkillable(sweep.settle(None, at(160_000))));
        assert_eq!(sweep.next_at(), at(161_000), "it goes on, slowly");
        assert!(matches!(sweep.settle(Some(Vec::new()), at(161_000)), Verdict::Gone));
        assert!(sweep.is_gone());
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut sweep = Sweep::new(at(0));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let now = sweep.next_at();
            sweep.settle(somebody(), now);
            pauses.push(sweep.next_at().since(now).as_millis());
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 200, 200]);
    }
}

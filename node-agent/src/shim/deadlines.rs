//! Pure: when an attempt must be asked to stop, and when it must be killed.
//!
//! Responsible for the order of hard limit, lease and orders, and for the cause that is recorded. Not responsible
//! for clocks and signals (`keeper.rs`).
//! Invariant: whatever was asked before, the tree is killed from `gone_by` − 1 s on, and once killing has begun no
//! renewal ends it.

use std::time::Duration;

use super::spec::Cause;
use crate::clock::Mono;

/// SIGKILL comes this long before `gone_by`.
const KILL_AHEAD: Duration = Duration::from_secs(1);

/// The deadlines of one attempt that was let go.
#[derive(Debug, Clone)]
pub struct Deadlines {
    started: Mono,
    hard_time_limit: Duration,
    grace: Duration,
    lease: Duration,
    gone_by: Mono,
    stop: Option<Stop>,
}

/// The tree is being stopped.
#[derive(Debug, Clone, Copy)]
struct Stop {
    /// Absent: its command has ended by itself, and the rest is cleared away.
    cause: Option<Cause>,
    kill_at: Mono,
    asked: bool,
    killing: bool,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing yet.
    Nothing,
    /// SIGTERM to the tree, once.
    Ask,
    /// SIGKILL to the tree, until it is gone.
    Kill,
}

impl Deadlines {
    /// Of an attempt that is let go `now`.
    pub fn new(
        now: Mono,
        hard_time_limit: Duration,
        grace: Duration,
        lease: Duration,
        gone_by: Mono,
    ) -> Self {
        Self { started: now, hard_time_limit, grace, lease, gone_by, stop: None }
    }

    /// The command was executed `now`: the hard limit counts from here.
    pub fn started(&mut self, now: Mono) {
        self.started = now;
    }

    /// When the command was executed.
    pub fn start(&self) -> Mono {
        self.started
    }

    /// When everything must be gone.
    pub fn gone_by(&self) -> Mono {
        self.gone_by
    }

    /// Whether it is being stopped, or has ended by itself.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// The lease was renewed. An earlier moment is ignored.
    pub fn renew(&mut self, gone_by: Mono) {
        self.gone_by = self.gone_by.max(gone_by);
    }

    /// An order to stop. A second one may only shorten the grace; the first cause stands.
    pub fn stop(&mut self, cause: Cause, grace: Duration, now: Mono) {
        self.begin(Some(cause), now + grace);
    }

    /// The command has ended: what outlives it is stopped likewise.
    pub fn clear_away(&mut self, now: Mono) {
        self.begin(None, now + self.grace);
    }

    /// What is due `now`.
    pub fn due(&mut self, now: Mono) -> Due {
        if self.stop.is_none() && now >= self.limit_at().min(self.cut_off_at()) {
            if self.cut_off_at() <= self.limit_at() {
                self.begin(Some(Cause::CutOff), self.last_moment());
            } else {
                self.begin(Some(Cause::Limit), now + self.grace);
            }
        }
        let last_moment = self.last_moment();
        let Some(stop) = &mut self.stop else { return Due::Nothing };
        stop.killing |= now >= stop.kill_at.min(last_moment);
        if stop.killing {
            Due::Kill
        } else if stop.asked {
            Due::Nothing
        } else {
            stop.asked = true;
            Due::Ask
        }
    }

    /// When `due` may next answer otherwise; `None` once killing has begun.
    pub fn wake_at(&self) -> Option<Mono> {
        match &self.stop {
            None => Some(self.limit_at().min(self.cut_off_at())),
            Some(Stop { killing: true, .. }) => None,
            Some(stop) => Some(stop.kill_at.min(self.last_moment())),
        }
    }

    /// Why it was stopped, if it was.
    pub fn cause(&self) -> Option<Cause> {
        self.stop.and_then(|stop| stop.cause)
    }

    fn begin(&mut self, cause: Option<Cause>, kill_at: Mono) {
        match &mut self.stop {
            Some(stop) => stop.kill_at = stop.kill_at.min(kill_at),
            None => self.stop = Some(Stop { cause, kill_at, asked: false, killing: false }),
        }
    }

    fn limit_at(&self) -> Mono {
        self.started + self.hard_time_limit
    }

    fn last_moment(&self) -> Mono {
        self.gone_by - KILL_AHEAD
    }

    fn cut_off_at(&self) -> Mono {
        self.last_moment() - self.grace.min(self.lease / 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lease of 100 s that ends at 95 s, a grace of 10 s, a hard limit of 60 s; let go at 0.
    fn deadlines() -> Deadlines {
        Deadlines::new(at(0), seconds(60), seconds(10), seconds(100), at(95))
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(seconds: u64) -> Mono {
        Mono::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn the_hard_limit_asks_then_kills_after_the_grace() {
        let mut deadlines = deadlines();
        assert_eq!(deadlines.wake_at(), Some(at(60)));
        assert_eq!(deadlines.due(at(59)), Due::Nothing);
        assert_eq!(deadlines.due(at(60)), Due::Ask);
        assert_eq!(deadlines.due(at(61)), Due::Nothing);
        assert_eq!(deadlines.wake_at(), Some(at(70)));
        assert_eq!(deadlines.due(at(70)), Due::Kill);
        assert_eq!(deadlines.cause(), Some(Cause::Limit));
    }

    #[test]
    fn the_hard_limit_counts_from_the_start_of_the_command() {
        let mut deadlines = deadlines();
        deadlines.started(at(5));
        assert_eq!(deadlines.due(at(64)), Due::Nothing);
        assert_eq!(deadlines.due(at(65)), Due::Ask);
    }

    #[test]
    fn a_lease_that_is_not_renewed_is_over_a_second_early() {
        let mut deadlines = Deadlines::new(at(0), seconds(3600), seconds(10), seconds(100), at(95));
        assert_eq!(deadlines.due(at(83)), Due::Nothing);
        assert_eq!(deadlines.due(at(84)), Due::Ask);
        assert_eq!(deadlines.due(at(93)), Due::Nothing);
        assert_eq!(deadlines.due(at(94)), Due::Kill);
        assert_eq!(deadlines.cause(), Some(Cause::CutOff));
    }

    #[test]
    fn a_grace_longer_than_a_fifth_of_the_lease_is_cut() {
        let mut deadlines = Deadlines::new(at(0), seconds(3600), seconds(500), seconds(100), at(95));
        assert_eq!(deadlines.due(at(73)), Due::Nothing);
        assert_eq!(deadlines.due(at(74)), Due::Ask);
    }

    #[test]
    fn a_renewal_moves_the_end_and_never_back() {
        let mut deadlines = Deadlines::new(at(0), seconds(3600), seconds(10), seconds(100), at(95));
        deadlines.renew(at(195));
        deadlines.renew(at(150));
        assert_eq!(deadlines.due(at(183)), Due::Nothing);
        assert_eq!(deadlines.due(at(184)), Due::Ask);
    }

    #[test]
    fn no_grace_reaches_past_the_lease() {
        let mut deadlines = deadlines();
        deadlines.stop(Cause::Revoked, seconds(1_000), at(10));
        assert_eq!(deadlines.due(at(10)), Due::Ask);
        assert_eq!(deadlines.wake_at(), Some(at(94)));
        assert_eq!(deadlines.due(at(94)), Due::Kill);
        assert_eq!(deadlines.cause(), Some(Cause::Revoked), "the first cause stands");
    }

    #[test]
    fn a_second_order_may_only_hurry() {
        let mut deadlines = deadlines();
        deadlines.stop(Cause::Drained, seconds(10), at(1));
        assert_eq!(deadlines.due(at(1)), Due::Ask);
        deadlines.stop(Cause::Revoked, seconds(40), at(2));
        assert_eq!(deadlines.due(at(10)), Due::Nothing);
        deadlines.stop(Cause::Revoked, Duration::ZERO, at(10));
        assert_eq!(deadlines.due(at(10)), Due::Kill);
        assert_eq!(deadlines.cause(), Some(Cause::Drained));
    }

    #[test]
    fn killing_goes_on_whatever_is_renewed() {
        let mut deadlines = Deadlines::new(at(0), seconds(3600), seconds(10), seconds(100), at(95));
        assert_eq!(deadlines.due(at(94)), Due::Kill);
        deadlines.renew(at(500));
        assert_eq!(deadlines.due(at(95)), Due::Kill);
        assert_eq!(deadlines.wake_at(), None);
    }

    #[test]
    fn what_outlives_its_command_is_asked_and_killed_without_a_cause() {
        let mut deadlines = deadlines();
        deadlines.clear_away(at(20));
        assert_eq!(deadlines.due(at(20)), Due::Ask);
        assert_eq!(deadlines.due(at(30)), Due::Kill);
        assert_eq!(deadlines.cause(), None);
    }
}

//! Pure: when an attempt must be asked to wrap up, when to stop, and when it must be killed.
//!
//! Responsible for the order of its time limits, its silence, its lease and orders, and for the cause that is recorded. Not
//! responsible for clocks and signals (`keeper.rs`).
//! Invariants: whatever was asked before, the tree is killed from `gone_by` − 1 s on, and once killing has begun no renewal
//! ends it; nobody is blamed for a silence in which no agent listened.

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
    soft: Option<Soft>,
    silence: Option<Silence>,
    /// Since when its run clock stands still; none: it runs.
    paused: Option<Mono>,
    /// For how long it stood still before.
    paused_for: Duration,
    stop: Option<Stop>,
}

/// The limit at which it is asked to wrap up.
#[derive(Debug, Clone, Copy)]
struct Soft {
    limit: Duration,
    /// From the notice to SIGTERM.
    grace: Duration,
    /// When it was told of the limit.
    told: Option<Mono>,
    /// It was told that its lease is about to run out, which it then did not.
    told_of_lease: bool,
    /// Whether it was ever told.
    ever: bool,
}

/// How long it may be silent.
#[derive(Debug, Clone, Copy)]
struct Silence {
    most: Duration,
    /// When somebody could hear it last, and it said something or began to be listened to. None: nobody listens.
    since: Option<Mono>,
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
    /// The soft notice, once for the limit, and once for each time that the lease is about to run out.
    Notify,
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
        Self {
            started: now,
            hard_time_limit,
            grace,
            lease,
            gone_by,
            soft: None,
            silence: None,
            paused: None,
            paused_for: Duration::ZERO,
            stop: None,
        }
    }

    /// With a soft limit: a notice then, and SIGTERM `grace` later. None: it is never asked to wrap up.
    #[must_use]
    pub fn with_soft(mut self, limit: Option<Duration>, grace: Duration) -> Self {
        self.soft = limit.map(|limit| Soft { limit, grace, told: None, told_of_lease: false, ever: false });
        self
    }

    /// With a limit of its silence. None: silence is no fault.
    #[must_use]
    pub fn with_silence(mut self, most: Option<Duration>) -> Self {
        self.silence = most.map(|most| Silence { most, since: Some(self.started) });
        self
    }

    /// The command was executed `now`: its limits count from here.
    pub fn started(&mut self, now: Mono) {
        self.started = now;
        self.heard(now);
    }

    /// When the command was executed.
    pub fn start(&self) -> Mono {
        self.started
    }

    /// For how long its run clock has stood still by `now`.
    pub fn paused_for(&self, now: Mono) -> Duration {
        self.paused_for + self.paused.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Whether its run clock stands still.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// When everything must be gone.
    pub fn gone_by(&self) -> Mono {
        self.gone_by
    }

    /// Whether it is being stopped, or has ended by itself.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// Whether it was ever asked to wrap up: what it leaves is partial.
    pub fn was_notified(&self) -> bool {
        self.soft.is_some_and(|soft| soft.ever)
    }

    /// The lease was renewed. An earlier moment is ignored.
    pub fn renew(&mut self, gone_by: Mono) {
        self.gone_by = self.gone_by.max(gone_by);
    }

    /// It said something.
    pub fn heard(&mut self, now: Mono) {
        if let Some(Silence { since: Some(since), .. }) = &mut self.silence {
            *since = now;
        }
    }

    /// Whether there is an agent that can hear it. What it could not say counts for nothing.
    pub fn listen(&mut self, listens: bool, now: Mono) {
        if let Some(silence) = &mut self.silence {
            match (silence.since, listens) {
                (None, true) => silence.since = Some(now),
                (Some(_), false) => silence.since = None,
                (Some(_), true) | (None, false) => {}
            }
        }
    }

    /// Stops its run clock, or lets it go on: parked, an attempt spends none of its time limits. Its lease runs on.
    pub fn pause(&mut self, paused: bool, now: Mono) {
        match (self.paused, paused) {
            (None, true) => self.paused = Some(now),
            (Some(since), false) => {
                self.paused = None;
                self.paused_for += now.since(since);
                self.heard(now);
            }
            (None, false) | (Some(_), true) => {}
        }
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
        if self.stop.is_none() {
            if let Some((_, cause)) = self.first_end().filter(|(at, _)| now >= *at) {
                let kill_at = if cause == Cause::CutOff { self.last_moment() } else { now + self.grace };
                self.begin(Some(cause), kill_at);
            } else if self.notify(now) {
                return Due::Notify;
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
            None => {
                let end = self.first_end().map(|(at, _)| at);
                [end, self.notice_at(), self.lease_notice_at()].into_iter().flatten().min()
            }
            Some(Stop { killing: true, .. }) => None,
            Some(stop) => Some(stop.kill_at.min(self.last_moment())),
        }
    }

    /// Why it was stopped, if it was.
    pub fn cause(&self) -> Option<Cause> {
        self.stop.and_then(|stop| stop.cause)
    }

    /// The first moment at which it is to be stopped if nothing happens, and the cause of that. Of two at once the one that
    /// says the least of the job.
    fn first_end(&self) -> Option<(Mono, Cause)> {
        let ends = [
            Some((self.cut_off_at(), Cause::CutOff)),
            self.limit_at().map(|at| (at, Cause::Limit)),
            self.soft_end_at().map(|at| (at, Cause::SoftLimit)),
            self.silent_at().map(|at| (at, Cause::Stalled)),
        ];
        ends.into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Whether a notice is due, which then counts as given.
    fn notify(&mut self, now: Mono) -> bool {
        let of_limit = self.notice_at().is_some_and(|at| now >= at);
        let near = self.near_end_at();
        let Some(soft) = &mut self.soft else { return false };
        // The lease was renewed since: the next time that it is about to run out is another one.
        let is_near = near.is_some_and(|at| now >= at);
        let of_lease = is_near && !soft.told_of_lease;
        soft.told_of_lease = is_near;
        if of_limit {
            soft.told = Some(now);
        }
        soft.ever |= of_limit || of_lease;
        of_limit || of_lease
    }

    fn begin(&mut self, cause: Option<Cause>, kill_at: Mono) {
        match &mut self.stop {
            Some(stop) => stop.kill_at = stop.kill_at.min(kill_at),
            None => self.stop = Some(Stop { cause, kill_at, asked: false, killing: false }),
        }
    }

    /// So much of its run clock after its start. None: the clock stands still.
    fn ran_for(&self, limit: Duration) -> Option<Mono> {
        self.paused.is_none().then(|| self.started + limit + self.paused_for)
    }

    fn limit_at(&self) -> Option<Mono> {
        self.ran_for(self.hard_time_limit)
    }

    fn notice_at(&self) -> Option<Mono> {
        self.soft.filter(|soft| soft.told.is_none()).and_then(|soft| self.ran_for(soft.limit))
    }

    /// When its soft grace is over, which it has whole even if it was told late, as after a freeze. Parked, it cannot wrap up.
    fn soft_end_at(&self) -> Option<Mono> {
        let soft = self.soft?;
        let told = soft.told?;
        self.ran_for(soft.limit + soft.grace).map(|at| at.max(told + soft.grace))
    }

    fn silent_at(&self) -> Option<Mono> {
        let silence = self.silence.filter(|_| self.paused.is_none())?;
        silence.since.map(|since| since + silence.most)
    }

    /// The notice that the lease is about to run out, if it was not given yet.
    fn lease_notice_at(&self) -> Option<Mono> {
        self.near_end_at().filter(|_| self.soft.is_some_and(|soft| !soft.told_of_lease))
    }

    /// One soft grace before the end of the lease, where that fits: in its second half, so that a lease that is renewed in
    /// time never comes so far. Only of an attempt that has a soft limit, since others do not expect to be told anything.
    fn near_end_at(&self) -> Option<Mono> {
        let soft = self.soft?;
        let ahead = KILL_AHEAD + self.grace.min(self.lease / 5) + soft.grace;
        (ahead <= self.lease / 2).then(|| self.gone_by - ahead)
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

    /// As above, with a soft limit of 30 s, a soft grace of 20 s and silence of 40 s; its lease does not matter.
    fn patient() -> Deadlines {
        Deadlines::new(at(0), seconds(60), seconds(10), seconds(1_000), at(950))
            .with_soft(Some(seconds(30)), seconds(20))
            .with_silence(Some(seconds(40)))
    }

    #[test]
    fn the_soft_limit_notifies_once_asks_after_its_grace_and_kills_after_the_other() {
        let mut deadlines = patient().with_silence(None);
        assert_eq!(deadlines.wake_at(), Some(at(30)));
        assert_eq!(deadlines.due(at(29)), Due::Nothing);
        assert!(!deadlines.was_notified());
        assert_eq!(deadlines.due(at(30)), Due::Notify);
        assert_eq!(deadlines.due(at(31)), Due::Nothing);
        assert!(deadlines.was_notified() && !deadlines.is_stopping());
        assert_eq!(deadlines.wake_at(), Some(at(50)));
        assert_eq!(deadlines.due(at(50)), Due::Ask);
        assert_eq!(deadlines.due(at(59)), Due::Nothing);
        assert_eq!(deadlines.due(at(60)), Due::Kill);
        assert_eq!(deadlines.cause(), Some(Cause::SoftLimit));
    }

    #[test]
    fn a_hard_limit_within_the_soft_grace_comes_first() {
        let mut deadlines = Deadlines::new(at(0), seconds(35), seconds(10), seconds(1_000), at(950))
            .with_soft(Some(seconds(30)), seconds(20));
        assert_eq!(deadlines.due(at(30)), Due::Notify);
        assert_eq!(deadlines.due(at(35)), Due::Ask);
        assert_eq!(deadlines.cause(), Some(Cause::Limit));
    }

    #[test]
    fn one_that_is_told_late_has_its_whole_soft_grace_but_no_more_than_its_hard_limit() {
        let mut deadlines = patient().with_silence(None);
        assert_eq!(deadlines.due(at(45)), Due::Notify, "its host was frozen");
        assert_eq!(deadlines.due(at(59)), Due::Nothing);
        assert_eq!(deadlines.due(at(60)), Due::Ask);
        assert_eq!(deadlines.cause(), Some(Cause::Limit));
    }

    #[test]
    fn silence_is_counted_from_the_start_and_from_each_word() {
        let mut deadlines = patient().with_soft(None, seconds(20));
        deadlines.started(at(5));
        assert_eq!(deadlines.wake_at(), Some(at(45)));
        deadlines.heard(at(20));
        assert_eq!(deadlines.due(at(59)), Due::Nothing);
        assert_eq!(deadlines.due(at(60)), Due::Ask);
        assert_eq!(deadlines.cause(), Some(Cause::Stalled));
        assert_eq!(deadlines.due(at(70)), Due::Kill);
        assert!(!deadlines.was_notified(), "it is not asked to wrap up");
    }

    #[test]
    fn nobody_is_stalled_while_no_agent_listens() {
        let mut deadlines = patient().with_soft(None, seconds(20));
        deadlines.listen(true, at(10));
        deadlines.listen(false, at(39));
        assert_eq!(deadlines.due(at(45)), Due::Nothing);
        assert_eq!(deadlines.wake_at(), Some(at(60)), "its other limits run on");
        deadlines.listen(true, at(50));
        deadlines.heard(at(51));
        deadlines.listen(true, at(52));
        assert_eq!(deadlines.due(at(59)), Due::Nothing);
        assert_eq!(deadlines.due(at(60)), Due::Ask);
        assert_eq!(deadlines.cause(), Some(Cause::Limit));
    }

    #[test]
    fn a_pause_moves_every_limit_but_the_end_of_the_lease() {
        let mut deadlines = patient();
        deadlines.pause(true, at(20));
        deadlines.pause(true, at(25));
        assert!(deadlines.is_paused());
        assert_eq!(deadlines.due(at(500)), Due::Nothing);
        assert_eq!(deadlines.paused_for(at(100)), seconds(80));
        deadlines.pause(false, at(120));
        deadlines.pause(false, at(125));
        assert_eq!(deadlines.due(at(129)), Due::Nothing);
        assert_eq!(deadlines.due(at(130)), Due::Notify);
        deadlines.heard(at(130));
        assert_eq!(deadlines.due(at(149)), Due::Nothing);
        assert_eq!(deadlines.due(at(150)), Due::Ask);
        assert_eq!(deadlines.cause(), Some(Cause::SoftLimit));

        let mut parked = patient();
        parked.pause(true, at(20));
        assert_eq!(parked.due(at(939)), Due::Ask);
        assert_eq!(parked.cause(), Some(Cause::CutOff));
    }

    #[test]
    fn a_lease_that_is_about_to_run_out_is_told_once_each_time_where_that_fits() {
        let lease = |grace| {
            Deadlines::new(at(0), seconds(3600), seconds(10), seconds(100), at(95))
                .with_soft(Some(seconds(3000)), seconds(grace))
        };
        let mut deadlines = lease(30);
        assert_eq!(deadlines.wake_at(), Some(at(54)));
        assert_eq!(deadlines.due(at(53)), Due::Nothing);
        assert_eq!(deadlines.due(at(54)), Due::Notify);
        assert_eq!(deadlines.due(at(55)), Due::Nothing);
        assert!(deadlines.was_notified());
        deadlines.renew(at(195));
        assert_eq!(deadlines.due(at(100)), Due::Nothing);
        assert_eq!(deadlines.due(at(154)), Due::Notify, "another time");
        assert_eq!(deadlines.due(at(184)), Due::Ask);
        assert_eq!(deadlines.cause(), Some(Cause::CutOff));

        assert_eq!(lease(40).due(at(83)), Due::Nothing, "it would come in the first half");
        let mut other = Deadlines::new(at(0), seconds(3600), seconds(10), seconds(100), at(95));
        assert_eq!(other.due(at(83)), Due::Nothing, "it expects to be told nothing");
    }
}

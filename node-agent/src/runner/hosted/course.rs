//! When an attempt in a worker is told to stop, and when its worker is killed for it. Pure.
//!
//! Invariants: it is told to stop at most once, but a later order may be more urgent; it is killed at the latest a second
//! before it must be gone.

use std::time::Duration;

use crate::clock::Mono;
use crate::holdings::{Stop, StopReason};

/// The worker is killed so long before its attempt must be gone.
const LAST: Duration = Duration::from_secs(1);

/// Why it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The session says so.
    Ordered(StopReason),
    /// It ran into its hard time limit.
    Limit,
    /// It did not wrap up within its soft grace.
    SoftLimit,
    /// Nobody has renewed its lease.
    CutOff,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// It is asked to wrap up, and has so long for it.
    WrapUp {
        /// Until it is told to stop.
        grace: Duration,
    },
    /// It is told to stop, and has so long for it.
    Stop {
        /// Why.
        why: Why,
        /// Until its worker is killed.
        grace: Duration,
    },
    /// Its worker is killed.
    Kill,
}

/// One attempt's deadlines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// When it was handed over.
    pub(super) started: Mono,
    /// Why it was told to stop, first.
    pub(super) why: Option<Why>,
    /// Whether it was asked to wrap up: what it leaves is partial.
    pub(super) asked: bool,
    /// When it is asked to wrap up, and then when it is told to stop; and the time between.
    soft: Option<(Mono, Duration)>,
    limit: Mono,
    grace: Duration,
    /// At most this before `gone_by` it is told.
    last_grace: Duration,
    gone_by: Mono,
    kill_at: Option<Mono>,
    killed: bool,
}

impl Course {
    pub(super) fn new(
        now: Mono,
        (limit, grace, lease): (Duration, Duration, Duration),
        gone_by: Mono,
    ) -> Self {
        let last_grace = grace.min(lease / 5);
        Self {
            started: now,
            why: None,
            asked: false,
            soft: None,
            limit: now + limit,
            grace,
            last_grace,
            gone_by,
            kill_at: None,
            killed: false,
        }
    }

    /// With a soft limit, and the time to wrap up after it. None: it is never asked to.
    pub(super) fn with_soft(mut self, limit: Option<Duration>, grace: Duration) -> Self {
        self.soft = limit.map(|limit| (self.started + limit, grace));
        self
    }

    /// The lease was renewed; whether that moves the deadline.
    pub(super) fn extend(&mut self, gone_by: Mono) -> bool {
        let later = gone_by > self.gone_by;
        self.gone_by = self.gone_by.max(gone_by);
        later
    }

    /// When [`Course::due`] has something.
    pub(super) fn next(&self) -> Mono {
        if self.killed {
            return Mono::MAX;
        }
        match self.kill_at {
            Some(kill_at) => kill_at.min(self.gone_by - LAST),
            None => self.limit.min(self.cut_off()).min(self.soft.map_or(Mono::MAX, |(at, _)| at)),
        }
    }

    /// What is to be done.
    pub(super) fn due(&mut self, now: Mono) -> Option<Due> {
        if now < self.next() {
            return None;
        }
        match self.kill_at {
            Some(_) => {
                self.killed = true;
                Some(Due::Kill)
            }
            None if now >= self.limit => self.stop(now, Why::Limit, self.grace),
            None if now >= self.cut_off() => self.stop(now, Why::CutOff, self.last_grace),
            None if self.asked => self.stop(now, Why::SoftLimit, self.grace),
            None => {
                let grace = self.soft.map_or(Duration::ZERO, |(_, grace)| grace);
                self.asked = true;
                self.soft = Some((now + grace, grace));
                Some(Due::WrapUp { grace })
            }
        }
    }

    /// The session wants it to stop.
    pub(super) fn ordered(&mut self, now: Mono, stop: Stop) -> Option<Due> {
        let grace = if stop.at_once { Duration::ZERO } else { self.grace };
        let sooner = self.kill_at.is_none_or(|kill_at| now + grace < kill_at);
        if self.killed || !(self.kill_at.is_none() || stop.at_once && sooner) {
            return None;
        }
        self.stop(now, Why::Ordered(stop.reason), grace)
    }

    fn cut_off(&self) -> Mono {
        self.gone_by - LAST - self.last_grace
    }

    fn stop(&mut self, now: Mono, why: Why, grace: Duration) -> Option<Due> {
        let kill_at = (now + grace).min((self.gone_by - LAST).max(now));
        self.why.get_or_insert(why);
        self.kill_at = Some(kill_at);
        if kill_at <= now {
            self.killed = true;
            return Some(Due::Kill);
        }
        Some(Due::Stop { why, grace: kill_at.since(now) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_micros(seconds * 1_000_000)
    }

    fn course() -> Course {
        let (limit, grace, lease) =
            (Duration::from_secs(100), Duration::from_secs(10), Duration::from_secs(20));
        Course::new(at(1_000), (limit, grace, lease), at(1_019))
    }

    fn stop(reason: StopReason, at_once: bool) -> Stop {
        Stop { reason, at_once }
    }

    #[test]
    fn without_a_renewal_it_is_told_and_killed_before_it_must_be_gone() {
        let mut course = course();
        // A fifth of the lease is shorter than the grace.
        assert_eq!(course.next(), at(1_014));
        assert_eq!(course.due(at(1_013)), None);
        let told = Due::Stop { why: Why::CutOff, grace: Duration::from_secs(4) };
        assert_eq!(course.due(at(1_014)), Some(told));
        assert_eq!(course.due(at(1_018)), Some(Due::Kill));
        assert_eq!((course.next(), course.why), (Mono::MAX, Some(Why::CutOff)));
    }

    #[test]
    fn a_renewal_moves_it_up_to_the_hard_limit() {
        let mut course = course();
        assert!(course.extend(at(1_500)) && !course.extend(at(1_400)));
        assert_eq!(course.due(at(1_050)), None);
        let told = Due::Stop { why: Why::Limit, grace: Duration::from_secs(10) };
        assert_eq!((course.next(), course.due(at(1_100))), (at(1_100), Some(told)));
        assert_eq!((course.due(at(1_109)), course.due(at(1_110))), (None, Some(Due::Kill)));
    }

    #[test]
    fn an_order_counts_once_and_one_at_once_hurries_it() {
        let mut course = course();
        course.extend(at(1_500));
        let first = course.ordered(at(1_001), stop(StopReason::Drained, false));
        let grace = Duration::from_secs(10);
        assert_eq!(first, Some(Due::Stop { why: Why::Ordered(StopReason::Drained), grace }));
        assert_eq!(course.ordered(at(1_002), stop(StopReason::Cancelled, false)), None);
        assert_eq!(course.ordered(at(1_003), stop(StopReason::Drained, true)), Some(Due::Kill));
        assert_eq!(course.ordered(at(1_004), stop(StopReason::Drained, true)), None);
        assert_eq!(course.why, Some(Why::Ordered(StopReason::Drained)));
    }

    #[test]
    fn at_the_soft_limit_it_is_asked_to_wrap_up_and_stopped_if_it_does_not() {
        let mut course = course().with_soft(Some(Duration::from_secs(30)), Duration::from_secs(20));
        course.extend(at(2_000));
        assert_eq!((course.next(), course.asked), (at(1_030), false));
        assert_eq!(course.due(at(1_031)), Some(Due::WrapUp { grace: Duration::from_secs(20) }));
        assert_eq!((course.due(at(1_050)), course.asked), (None, true));
        let told = Due::Stop { why: Why::SoftLimit, grace: Duration::from_secs(10) };
        assert_eq!(course.due(at(1_051)), Some(told));
        assert_eq!(course.due(at(1_061)), Some(Due::Kill));
        assert!(super::Course::with_soft(course, None, Duration::ZERO).soft.is_none());
    }

    #[test]
    fn a_limit_near_the_end_of_the_lease_leaves_less_grace() {
        let mut course = Course::new(
            at(0),
            (Duration::from_secs(12), Duration::from_secs(10), Duration::from_secs(20)),
            at(19),
        );
        let told = Due::Stop { why: Why::Limit, grace: Duration::from_secs(6) };
        assert_eq!(course.due(at(12)), Some(told));
    }
}

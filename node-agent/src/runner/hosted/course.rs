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
    /// Nothing was heard of it for its `progress_timeout`.
    Stalled,
    /// It gave back what it held in order to wait, was told to detach, and did not within its soft grace.
    Detach,
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
    /// How long it may be silent, and when it was heard last.
    silence: Option<(Duration, Mono)>,
    /// Since when it is parked, and its limits stand still. None: it is not.
    paused: Option<Mono>,
    /// For how long it was before.
    paused_for: Duration,
    /// By when it has to have detached.
    detach_by: Option<Mono>,
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
            silence: None,
            paused: None,
            paused_for: Duration::ZERO,
            detach_by: None,
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

    /// With a limit of its silence. None: silence is no fault.
    pub(super) fn with_silence(mut self, most: Option<Duration>) -> Self {
        self.silence = most.map(|most| (most, self.started));
        self
    }

    /// It said something.
    pub(super) fn heard(&mut self, now: Mono) {
        if let Some((_, since)) = &mut self.silence {
            *since = now;
        }
    }

    /// Parked, an attempt spends none of its time limits, and is not silent. Its lease runs on.
    pub(super) fn pause(&mut self, paused: bool, now: Mono) {
        match (self.paused, paused) {
            (None, true) => self.paused = Some(now),
            (Some(since), false) => {
                let length = now.since(since);
                self.paused = None;
                self.paused_for += length;
                self.limit = self.limit + length;
                if let Some((at, _)) = &mut self.soft {
                    *at = *at + length;
                }
                self.heard(now);
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// It holds less than it was granted, and has so long to end in order to wait. Told again it has no more.
    pub(super) fn must_detach(&mut self, now: Mono, within: Duration) {
        self.detach_by.get_or_insert(now + within);
    }

    /// How long it has run, without the time that it was parked.
    pub(super) fn ran_for(&self, now: Mono) -> Duration {
        let parked = self.paused.map_or(Duration::ZERO, |since| now.since(since));
        now.since(self.started).saturating_sub(self.paused_for + parked)
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
            None if self.paused.is_some() => self.cut_off(),
            None => {
                let soft = self.soft.map(|(at, _)| at);
                let further = [soft, self.silent_at(), self.detach_by].into_iter().flatten().min();
                self.limit.min(self.cut_off()).min(further.unwrap_or(Mono::MAX))
            }
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
            None if self.paused.is_some() => self.stop(now, Why::CutOff, self.last_grace),
            None if now >= self.limit => self.stop(now, Why::Limit, self.grace),
            None if now >= self.cut_off() => self.stop(now, Why::CutOff, self.last_grace),
            None if self.silent_at().is_some_and(|at| now >= at) => self.stop(now, Why::Stalled, self.grace),
            None if self.detach_by.is_some_and(|at| now >= at) => self.stop(now, Why::Detach, self.grace),
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

    /// Between being told to stop and being killed, of its kind.
    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    /// By when it has to be over, if it was told to stop because the session says so.
    pub(super) fn ordered_by(&self) -> Option<Mono> {
        self.kill_at.filter(|_| matches!(self.why, Some(Why::Ordered(_))))
    }

    fn silent_at(&self) -> Option<Mono> {
        self.silence.map(|(most, since)| since + most)
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
mod tests;

//! Pure: what attempts that have just started will take, before any signal shows it.
//!
//! Responsible for debts that decay, for samples corrected by them, and for whether a kind's headroom fits. Without
//! this ten browsers pass the same sample. Not responsible for hysteresis.
//! Invariant: a debt only ever makes a host look fuller than it was read.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Headroom, KindFacts};
use crate::clock::Mono;
use crate::pressure::settings::approximate;
use crate::pressure::signals::{Key, Samples, Signal, Value};

/// What is owed.
#[derive(Debug, Default)]
pub(super) struct Ramp {
    /// By token.
    debts: BTreeMap<u64, Debt>,
}

#[derive(Debug)]
struct Debt {
    since: Mono,
    headroom: Headroom,
    uid: u32,
}

/// Samples as the rules see them: corrected by debts, unknown when they are old or absurd.
pub(super) struct View<'a> {
    pub(super) samples: &'a Samples,
    pub(super) ramp: &'a Ramp,
    pub(super) now: Mono,
    pub(super) stale_after: Duration,
}

/// A kind's headroom does not fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shortage {
    /// What it is short of.
    pub(super) signal: Signal,
    /// What there is; 0 if that is unknown.
    pub(super) observed: f64,
    /// What it declares.
    pub(super) threshold: f64,
    /// When debts have decayed enough to ask again, at a guess.
    pub(super) retry_after: Duration,
}

impl Ramp {
    /// An attempt was accepted.
    pub(super) fn owe(&mut self, token: u64, now: Mono, headroom: Headroom, uid: u32) {
        self.debts.insert(token, Debt { since: now, headroom, uid });
    }

    /// It has ended.
    pub(super) fn forgive(&mut self, token: u64) {
        self.debts.remove(&token);
    }

    /// Drops what is paid off.
    pub(super) fn decay(&mut self, now: Mono) {
        self.debts.retain(|_, debt| now.since(debt.since) < debt.headroom.ramp);
    }

    /// The sum of one dimension, of some users if `uids` is not empty.
    fn owed(&self, now: Mono, uids: &[u32], dimension: fn(&Headroom) -> u64) -> f64 {
        self.debts
            .values()
            .filter(|debt| uids.is_empty() || uids.contains(&debt.uid))
            .map(|debt| approximate(dimension(&debt.headroom)) * debt.share(now))
            .sum()
    }

    fn longest_left(&self, now: Mono) -> Duration {
        let left = self.debts.values().map(|debt| debt.headroom.ramp.saturating_sub(now.since(debt.since)));
        left.max().unwrap_or(Duration::ZERO)
    }
}

impl Debt {
    /// What is left of it: all at first, nothing after the ramp, in a straight line.
    fn share(&self, now: Mono) -> f64 {
        let ramp = self.headroom.ramp.as_secs_f64();
        if ramp <= 0.0 { 0.0 } else { (1.0 - now.since(self.since).as_secs_f64() / ramp).max(0.0) }
    }
}

impl View<'_> {
    /// The newest value, corrected. A signal that was never sampled is unknown.
    pub(super) fn value(&self, key: &Key) -> Value {
        match self.samples.0.get(key) {
            None => Value::Unknown,
            Some((_, Value::Unsupported)) => Value::Unsupported,
            Some((at, _)) if self.now.since(*at) > self.stale_after => Value::Unknown,
            Some((_, Value::Known { value, scale }))
                if is_absurd(key.signal, *value) || !scale.is_finite() =>
            {
                Value::Unknown
            }
            Some((_, Value::Known { value, scale })) => {
                Value::Known { value: self.corrected(key, *value, *scale), scale: *scale }
            }
            Some((_, Value::Unknown)) => Value::Unknown,
            Some((_, Value::Pending)) => Value::Pending,
        }
    }

    /// The newest value, if it is known.
    pub(super) fn number(&self, key: &Key) -> Option<f64> {
        match self.value(key) {
            Value::Known { value, .. } => Some(value),
            Value::Unknown | Value::Pending | Value::Unsupported => None,
        }
    }

    /// Whether it should be known and is not.
    pub(super) fn is_unknown(&self, key: &Key) -> bool {
        self.value(key) == Value::Unknown
    }

    /// Whether this host cannot give it.
    pub(super) fn is_unsupported(&self, key: &Key) -> bool {
        self.value(key) == Value::Unsupported
    }

    fn corrected(&self, key: &Key, value: f64, scale: f64) -> f64 {
        let owed = |dimension| self.ramp.owed(self.now, &key.uids, dimension);
        let percent = |amount: f64| if scale > 0.0 { amount / scale * 100.0 } else { 0.0 };
        let corrected = match key.signal {
            Signal::MemHeadroom => value - owed(|it| it.mem),
            Signal::MemHeadroomPct => value - percent(owed(|it| it.mem)),
            Signal::ProcsUsed => value + owed(|it| it.procs),
            Signal::TasksUsed => value + owed(tasks),
            Signal::TasksUsedPct => value + percent(owed(tasks)),
            Signal::TasksHeadroom => value - owed(tasks),
            Signal::FdsUsedPct => value + percent(owed(|it| it.fds)),
            Signal::DiskFree => value - owed(|it| it.disk),
            Signal::DiskFreePct => value - percent(owed(|it| it.disk)),
            Signal::Psi(..)
            | Signal::OomKills
            | Signal::InodesFreePct
            | Signal::LoadPerCpu
            | Signal::SwapUsedPct
            | Signal::SwapRate => value,
        };
        corrected.max(0.0)
    }
}

/// The signals that tell whether the headroom of a kind fits.
pub(super) fn keys(facts: &KindFacts, own_uid: u32) -> Vec<Key> {
    dimensions(facts, own_uid).into_iter().map(|(key, _)| key).collect()
}

/// What the headroom of a kind is short of, if it does not fit.
pub(super) fn shortage(facts: &KindFacts, own_uid: u32, view: &View<'_>) -> Option<Shortage> {
    dimensions(facts, own_uid).into_iter().find_map(|(key, declared)| {
        let threshold = approximate(declared);
        let free = match view.value(&key) {
            Value::Known { value, scale } if key.signal == Signal::FdsUsedPct => {
                scale * (100.0 - value) / 100.0
            }
            Value::Known { value, .. } => value,
            Value::Unknown => 0.0,
            Value::Pending | Value::Unsupported => return None,
        };
        let retry_after = view.ramp.longest_left(view.now).max(Duration::from_secs(1));
        (free < threshold).then_some(Shortage {
            signal: key.signal,
            observed: free.max(0.0),
            threshold,
            retry_after,
        })
    })
}

fn dimensions(facts: &KindFacts, own_uid: u32) -> Vec<(Key, u64)> {
    let Some(headroom) = facts.headroom else { return Vec::new() };
    let uid = facts.uid.unwrap_or(own_uid);
    [
        (Signal::MemHeadroom, headroom.mem),
        (Signal::TasksHeadroom, tasks(&headroom)),
        (Signal::FdsUsedPct, headroom.fds),
        (Signal::DiskFree, headroom.disk),
    ]
    .into_iter()
    .filter(|(_, declared)| *declared > 0)
    .map(|(signal, declared)| {
        let uids = if signal.counts_a_user() { vec![uid] } else { Vec::new() };
        (Key { signal, uids }, declared)
    })
    .collect()
}

/// A process is a task, at least.
fn tasks(headroom: &Headroom) -> u64 {
    headroom.tasks.max(headroom.procs)
}

/// Negative, above the total, or no number at all: kubelet once read minus 1.9 EiB and evicted pods.
fn is_absurd(signal: Signal, value: f64) -> bool {
    !value.is_finite() || value < 0.0 || signal.is_percentage() && value > 100.5
}

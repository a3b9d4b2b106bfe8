//! Pure: rules, samples and time in; closed groups, caps, weight and generation out.
//!
//! Responsible for what stands behind each closed group and for counting the generations. Hysteresis of a single
//! rule is in `rules/hysteresis.rs`, what starting attempts still owe in `rules/ramp.rs`.
//! Not responsible for reading the host, nor for what a closed group stops (the agent's last word, the
//! scheduler's masks).
//! Invariants: a rule is closed for at least its hold; `generation` rises exactly when a group opens or closes or
//! a cap changes.

mod hysteresis;
mod ramp;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::signals::{Key, Samples, Signal};
use crate::clock::Mono;
use crate::own_rule::OwnRule;
use hysteresis::Hysteresis;
use ramp::{Ramp, Shortage, View};

/// What the rules say now: carried by every Hello and heartbeat.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Rises when a group opens or closes, or a cap changes. From 1.
    pub generation: u64,
    /// Closed groups, each once, in order.
    pub closed: Vec<ClosedGroup>,
    /// Slots capped below their capacity, by name.
    pub caps: BTreeMap<String, u32>,
    /// 1 to 3: prefer other nodes the more.
    pub weight: u32,
    /// Signals that could not be read.
    pub unknown_signals: Vec<String>,
}

/// One closed group and the rule that closed it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedGroup {
    /// What it refuses.
    pub group: Group,
    /// The id of the rule, or `headroom`.
    pub rule: String,
    /// The signal that decided.
    pub signal: Signal,
    /// Its newest value; 0 if it is unknown.
    pub observed: f64,
    /// The close value.
    pub threshold: f64,
    /// Since when the group is closed.
    pub since: Mono,
    /// When it may be worth asking again: what is left of its hold and of `for`, at least.
    pub retry_after: Duration,
}

/// One distinct `refuse` selector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// `*`: everything.
    All,
    /// `slot:NAME`: what needs this slot.
    Slot(String),
    /// `kind:NAME`: what is of this kind.
    Kind(String),
}

impl Reading {
    /// The closed group that refuses a job of `kind` that takes `slots`, if one does. The first in order: `*`, then
    /// slots, then kinds.
    pub fn refusal<'a>(&self, kind: &str, slots: impl IntoIterator<Item = &'a str>) -> Option<&ClosedGroup> {
        let slots: BTreeSet<&str> = slots.into_iter().collect();
        self.closed.iter().find(|closed| match &closed.group {
            Group::All => true,
            Group::Slot(name) => slots.contains(name.as_str()),
            Group::Kind(name) => name == kind,
        })
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Slot(name) => write!(f, "slot:{name}"),
            Self::Kind(name) => write!(f, "kind:{name}"),
        }
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "*" => Ok(Self::All),
            Some(("slot", name)) if !name.is_empty() => Ok(Self::Slot(name.to_owned())),
            Some(("kind", name)) if !name.is_empty() => Ok(Self::Kind(name.to_owned())),
            Some(_) | None => {
                Err(format!("\"{text}\" refuses nothing; write \"*\", \"slot:NAME\" or \"kind:NAME\""))
            }
        }
    }
}

/// What one attempt of a kind takes in its first moments, before signals show it. Zero: not declared.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Headroom {
    /// Bytes of memory.
    pub mem: u64,
    /// Processes.
    pub procs: u64,
    /// Threads; at least `procs` are counted.
    pub tasks: u64,
    /// Open files.
    pub fds: u64,
    /// Bytes of disk.
    pub disk: u64,
    /// Over how long the debt decays.
    pub ramp: Duration,
}

/// What the rules must know of a kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KindFacts {
    /// The user that runs it; absent: the agent's.
    pub uid: Option<u32>,
    /// Its declared headroom.
    pub headroom: Option<Headroom>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name.
    pub id: String,
    /// When it closes.
    pub close: Test,
    /// When it opens again.
    pub open: Test,
    /// The groups that it closes.
    pub refuse: Vec<Group>,
    /// The slots that it caps.
    pub caps: BTreeMap<String, u32>,
    /// The weight of the node while it is closed, 1 to 3.
    pub weight: u32,
    /// What an unknown signal counts as.
    pub on_unknown: OnUnknown,
}

/// Conditions that must hold together, or one of them, for some time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Test {
    /// All of them; else any.
    pub all: bool,
    /// At least one.
    pub conditions: Vec<Condition>,
    /// For how long without a break.
    pub hold: Duration,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// What is compared.
    pub key: Key,
    /// On which side of the threshold it is true.
    pub side: Side,
    /// With what.
    pub threshold: f64,
}

/// A side of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// True above it.
    Above,
    /// True below it.
    Below,
}

/// What an unknown signal counts as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnknown {
    /// As if the rule should close, and must not open.
    #[default]
    Closed,
    /// As if the rule may open, and need not close.
    Open,
}

/// All rules of a node and where they stand.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<(Rule, Hysteresis)>,
    kinds: BTreeMap<String, KindFacts>,
    own_uid: u32,
    stale_after: Duration,
    samples: Samples,
    ramp: Ramp,
    reading: Reading,
}

impl Rules {
    /// Nothing is sampled yet, so the group `*` is closed.
    pub fn new(
        rules: Vec<Rule>,
        kinds: BTreeMap<String, KindFacts>,
        own_uid: u32,
        stale_after: Duration,
        now: Mono,
    ) -> Self {
        let unsampled = ClosedGroup {
            group: Group::All,
            rule: OwnRule::Unsampled.to_string(),
            signal: Signal::MemHeadroom,
            observed: 0.0,
            threshold: 0.0,
            since: now,
            retry_after: Duration::from_secs(1),
        };
        Self {
            rules: rules.into_iter().map(|rule| (rule, Hysteresis::default())).collect(),
            kinds,
            own_uid,
            stale_after,
            samples: Samples::default(),
            ramp: Ramp::default(),
            reading: Reading { generation: 1, closed: vec![unsampled], weight: 1, ..Reading::default() },
        }
    }

    /// Every signal that must be read: those of the rules, and those that tell whether a headroom fits.
    pub fn keys(&self) -> BTreeSet<Key> {
        let of_rules =
            self.rules.iter().flat_map(|(rule, _)| rule.close.conditions.iter().chain(&rule.open.conditions));
        let of_kinds = self.kinds.values().flat_map(|facts| ramp::keys(facts, self.own_uid));
        of_rules.map(|condition| condition.key.clone()).chain(of_kinds).collect()
    }

    /// Judges new samples.
    pub fn sampled(&mut self, now: Mono, samples: Samples) {
        self.samples = samples;
        self.judge(now);
    }

    /// Judges anew what is known: time passes too.
    pub fn tick(&mut self, now: Mono) {
        if !self.samples.0.is_empty() || self.keys().is_empty() {
            self.judge(now);
        }
    }

    /// An attempt of `kind` was accepted: its headroom is owed from now on.
    pub fn accepted(&mut self, now: Mono, token: u64, kind: &str) {
        if let Some(facts) = self.kinds.get(kind)
            && let Some(headroom) = facts.headroom
        {
            self.ramp.owe(token, now, headroom, facts.uid.unwrap_or(self.own_uid));
            self.tick(now);
        }
    }

    /// An attempt has ended: what it still owes is forgiven.
    pub fn ended(&mut self, token: u64) {
        self.ramp.forgive(token);
    }

    /// What the rules say.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    fn judge(&mut self, now: Mono) {
        self.ramp.decay(now);
        let view = View { samples: &self.samples, ramp: &self.ramp, now, stale_after: self.stale_after };
        for (rule, state) in &mut self.rules {
            state.step(rule, &view);
        }
        let mut candidates: Vec<ClosedGroup> = Vec::new();
        for (rule, state) in &self.rules {
            let Some(closing) = state.closing(rule, &view) else { continue };
            candidates.extend(rule.refuse.iter().map(|group| ClosedGroup {
                group: group.clone(),
                rule: rule.id.clone(),
                signal: closing.signal,
                observed: closing.observed,
                threshold: closing.threshold,
                since: now,
                retry_after: closing.retry_after,
            }));
        }
        for (kind, facts) in &self.kinds {
            let Some(Shortage { signal, observed, threshold, retry_after }) =
                ramp::shortage(facts, self.own_uid, &view)
            else {
                continue;
            };
            let (group, rule) = (Group::Kind(kind.clone()), OwnRule::Headroom.to_string());
            candidates.push(ClosedGroup {
                group,
                rule,
                signal,
                observed,
                threshold,
                since: now,
                retry_after,
            });
        }
        let closed_rules = self.rules.iter().filter(|(_, state)| state.is_closed()).map(|(rule, _)| rule);
        let mut caps: BTreeMap<String, u32> = BTreeMap::new();
        let mut weight = 1;
        for rule in closed_rules {
            weight = weight.max(rule.weight);
            for (slot, &cap) in &rule.caps {
                let entry = caps.entry(slot.clone()).or_insert(cap);
                *entry = (*entry).min(cap);
            }
        }
        let unknown_signals: BTreeSet<String> =
            self.keys().iter().filter(|key| view.is_unknown(key)).map(|key| key.signal.to_string()).collect();
        let closed = self.one_each(candidates);
        let groups =
            |closed: &[ClosedGroup]| closed.iter().map(|closed| closed.group.clone()).collect::<Vec<_>>();
        let changed = groups(&closed) != groups(&self.reading.closed) || caps != self.reading.caps;
        self.reading = Reading {
            generation: self.reading.generation + u64::from(changed),
            closed,
            caps,
            weight,
            unknown_signals: unknown_signals.into_iter().collect(),
        };
    }

    /// Each group once, in order, by the rule that it was closed by before as long as that is still one of them.
    fn one_each(&self, candidates: Vec<ClosedGroup>) -> Vec<ClosedGroup> {
        let mut each: BTreeMap<Group, ClosedGroup> = BTreeMap::new();
        for candidate in candidates {
            let before = self.reading.closed.iter().find(|before| before.group == candidate.group);
            let since = before.map_or(candidate.since, |before| before.since);
            let stays = before.is_some_and(|before| before.rule == candidate.rule);
            if stays || !each.contains_key(&candidate.group) {
                each.insert(candidate.group.clone(), ClosedGroup { since, ..candidate });
            }
        }
        each.into_values().collect()
    }
}

#[cfg(test)]
mod tests;

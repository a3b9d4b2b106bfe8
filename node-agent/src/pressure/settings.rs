//! The node file's words on pressure: `[pressure]`, `[[pressure.rule]]`, `[kinds.X.headroom]`.
//!
//! Responsible for parsing, for merging over the defaults by `id`, and for naming every violation. Not responsible
//! for what a rule means (`rules.rs`) nor for the defaults' values (`defaults.toml`).
//! Invariant: what comes out names only signals, groups and users that exist in form.

mod amount;

use std::collections::BTreeMap;
use std::time::Duration;
use tenure_proto::limits;

use serde::Deserialize;

use super::rules::{Condition, Group, Headroom, KindFacts, OnUnknown, Rule, Side, Test};
use super::signals::{Key, Signal};
use crate::config::is_name;
use crate::own_rule::OwnRule;
pub use amount::parse_bytes;
pub(crate) use amount::{approximate, parse_duration};

/// The rules that every node has unless its file says otherwise, in the words of the node file.
const DEFAULTS: &str = include_str!("defaults.toml");

/// `[pressure]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How often signals are read. Default 1 s.
    #[serde(deserialize_with = "amount::duration")]
    pub sample: Duration,
    /// A reading older than this is unknown. Default 10 s.
    #[serde(deserialize_with = "amount::duration")]
    pub stale_after: Duration,
    /// Rules, merged over the defaults by `id`.
    pub rule: Vec<RuleSettings>,
}

/// `[[pressure.rule]]`. What is absent comes from the default rule of the same id.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSettings {
    /// Its name, in refusals and explanations: `[a-z0-9_]{1,63}`.
    pub id: String,
    /// `false` drops it.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// When it closes.
    pub close: Option<TestSettings>,
    /// When it opens again.
    pub open: Option<TestSettings>,
    /// What it does while closed.
    pub effect: Option<EffectSettings>,
    /// What an unknown signal counts as. Default `closed`.
    pub on_unknown: Option<OnUnknown>,
}

/// `close = { any = […], for = "2s" }`: exactly one of `any` and `all`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestSettings {
    /// One condition is enough.
    pub any: Option<Vec<ConditionSettings>>,
    /// All are needed.
    pub all: Option<Vec<ConditionSettings>>,
    /// For how long it must hold without a break. Default 0.
    #[serde(rename = "for", default, deserialize_with = "amount::duration")]
    pub hold: Duration,
}

/// `{ signal = "mem.headroom", below = "512MiB" }`: exactly one of `above` and `below`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionSettings {
    /// The signal's name.
    pub signal: String,
    /// True above this.
    #[serde(default, deserialize_with = "amount::optional_amount")]
    pub above: Option<f64>,
    /// True below this.
    #[serde(default, deserialize_with = "amount::optional_amount")]
    pub below: Option<f64>,
    /// For signals that count a user: name or number. Default: the users of the kinds refused, else the agent's.
    pub uid: Option<String>,
}

/// `effect = { refuse = "*", cap = { browser = 1 }, weight = 2 }`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EffectSettings {
    /// `*`, `slot:NAME`, `kind:NAME`, or a list of them.
    #[serde(deserialize_with = "amount::one_or_many")]
    pub refuse: Vec<String>,
    /// Slots and the most of them that may be taken.
    pub cap: BTreeMap<String, u32>,
    /// 1 to 3: prefer other nodes the more.
    pub weight: Option<u32>,
}

/// `[kinds.X.headroom]`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeadroomSettings {
    /// Memory, with a unit.
    #[serde(deserialize_with = "amount::bytes")]
    pub mem: u64,
    /// Processes.
    pub procs: u64,
    /// Threads.
    pub tasks: u64,
    /// Open files.
    pub fds: u64,
    /// Disk, with a unit.
    #[serde(deserialize_with = "amount::bytes")]
    pub disk: u64,
    /// Over how long the debt decays. Default 20 s.
    #[serde(deserialize_with = "amount::duration")]
    pub ramp: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { sample: Duration::from_secs(1), stale_after: Duration::from_secs(10), rule: Vec::new() }
    }
}

impl Default for HeadroomSettings {
    fn default() -> Self {
        Self { mem: 0, procs: 0, tasks: 0, fds: 0, disk: 0, ramp: Duration::from_secs(20) }
    }
}

impl From<HeadroomSettings> for Headroom {
    fn from(settings: HeadroomSettings) -> Self {
        let HeadroomSettings { mem, procs, tasks, fds, disk, ramp } = settings;
        Self { mem, procs, tasks, fds, disk, ramp }
    }
}

impl Settings {
    /// The rules in force: the defaults, the file's over them. Every violation at once.
    pub(super) fn rules(&self, users: &Users<'_>) -> Result<Vec<Rule>, Vec<String>> {
        let mut violations = Vec::new();
        if !(Duration::from_millis(100)..=Duration::from_secs(60)).contains(&self.sample) {
            violations.push("pressure.sample must be from 100ms to 60s".to_owned());
        }
        if self.stale_after < self.sample * 2 {
            violations.push("pressure.stale_after must be at least twice pressure.sample".to_owned());
        }
        let merged = self.merged(&mut violations);
        let mut rules = Vec::new();
        for settings in merged.into_iter().filter(|rule| rule.enabled) {
            match settings.rule(users) {
                Ok(rule) => rules.push(rule),
                Err(reasons) => {
                    let id = &settings.id;
                    violations.extend(
                        reasons.into_iter().map(|reason| format!("pressure rule \"{id}\": {reason}")),
                    );
                }
            }
        }
        if violations.is_empty() { Ok(rules) } else { Err(violations) }
    }

    /// Every rule once, the file's fields over the default's.
    fn merged(&self, violations: &mut Vec<String>) -> Vec<RuleSettings> {
        let mut merged = defaults();
        let mut seen = std::collections::BTreeSet::new();
        for rule in &self.rule {
            if !seen.insert(&rule.id) {
                violations.push(format!("pressure rule \"{}\" is there twice", rule.id));
            }
            match merged.iter_mut().find(|known| known.id == rule.id) {
                Some(known) => known.overlay(rule),
                None => merged.push(rule.clone()),
            }
        }
        merged
    }
}

impl RuleSettings {
    fn overlay(&mut self, over: &Self) {
        self.enabled = over.enabled;
        self.close = over.close.clone().or(self.close.take());
        self.open = over.open.clone().or(self.open.take());
        self.effect = over.effect.clone().or(self.effect.take());
        self.on_unknown = over.on_unknown.or(self.on_unknown);
    }

    fn rule(&self, users: &Users<'_>) -> Result<Rule, Vec<String>> {
        let mut reasons = Vec::new();
        let named = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !(1..=63).contains(&self.id.len()) || !self.id.bytes().all(named) {
            reasons.push("its id must be 1 to 63 of a-z, 0-9 and _".to_owned());
        }
        if OwnRule::ALL.iter().any(|own| own.as_str() == self.id) {
            reasons
                .push("its id is a word that the agent itself gives for a return: choose another".to_owned());
        }
        let mut groups = Vec::new();
        let effect = self.effect.clone().unwrap_or_default();
        for selector in &effect.refuse {
            match selector.parse() {
                Ok(group) => groups.push(group),
                Err(reason) => reasons.push(reason),
            }
        }
        if effect.refuse.is_empty() && effect.cap.is_empty() && effect.weight.is_none() {
            reasons.push("its effect must refuse, cap or weigh something".to_owned());
        }
        for (slot, most) in &effect.cap {
            if !is_name(slot) {
                reasons.push(format!("it caps {slot:?}, which is no name of a slot"));
            }
            if *most > limits::SLOT_UNITS {
                reasons.push(format!(
                    "it caps {slot:?} at {most}: at most {most} are possible",
                    most = limits::SLOT_UNITS
                ));
            }
        }
        if effect.weight.is_some_and(|weight| !(1..=3).contains(&weight)) {
            reasons.push("its weight must be 1, 2 or 3".to_owned());
        }
        let refused = users.of(&groups);
        let mut test = |which: &str, settings: &Option<TestSettings>| match settings {
            Some(settings) => settings.test(&refused, users.lookup).unwrap_or_else(|found| {
                reasons.extend(found.into_iter().map(|reason| format!("{which}: {reason}")));
                Test::default()
            }),
            None => {
                reasons.push(format!("{which} is missing"));
                Test::default()
            }
        };
        let (close, open) = (test("close", &self.close), test("open", &self.open));
        if reasons.is_empty() {
            Ok(Rule {
                id: self.id.clone(),
                close,
                open,
                refuse: groups,
                caps: effect.cap,
                weight: effect.weight.unwrap_or(1),
                on_unknown: self.on_unknown.unwrap_or_default(),
            })
        } else {
            Err(reasons)
        }
    }
}

impl TestSettings {
    fn test(&self, refused: &[u32], lookup: fn(&str) -> Option<u32>) -> Result<Test, Vec<String>> {
        let (all, conditions) = match (&self.any, &self.all) {
            (Some(any), None) => (false, any),
            (None, Some(all)) => (true, all),
            (Some(_), Some(_)) | (None, None) => {
                return Err(vec!["exactly one of any and all is needed".to_owned()]);
            }
        };
        if conditions.is_empty() {
            return Err(vec!["at least one condition is needed".to_owned()]);
        }
        let (conditions, reasons): (Vec<_>, Vec<_>) =
            conditions.iter().map(|condition| condition.condition(refused, lookup)).partition(Result::is_ok);
        let reasons: Vec<String> = reasons.into_iter().filter_map(Result::err).collect();
        if reasons.is_empty() {
            Ok(Test { all, conditions: conditions.into_iter().flatten().collect(), hold: self.hold })
        } else {
            Err(reasons)
        }
    }
}

impl ConditionSettings {
    fn condition(&self, refused: &[u32], lookup: fn(&str) -> Option<u32>) -> Result<Condition, String> {
        let signal: Signal = self.signal.parse()?;
        let (side, threshold) = match (self.above, self.below) {
            (Some(above), None) => (Side::Above, above),
            (None, Some(below)) => (Side::Below, below),
            (Some(_), Some(_)) | (None, None) => {
                return Err(format!("{signal} needs exactly one of above and below"));
            }
        };
        let uids = match (&self.uid, signal.counts_a_user()) {
            (Some(user), true) => vec![lookup(user).ok_or_else(|| format!("there is no user \"{user}\""))?],
            (Some(_), false) => return Err(format!("{signal} counts no user: uid has no meaning there")),
            (None, true) => refused.to_vec(),
            (None, false) => Vec::new(),
        };
        Ok(Condition { key: Key { signal, uids }, side, threshold })
    }
}

/// Whose processes a rule counts if it does not say.
pub(super) struct Users<'a> {
    /// The kinds of the node.
    pub(super) kinds: &'a BTreeMap<String, KindFacts>,
    /// The agent's user.
    pub(super) own: u32,
    /// A user by name or number.
    pub(super) lookup: fn(&str) -> Option<u32>,
}

impl Users<'_> {
    /// The users of the kinds that these groups refuse. Which kinds take a slot is the fleet's to say, so a slot's
    /// group stands for all of them.
    fn of(&self, groups: &[Group]) -> Vec<u32> {
        let whole = groups.iter().any(|group| !matches!(group, Group::Kind(_)));
        let mut uids: Vec<u32> = self
            .kinds
            .iter()
            .filter(|(name, _)| {
                whole || groups.iter().any(|group| matches!(group, Group::Kind(kind) if kind == *name))
            })
            .map(|(_, facts)| facts.uid.unwrap_or(self.own))
            .collect();
        uids.sort_unstable();
        uids.dedup();
        if uids.is_empty() { vec![self.own] } else { uids }
    }
}

/// A test holds that the text parses.
fn defaults() -> Vec<RuleSettings> {
    #[derive(Deserialize)]
    struct File {
        rule: Vec<RuleSettings>,
    }
    toml::from_str::<File>(DEFAULTS).map(|file| file.rule).unwrap_or_default()
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests;

//! Pure: one rule between open and closed.
//!
//! Responsible for conditions with unknown and unsupported signals, for `for`, and for the hold that doubles when a
//! rule closes again soon. Not responsible for what a closed rule does.
//! Invariant: a rule that has closed stays so for its hold, whatever is read.

use std::time::Duration;

use super::ramp::View;
use super::{Condition, OnUnknown, Rule, Side, Test};
use crate::clock::Mono;
use crate::pressure::signals::{Signal, Value};

/// The hold of a rule that has not closed lately.
const FIRST_HOLD: Duration = Duration::from_secs(10);
/// The longest hold.
const LONGEST_HOLD: Duration = Duration::from_secs(5 * 60);
/// A rule that closes again within this time after it opened is held twice as long as before.
const SOON: Duration = Duration::from_secs(5 * 60);

/// Where a rule stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Hysteresis {
    state: State,
    /// When it opened last, and for how long it had been held.
    opened: Option<(Mono, Duration)>,
}

#[derive(Debug, Clone)]
enum State {
    Open {
        /// Since when its close test holds without a break.
        met_since: Option<Mono>,
    },
    Closed {
        since: Mono,
        hold: Duration,
        /// Since when its open test holds without a break.
        met_since: Option<Mono>,
        /// Which condition of the close test decided.
        decided: usize,
    },
}

/// Why a rule is closed, in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Closing {
    /// The signal of the condition that decided.
    pub(super) signal: Signal,
    /// Its newest value; 0 if it is unknown.
    pub(super) observed: f64,
    /// The close value.
    pub(super) threshold: f64,
    /// It cannot open sooner.
    pub(super) retry_after: Duration,
}

impl Default for State {
    fn default() -> Self {
        Self::Open { met_since: None }
    }
}

impl Hysteresis {
    /// Whether the rule is closed.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// Why it is closed, if it is.
    pub(super) fn closing(&self, rule: &Rule, view: &View<'_>) -> Option<Closing> {
        let State::Closed { since, hold, met_since, decided } = &self.state else { return None };
        let condition = rule.close.conditions.get(*decided)?;
        let held = hold.saturating_sub(view.now.since(*since));
        let open = met_since.map_or(rule.open.hold, |met| rule.open.hold.saturating_sub(view.now.since(met)));
        Some(Closing {
            signal: condition.key.signal,
            observed: view.number(&condition.key).unwrap_or(0.0),
            threshold: condition.threshold,
            retry_after: held.max(open).max(Duration::from_secs(1)),
        })
    }

    /// Moves on to `view.now`.
    pub(super) fn step(&mut self, rule: &Rule, view: &View<'_>) {
        let now = view.now;
        match &mut self.state {
            State::Open { met_since } => {
                let Some(decided) = closes(rule, view) else {
                    *met_since = None;
                    return;
                };
                let since = *met_since.get_or_insert(now);
                if now.since(since) >= rule.close.hold {
                    let hold = match self.opened {
                        Some((at, held)) if now.since(at) <= SOON => (held * 2).min(LONGEST_HOLD),
                        Some(_) | None => FIRST_HOLD,
                    };
                    self.state = State::Closed { since: now, hold, met_since: None, decided };
                }
            }
            State::Closed { since, hold, met_since, .. } => {
                if !opens(rule, view) {
                    *met_since = None;
                    return;
                }
                let met = *met_since.get_or_insert(now);
                if now.since(met) >= rule.open.hold && now.since(*since) >= *hold {
                    self.opened = Some((now, *hold));
                    self.state = State::Open { met_since: None };
                }
            }
        }
    }
}

/// Whether the close test holds: the condition that decides.
fn closes(rule: &Rule, view: &View<'_>) -> Option<usize> {
    let unknown = rule.on_unknown == OnUnknown::Closed;
    decide(&rule.close, view, unknown)
}

/// Whether the open test holds. A rule of which nothing is supported any more opens once it need not be closed.
fn opens(rule: &Rule, view: &View<'_>) -> bool {
    let unknown = rule.on_unknown == OnUnknown::Open;
    if rule.open.conditions.iter().all(|condition| view.is_unsupported(&condition.key)) {
        return closes(rule, view).is_none();
    }
    decide(&rule.open, view, unknown).is_some()
}

/// Judges a test in which unsupported signals are left out and unknown ones count as `unknown`.
fn decide(test: &Test, view: &View<'_>, unknown: bool) -> Option<usize> {
    let mut judged = test
        .conditions
        .iter()
        .enumerate()
        .filter_map(|(at, condition)| Some((at, holds(condition, view, unknown)?)))
        .peekable();
    if test.all {
        let first = judged.peek()?.0;
        judged.all(|(_, holds)| holds).then_some(first)
    } else {
        judged.find(|(_, holds)| *holds).map(|(at, _)| at)
    }
}

/// `None`: it is left out.
fn holds(condition: &Condition, view: &View<'_>, unknown: bool) -> Option<bool> {
    match view.value(&condition.key) {
        Value::Known { value, .. } => Some(match condition.side {
            Side::Above => value > condition.threshold,
            Side::Below => value < condition.threshold,
        }),
        Value::Unknown => Some(unknown),
        // A rate that is not there yet is no reason for anything.
        Value::Pending => Some(false),
        Value::Unsupported => None,
    }
}

//! Budgets: how much of what its jobs report (tokens, pages, euros) a kind may spend in an hour, a day, a week, a month.
//!
//! Windows are fixed and aligned in UTC: providers bill and limit by such windows, two leaders agree on one without
//! another word, and what was spent is one number. A window only turns forwards: a clock on the wall that was set back
//! gives nobody a second budget.
//!
//! Usage is charged by the commit that ends the attempt, so a budget is overspent by no more than what ran when it hit
//! zero.

use std::{collections::BTreeMap, fmt};

use crate::{ids::CounterName, kind::Kind, time::Wall};

const HOUR: i64 = 3_600_000_000;
const DAY: i64 = 24 * HOUR;

/// What an attempt used, by counter. At most [`MOST_COUNTERS`].
pub type Usage = BTreeMap<CounterName, u64>;

/// The most counters of a budget, and of a report.
pub const MOST_COUNTERS: usize = 16;

/// The most of one counter that a budget allows and that one report may say: 2^53, which every JSON reader knows exactly.
pub const MOST_USAGE: u64 = 1 << 53;

/// What a kind may spend. Owned by the fleet file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// By counter. Never empty, at most [`MOST_COUNTERS`]. At the first that is spent the kind stops.
    pub allowances: BTreeMap<CounterName, Allowance>,
    /// What its enqueues meet then.
    pub on_exhausted: OnExhausted,
}

/// So much in each window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// 1 to [`MOST_USAGE`].
    pub amount: u64,
    /// How long it must last.
    pub window: Window,
}

/// What enqueues meet while a budget is spent. What is queued waits in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExhausted {
    /// They are stored and wait.
    Defer,
    /// They are refused.
    Refuse,
}

/// A stretch of the calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// From the full hour.
    Hour,
    /// From midnight.
    Day,
    /// From Monday.
    Week,
    /// From the first.
    Month,
}

/// What was spent of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// When the window began in which it was.
    pub since: Wall,
    /// How much.
    pub amount: u64,
}

impl Window {
    /// All, with their words.
    pub const ALL: [(Self, &'static str); 4] =
        [(Self::Hour, "hour"), (Self::Day, "day"), (Self::Week, "week"), (Self::Month, "month")];

    /// The word for it in files and rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// When the window began that holds this time.
    #[must_use]
    pub fn start(self, at: Wall) -> Wall {
        let day = at.day();
        match self {
            Self::Hour => Wall(at.0.div_euclid(HOUR).saturating_mul(HOUR)),
            Self::Day => of_day(day),
            // The first day of 1970 was a Thursday.
            Self::Week => of_day((day + 3).div_euclid(7) * 7 - 3),
            Self::Month => of_day(day - day_of_month(day) + 1),
        }
    }

    /// When the window ends that began then.
    #[must_use]
    pub fn end(self, start: Wall) -> Wall {
        match self {
            Self::Hour => Wall(start.0.saturating_add(HOUR)),
            Self::Day => Wall(start.0.saturating_add(DAY)),
            Self::Week => Wall(start.0.saturating_add(7 * DAY)),
            // No month has more than 31 days, and the next one has begun 31 days after the first.
            Self::Month => self.start(Wall(start.0.saturating_add(31 * DAY))),
        }
    }
}

fn of_day(day: i64) -> Wall {
    Wall(day.saturating_mul(DAY))
}

/// The day of the month, from 1, of a day since 1970: counted from the first of March of the year 0, in cycles of four
/// hundred years, so that the day of a leap year comes last.
fn day_of_month(day: i64) -> i64 {
    let day_of_cycle = (day + 719_468).rem_euclid(146_097);
    let year = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    day_of_year - (153 * month + 2) / 5 + 1
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.amount, self.window.name())
    }
}

impl Kind {
    /// What is spent of a counter in the window that holds this time, and when it turns.
    #[must_use]
    pub fn spent_of(&self, counter: &CounterName, window: Window, at: Wall) -> (u64, Wall) {
        let start = window.start(at);
        match self.spent.get(counter) {
            Some(spent) if spent.since >= start => (spent.amount, window.end(spent.since)),
            Some(_) | None => (0, window.end(start)),
        }
    }

    /// The counter that is spent, and when its window turns; of several the one that turns last.
    #[must_use]
    pub fn exhausted(&self, at: Wall) -> Option<(CounterName, Wall)> {
        let allowances = self.policy.budget.iter().flat_map(|budget| &budget.allowances);
        let over = allowances.filter_map(|(counter, allowance)| {
            let (amount, until) = self.spent_of(counter, allowance.window, at);
            (amount >= allowance.amount).then_some((until, counter))
        });
        over.max().map(|(until, counter)| (counter.clone(), until))
    }

    /// Charges what an attempt used. What the budget does not name is not counted. Whether anything was.
    pub(crate) fn charge(&mut self, usage: &Usage, at: Wall) -> bool {
        let mut charged = false;
        for (counter, allowance) in self.policy.budget.iter().flat_map(|budget| &budget.allowances) {
            let Some(used) = usage.get(counter).filter(|used| **used > 0) else { continue };
            let start = allowance.window.start(at);
            let spent = self.spent.entry(counter.clone()).or_insert(Spent { since: start, amount: 0 });
            if spent.since < start {
                *spent = Spent { since: start, amount: 0 };
            }
            spent.amount = spent.amount.saturating_add(*used).min(i64::MAX.unsigned_abs());
            charged = true;
        }
        charged
    }

    /// Under another budget: what was spent counts on where the window is the same, else the counter begins anew.
    pub(crate) fn spent_under(&self, budget: Option<&Budget>) -> BTreeMap<CounterName, Spent> {
        let window = |budget: Option<&Budget>, counter: &CounterName| {
            budget.and_then(|budget| budget.allowances.get(counter)).map(|allowance| allowance.window)
        };
        let same = |counter: &CounterName| {
            let before = window(self.policy.budget.as_ref(), counter);
            before.is_some() && before == window(budget, counter)
        };
        self.spent.iter().filter(|(counter, _)| same(counter)).map(|(c, spent)| (c.clone(), *spent)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Midnight of a day since 1970, and so many hours.
    fn at(day: i64, hours: i64) -> Wall {
        Wall(day * DAY + hours * HOUR)
    }

    #[test]
    fn windows_begin_and_end_by_the_calendar() {
        // 2026-11-30 is a Monday, day 20,787; 2024-02-29 is day 19,782; 1969-12-31 is day −1.
        let now = at(20_787, 13);
        assert_eq!(Window::Hour.start(Wall(now.0 + 5)), now);
        assert_eq!(Window::Day.start(now), at(20_787, 0));
        assert_eq!(Window::Week.start(now), at(20_787, 0));
        assert_eq!(Window::Week.start(at(20_786, 23)), at(20_780, 0));
        assert_eq!(Window::Month.start(now), at(20_758, 0));
        assert_eq!(Window::Month.end(at(20_758, 0)), at(20_788, 0));
        assert_eq!(Window::Month.start(at(19_782, 23)), at(19_754, 0));
        assert_eq!(Window::Month.end(at(19_754, 0)), at(19_783, 0));
        assert_eq!(Window::Month.start(at(-1, 1)), at(-31, 0));
        assert_eq!(Window::Week.start(at(-1, 1)), at(-3, 0));
    }

    #[test]
    fn every_window_of_a_century_begins_where_the_one_before_ends() {
        for (window, _) in Window::ALL {
            let (mut start, mut months) = (window.start(at(10_957, 0)), 0); // 2000-01-01
            while start < at(47_482, 0) && months < 40_000 {
                let end = window.end(start);
                assert_eq!(window.start(end), end, "{window:?}");
                assert_eq!(window.start(Wall(end.0 - 1)), start, "{window:?}");
                (start, months) = (end, months + 1);
            }
        }
    }
}

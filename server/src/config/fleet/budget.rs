//! A budget: what the jobs of a kind may use, as they report it, in each window of the calendar.

use tenure_scheduler::{
    Allowance, Budget, CounterName, MOST_COUNTERS, MOST_USAGE, OnExhausted, Window, is_name,
};

use crate::config::document::{Problems, Table, Value};

/// What an amount may end with.
const MULTIPLES: [(char, u64); 3] = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];

/// Reads `{ tokens = "2M/day", on_exhausted = "refuse" }`. Every other key is the name of a counter.
pub(super) fn table(value: Value<'_>, problems: &mut Problems) -> Option<Budget> {
    let (at, path) = (value.at(), value.path().to_owned());
    let mut table: Table<'_> = value.table(problems)?;
    let choices = [("defer", OnExhausted::Defer), ("refuse", OnExhausted::Refuse)];
    let on_exhausted = table.take("on_exhausted");
    let on_exhausted =
        on_exhausted.map_or(Some(OnExhausted::Defer), |value| value.choice(problems, &choices));
    let mut budget =
        Budget { allowances: Default::default(), on_exhausted: on_exhausted.unwrap_or(OnExhausted::Defer) };
    let mut named = 0;
    for (name, value) in table.into_entries() {
        named += 1;
        if named > MOST_COUNTERS {
            value.refuse(problems, format!("is one too many: at most {MOST_COUNTERS} counters"));
            break;
        }
        if !is_name(&name) {
            value.refuse(problems, "is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen");
        } else if let Some(allowance) = allowance(&value, problems) {
            budget.allowances.insert(CounterName::new(name), allowance);
        }
    }
    if named == 0 {
        problems.add(at, &path, "must name a counter, such as tokens = \"2M/day\"");
    }
    (!budget.allowances.is_empty()).then_some(budget)
}

/// `2M/day`.
fn allowance(value: &Value<'_>, problems: &mut Problems) -> Option<Allowance> {
    let (amount, window) = value.text(problems)?.split_once('/').unwrap_or_default();
    let amount = amount.trim();
    let multiple = MULTIPLES.into_iter().find(|(letter, _)| amount.ends_with(*letter));
    let digits = amount.trim_end_matches(|c| multiple.is_some_and(|(letter, _)| letter == c));
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(multiple.map_or(1, |(_, by)| by)));
    let number = number.filter(|number| (1..=MOST_USAGE).contains(number));
    let window = Window::ALL.into_iter().find(|(_, word)| *word == window.trim());
    let found = number.zip(window).map(|(amount, (window, _))| Allowance { amount, window });
    if found.is_none() {
        value.refuse(
            problems,
            "is no allowance such as \"2M/day\": 1 to 2^53, with k, M or G, in each hour, day, week or month",
        );
    }
    found
}

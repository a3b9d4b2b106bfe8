//! A slot of the fleet as a table: its capacity, and how fast its units may be granted.

use std::time::Duration;

use tenure_proto::limits;
use tenure_scheduler::{RateLimit, Scope};

use crate::config::document::{Problems, Value};

/// The units of time that a rate may be in.
const UNITS: [(&str, u64); 4] = [("s", 1), ("min", 60), ("h", 3_600), ("d", 86_400)];

/// Reads `{ capacity = 6, rate = "50/min", burst = 10 }`. What is wrong in it counts as a slot without units.
pub(super) fn table(value: Value<'_>, problems: &mut Problems) -> (Scope, Option<RateLimit>) {
    let (at, path) = (value.at(), value.path().to_owned());
    let Some(mut table) = value.table(problems) else { return (Scope::Fleet { capacity: 0 }, None) };
    let capacity = table.take("capacity");
    if capacity.is_none() {
        problems.add(at, &path, "must have a capacity");
    }
    let capacity = capacity.and_then(|value| value.integer(problems, 0..=limits::SLOT_UNITS)).unwrap_or(0);
    let (rate, burst) = (table.take("rate"), table.take("burst"));
    if let (None, Some(burst)) = (&rate, &burst) {
        burst.refuse(problems, "needs a rate beside it");
    }
    let rate = rate.and_then(|value| amount(&value, problems));
    // One: a producer that counts by the minute would see a larger one on top of the rate, twice the rate at worst.
    let burst = burst.map_or(Some(1), |value| value.integer(problems, 1..=RateLimit::MOST));
    table.finish(&[], problems);
    let limit = rate.zip(burst).map(|((tokens, per), burst)| RateLimit { tokens, per, burst });
    (Scope::Fleet { capacity }, limit)
}

/// `50/min`.
fn amount(value: &Value<'_>, problems: &mut Problems) -> Option<(u32, Duration)> {
    let (tokens, unit) = value.text(problems)?.split_once('/').unwrap_or_default();
    let tokens = tokens.trim().parse().ok().filter(|tokens| (1..=RateLimit::MOST).contains(tokens));
    let per = UNITS.into_iter().find(|&(known, _)| known == unit.trim());
    let found = tokens.zip(per).map(|(tokens, (_, seconds))| (tokens, Duration::from_secs(seconds)));
    if found.is_none() {
        value.refuse(problems, "is no rate such as \"50/min\": 1 to 1000000 in each s, min, h or d");
    }
    found
}

//! Lengths, instants and words as a person reads them.
//!
//! Invariant: nothing that another machine sent reaches a terminal with control characters in it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tenure_client::proto::{Needs, Requirement, RequirementOperator};
use tenure_client::wire;

/// Clocks of two hosts are never quite equal; an age this far below zero is shown as zero.
const TOLERATED_SKEW: Duration = Duration::from_secs(2);

/// A length in at most two units: `320ms`, `4.2s`, `45s`, `3m12s`, `2h05m`, `4d3h`.
pub(crate) fn length(length: Duration) -> String {
    let (millis, seconds) = (length.as_millis(), length.as_secs());
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0 if millis == 0 => "0s".to_owned(),
        0 => format!("{millis}ms"),
        1..=9 if millis % 1_000 >= 100 => format!("{seconds}.{}s", millis % 1_000 / 100),
        1..=59 => format!("{seconds}s"),
        60..=3_599 if seconds % 60 == 0 => format!("{minutes}m"),
        60..=3_599 => format!("{minutes}m{:02}s", seconds % 60),
        3_600..=86_399 if minutes % 60 == 0 => format!("{hours}h"),
        3_600..=86_399 => format!("{hours}h{:02}m", minutes % 60),
        _ if hours % 24 == 0 => format!("{days}d"),
        _ => format!("{days}d{}h", hours % 24),
    }
}

/// A length of the wire; `-` if it is absent.
pub(crate) fn wire_length(value: Option<&prost_types::Duration>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| length(wire::std_duration(value)))
}

/// An instant as RFC 3339 in UTC, to the second.
pub(crate) fn absolute(at: SystemTime) -> String {
    Timestamp::try_from(at)
        .map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_else(|_| "out of range".to_owned())
}

/// How long ago something happened, without "ago". Never negative: a clock that is ahead is named as such.
pub(crate) fn age(now: SystemTime, at: SystemTime) -> String {
    match now.duration_since(at) {
        Ok(age) => length(age),
        Err(ahead) if ahead.duration() <= TOLERATED_SKEW => "0s".to_owned(),
        Err(_) => "clock skew".to_owned(),
    }
}

/// An instant that may lie ahead: `in 3m`, `3m ago`, `now`.
pub(crate) fn relative(now: SystemTime, at: SystemTime) -> String {
    match now.duration_since(at) {
        Ok(past) if past < Duration::from_secs(1) => "now".to_owned(),
        Ok(past) => format!("{} ago", length(past)),
        Err(ahead) => format!("in {}", length(ahead.duration())),
    }
}

/// The word of an enum value: `JOB_STATE_QUEUED` without its prefix, in lower case.
pub(crate) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

/// Text of another machine on one line, control characters escaped: a job's stderr must not paint the terminal.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    clean
}

/// Text of several lines, each of them [`clean`].
pub(crate) fn clean_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(clean).collect();
    lines.join("\n")
}

/// Characters that change the direction of text around them, or show nothing at all.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The last line with something on it, cut to `limit` characters: where most programs say what went wrong.
pub(crate) fn brief(text: &str, limit: usize) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let mut brief: String = line.chars().take(limit).collect();
    if line.chars().nth(limit).is_some() {
        brief.push('…');
    }
    clean(&brief)
}

/// `browser=1 anthropic=1`; `-` for none.
pub(crate) fn needs(needs: Option<&Needs>) -> String {
    let slots = needs.map(|needs| needs.slots.as_slice()).unwrap_or_default();
    let words: Vec<String> =
        slots.iter().map(|need| format!("{}={}", clean(&need.slot), need.amount)).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

/// `os=linux zone=a`; `-` for none.
pub(crate) fn pairs(map: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (name, value) in map {
        let gap = if text.is_empty() { "" } else { " " };
        // Writing to a string does not fail.
        write!(text, "{gap}{}={}", clean(name), clean(value)).unwrap_or_default();
    }
    if text.is_empty() { "-".to_owned() } else { text }
}

/// What node labels must be: `os=linux, gpu in (a100, h100)`; `-` if nothing is asked for.
pub(crate) fn selector(equalities: &BTreeMap<String, String>, requirements: &[Requirement]) -> String {
    let equality = |(label, value): (&String, &String)| Requirement {
        label: label.clone(),
        operator: RequirementOperator::In.into(),
        values: vec![value.clone()],
    };
    let all = equalities.iter().map(equality).chain(requirements.iter().cloned());
    let texts: Vec<String> = all.map(|requirement| clean(&requirement.to_string())).collect();
    if texts.is_empty() { "-".to_owned() } else { texts.join(", ") }
}

/// Bytes with a binary unit: `12 B`, `1.5 KiB`, `3.0 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Tenths of the unit, so that no rounding of floats is involved.
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A count with its noun: `1 job`, `2 jobs`.
pub(crate) fn count(count: impl ToString, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short_and_exact_enough() {
        for (millis, text) in [
            (0, "0s"),
            (320, "320ms"),
            (1_000, "1s"),
            (4_260, "4.2s"),
            (45_900, "45s"),
            (192_000, "3m12s"),
            (600_000, "10m"),
            (7_500_000, "2h05m"),
            (3_600_000, "1h"),
            (356_400_000, "4d3h"),
            (604_800_000, "7d"),
        ] {
            assert_eq!(length(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn an_age_is_never_negative() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        assert_eq!(age(now, now + Duration::from_secs(1)), "0s");
        assert_eq!(age(now, now + Duration::from_secs(60)), "clock skew");
        assert_eq!(relative(now, now + Duration::from_secs(60)), "in 1m");
    }

    #[test]
    fn text_of_others_cannot_paint_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mred\nb\u{202e}c"), "a\\u{1b}[31mred\\nb\\u{202e}c");
        assert_eq!(brief("first\n  Traceback: boom \n\n", 80), "Traceback: boom");
        assert_eq!(brief("aaaa", 3), "aaa…");
    }

    #[test]
    fn bytes_have_a_binary_unit() {
        assert_eq!(bytes(12), "12 B");
        assert_eq!(bytes(1_536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
        assert_eq!(bytes(5 << 40), "5.0 TiB");
    }
}

//! Amounts with units: "512MiB", "10s", 550.
//!
//! Responsible for parsing them and for saying what was expected. Not responsible for which amounts make sense.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// What a size may end with, and how many bytes that is.
const UNITS: [(&str, u64); 10] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    ("", 1),
];

/// The longest length of time that the file may name: ten years, as in the other files and on the wire.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

/// Parses a length of time.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed = humantime::parse_duration(text).ok();
    let length = parsed.ok_or_else(|| format!("{text:?} is no length of time such as \"10s\""))?;
    if length > LONGEST { Err(format!("{text:?} is longer than ten years")) } else { Ok(length) }
}

/// Parses a size: a whole number of bytes, or of `KiB`, `MiB`, `GiB`, `TiB`, `kB`, `MB`, `GB`, `TB`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no size such as \"512MiB\"");
    let (unit, factor) = UNITS.iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(wrong)?;
    let number = text.strip_suffix(unit).unwrap_or(text).trim_end();
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor)).ok_or_else(wrong)
}

/// A number, or a text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Amount {
    Whole(u64),
    Number(f64),
    Text(String),
}

/// `"10s"`.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A number that is not negative, or a size.
pub(super) fn optional_amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Amount::deserialize(deserializer)? {
        Amount::Whole(number) => Ok(Some(approximate(number))),
        Amount::Number(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
        Amount::Number(number) => Err(D::Error::custom(format!("{number} is no amount"))),
        Amount::Text(text) => parse_bytes(&text).map(approximate).map(Some).map_err(D::Error::custom),
    }
}

/// A number of bytes, or a size.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match Amount::deserialize(deserializer)? {
        Amount::Whole(number) => Ok(number),
        Amount::Number(number) => Err(D::Error::custom(format!("{number} is no whole number of bytes"))),
        Amount::Text(text) => parse_bytes(&text).map_err(D::Error::custom),
    }
}

/// One text, or a list of them.
pub(super) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

/// As near as a double comes: exact up to 8 PiB.
pub(crate) fn approximate(number: u64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "signals are compared as doubles, as the wire carries them"
    )]
    let number = number as f64;
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("512MiB"), Ok(512 << 20));
        assert_eq!(parse_bytes("1 GiB"), Ok(1 << 30));
        assert_eq!(parse_bytes("2kB"), Ok(2_000));
        assert_eq!(parse_bytes("17"), Ok(17));
        assert_eq!(parse_bytes("17B"), Ok(17));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in
            ["", "MiB", "-1MiB", "1.5GiB", "1mib", "one", "+1", "99999999999999999999", "99999999999TiB"]
        {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}

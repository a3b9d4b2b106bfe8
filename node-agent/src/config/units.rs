//! Values with units in the node file: lengths of time, sizes, rates.
//!
//! Responsible for parsing them and for saying what was expected. Not responsible for which values make sense.

use std::time::Duration;

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer};

use crate::holdings::StartRate;
use crate::pressure::settings::{parse_bytes, parse_duration};

/// `"1 per 2s"`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate(pub(super) StartRate);

/// A number of bytes, or a text such as `"512MiB"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Bytes {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = text.split_once(" per ").and_then(|(count, per)| {
            let count = count.trim().parse().ok().filter(|&count| count > 0)?;
            let per = parse_duration(per.trim()).ok().filter(|per| !per.is_zero())?;
            Some(StartRate { count, per })
        });
        parsed
            .map(Self)
            .ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &"a rate such as \"1 per 2s\""))
    }
}

/// A length of time, such as `"10s"`.
pub(super) fn optional_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    parse_duration(&text).map(Some).map_err(D::Error::custom)
}

/// A size in bytes.
pub(super) fn optional_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    match Option::<Bytes>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Bytes::Number(number)) => Ok(Some(number)),
        Some(Bytes::Text(text)) => parse_bytes(&text).map(Some).map_err(D::Error::custom),
    }
}

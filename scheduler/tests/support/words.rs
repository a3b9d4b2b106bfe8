//! The words of a script line: names, `key=value` options, durations, amounts.

use std::{collections::BTreeMap, time::Duration};

use tenure_scheduler::{Needs, Requirement, Selector, SlotName};

/// One line: a verb, what it is about, options.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) verb: String,
    pub(crate) names: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Line {
    /// None: an empty line or a comment.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.split('#').next().unwrap_or_default();
        let mut words = text.split_whitespace();
        let verb = words.next()?.to_owned();
        let (mut names, mut options) = (Vec::new(), BTreeMap::new());
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => {
                    options.insert(key.to_owned(), value.to_owned());
                }
                None => names.push(word.to_owned()),
            }
        }
        Some(Self { verb, names, options })
    }

    pub(crate) fn name(&self, at: usize) -> &str {
        self.names.get(at).unwrap_or_else(|| panic!("word {} is missing: {self:?}", at + 1))
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.names.iter().any(|name| name == word)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key).map(|text| text.parse().unwrap_or_else(|_| panic!("{key}: no number: {text}")))
    }

    pub(crate) fn duration(&self, key: &str) -> Option<Duration> {
        self.get(key).map(duration)
    }

    pub(crate) fn list(&self, key: &str) -> Vec<String> {
        self.get(key).into_iter().flat_map(|text| text.split(',')).map(str::to_owned).collect()
    }

    /// `a:1,b:2`.
    pub(crate) fn amounts(&self, key: &str) -> Option<Vec<(SlotName, u32)>> {
        let amount = |text: String| {
            let (slot, amount) = text.split_once(':').unwrap_or_else(|| panic!("slot:amount, not {text}"));
            (SlotName::new(slot), amount.parse().unwrap())
        };
        self.get(key)?;
        Some(self.list(key).into_iter().filter(|text| !text.is_empty()).map(amount).collect())
    }

    pub(crate) fn needs(&self, key: &str) -> Option<Needs> {
        self.amounts(key).map(Needs::new)
    }

    /// `a:x`, `a:x|y`, `a:!x|y`, `a` (has it), `!a`; with commas between.
    pub(crate) fn requirements(&self, key: &str) -> Vec<Requirement> {
        let requirement = |text: String| match (text.split_once(':'), text.strip_prefix('!')) {
            (Some((label, values)), _) => match values.strip_prefix('!') {
                Some(values) => Requirement::none_of(label, values.split('|')),
                None => Requirement::one_of(label, values.split('|')),
            },
            (None, Some(label)) => Requirement::has(label, false),
            (None, None) => Requirement::has(text, true),
        };
        self.list(key).into_iter().map(requirement).collect()
    }

    pub(crate) fn selector(&self, key: &str) -> Selector {
        Selector::new(self.requirements(key))
    }

    /// `a:x,b:y`.
    pub(crate) fn texts(&self, key: &str) -> BTreeMap<String, String> {
        let pair = |text: String| {
            let (key, value) = text.split_once(':').unwrap_or_else(|| panic!("key:value, not {text}"));
            (key.to_owned(), value.to_owned())
        };
        self.list(key).into_iter().map(pair).collect()
    }
}

/// `1h2m3s4ms5us`, each part optional.
pub(crate) fn duration(text: &str) -> Duration {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or_else(|| panic!("{text}: no unit"));
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let number: u64 = number.parse().unwrap_or_else(|_| panic!("{text}: no number"));
        total += match unit {
            "us" => Duration::from_micros(number),
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number * 60),
            "h" => Duration::from_secs(number * 3600),
            "d" => Duration::from_secs(number * 86_400),
            other => panic!("{text}: unknown unit {other}"),
        };
        rest = tail;
    }
    total
}

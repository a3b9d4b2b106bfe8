//! A TOML text whose values remember where they stand, so that every mistake is told at once with line and key.
//!
//! Not responsible for what the keys mean: `server_file.rs` and `fleet.rs` are.
//! Invariant: whatever the text is, reading it ends in values or in problems, never in a panic.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive, path::PathBuf, time::Duration};

use toml::de::{DeTable, DeValue};

/// The longest duration that any file or call may name: ten years.
pub const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

/// One mistake in a file or in settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; none for settings that came from no file.
    pub line: Option<usize>,
    /// The path of the key, such as `kinds."site.qa".lease`; empty for the file as a whole.
    pub key: String,
    /// What is wrong with it.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

/// Mistakes found so far in one text.
#[derive(Debug)]
pub(super) struct Problems {
    /// Where lines end, in bytes from the start of the text.
    ends: Vec<usize>,
    found: Vec<Problem>,
}

/// Above this many bytes a name is like no other: comparing costs their product.
const MOST_COMPARED: usize = 256;

impl Problems {
    /// Parses a text. None: it is no TOML, and the problems say where.
    pub(super) fn parse(text: &str) -> (Option<Table<'_>>, Self) {
        let ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at).collect();
        let mut problems = Self { ends, found: Vec::new() };
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            problems.add(at, "", message);
        }
        let table = errors.is_empty().then(|| Table::new(String::new(), root.into_inner()));
        (table, problems)
    }

    pub(super) fn add(&mut self, at: usize, key: &str, text: impl Into<String>) {
        let line = 1 + self.ends.partition_point(|&end| end < at);
        self.found.push(Problem { line: Some(line), key: key.to_owned(), text: text.into() });
    }

    /// Whether something of a table is wrong.
    pub(super) fn tells_of(&self, table: &str) -> bool {
        self.found.iter().any(|problem| problem.key.split('.').next() == Some(table))
    }

    /// All of them, by line.
    pub(super) fn into_found(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| problem.line);
        self.found
    }
}

/// A table whose keys are taken one by one; what is left over is unknown.
#[derive(Debug)]
pub(super) struct Table<'t> {
    path: String,
    entries: BTreeMap<String, (usize, toml::Spanned<DeValue<'t>>)>,
    known: Vec<&'static str>,
}

impl<'t> Table<'t> {
    fn new(path: String, table: DeTable<'t>) -> Self {
        let entries = table
            .into_iter()
            .map(|(key, value)| (key.get_ref().to_string(), (key.span().start, value)))
            .collect();
        Self { path, entries, known: Vec::new() }
    }

    /// The value of a key, if it is there.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Value<'t>> {
        self.known.push(key);
        let (at, value) = self.entries.remove(key)?;
        Some(Value { path: join(&self.path, key), at, value: value.into_inner() })
    }

    /// A table under a key, if it is there and is one.
    pub(super) fn take_table(&mut self, key: &'static str, problems: &mut Problems) -> Option<Table<'t>> {
        self.take(key)?.table(problems)
    }

    /// Everything else is unknown. `later` names keys of later versions.
    pub(super) fn finish(self, later: &[&str], problems: &mut Problems) {
        for (key, (at, _)) in &self.entries {
            let path = join(&self.path, key);
            if later.contains(&key.as_str()) {
                problems.add(*at, &path, "is not supported by this version");
                continue;
            }
            let hint = nearest(key, self.known.iter().copied())
                .map(|near| format!("did you mean {near:?}?"))
                .unwrap_or_else(|| format!("known here: {}", self.known.join(", ")));
            problems.add(*at, &path, format!("is unknown; {hint}"));
        }
    }

    /// All entries of a table whose keys are names of the user's.
    pub(super) fn into_entries(self) -> impl Iterator<Item = (String, Value<'t>)> {
        let path = self.path;
        self.entries.into_iter().map(move |(key, (at, value))| {
            let value = Value { path: join(&path, &key), at, value: value.into_inner() };
            (key, value)
        })
    }
}

/// A value with its place.
#[derive(Debug)]
pub(super) struct Value<'t> {
    path: String,
    at: usize,
    value: DeValue<'t>,
}

impl<'t> Value<'t> {
    /// Where it stands, in bytes from the start of the text.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Its path.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Says what is wrong with it.
    pub(super) fn refuse(&self, problems: &mut Problems, text: impl Into<String>) {
        problems.add(self.at, &self.path, text);
    }

    fn expected<T>(&self, problems: &mut Problems, what: &str) -> Option<T> {
        self.refuse(problems, format!("must be {what}, not {}", with_article(self.value.type_str())));
        None
    }

    pub(super) fn table(self, problems: &mut Problems) -> Option<Table<'t>> {
        let Self { path, at, value } = self;
        if let DeValue::Table(table) = value {
            return Some(Table::new(path, table));
        }
        Self { path, at, value }.expected(problems, "a table")
    }

    pub(super) fn array(self, problems: &mut Problems) -> Option<Vec<Value<'t>>> {
        let Self { path, at, value } = self;
        let DeValue::Array(array) = value else {
            return Self { path, at, value }.expected(problems, "an array");
        };
        let items = array.into_iter().enumerate();
        Some(
            items
                .map(|(i, item)| Value {
                    path: format!("{path}[{i}]"),
                    at: item.span().start,
                    value: item.into_inner(),
                })
                .collect(),
        )
    }

    pub(super) fn text(&self, problems: &mut Problems) -> Option<&str> {
        if let DeValue::String(text) = &self.value {
            return Some(text);
        }
        self.expected(problems, "a text")
    }

    /// A path: any text that can be one; an empty one is the caller's to judge.
    pub(super) fn path_text(&self, problems: &mut Problems) -> Option<PathBuf> {
        let text = self.text(problems)?;
        if text.contains('\0') {
            self.refuse(problems, "holds a NUL character");
            return None;
        }
        Some(text.into())
    }

    /// The text, if it is one: for keys that take a text or something else.
    pub(super) fn as_text(&self) -> Option<&str> {
        self.value.as_str()
    }

    /// True or false, if it is one of them.
    pub(super) fn as_bool(&self) -> Option<bool> {
        self.value.as_bool()
    }

    /// Whether it is a list.
    pub(super) fn is_array(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// Whether it is a table.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    /// A text that names one of a few things.
    pub(super) fn choice<T: Copy>(&self, problems: &mut Problems, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(problems)?;
        let found = choices.iter().find(|(word, _)| *word == text).map(|&(_, choice)| choice);
        if found.is_none() {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
            self.refuse(problems, format!("must be {}, not {text:?}", words.join(" or ")));
        }
        found
    }

    /// A whole number within bounds.
    pub(super) fn integer<T>(&self, problems: &mut Problems, within: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<i64> + PartialOrd + fmt::Display,
    {
        let DeValue::Integer(integer) = &self.value else { return self.expected(problems, "a whole number") };
        let number =
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().and_then(|n| T::try_from(n).ok());
        let within_bounds = number.filter(|number| within.contains(number));
        if within_bounds.is_none() {
            self.refuse(problems, format!("must be {} to {}", within.start(), within.end()));
        }
        within_bounds
    }

    /// A number within bounds, in thousandths.
    pub(super) fn permille(&self, problems: &mut Problems, within: RangeInclusive<u32>) -> Option<u32> {
        let number: Option<f64> = if let DeValue::Integer(integer) = &self.value {
            integer.as_str().parse().ok()
        } else if let DeValue::Float(float) = &self.value {
            float.as_str().parse().ok()
        } else {
            return self.expected(problems, "a number");
        };
        let found = number.and_then(|number| {
            // Compared instead of cast: there are few thousandths, and a cast could truncate.
            let scaled = (number * 1000.0).round();
            within.clone().find(|&permille| f64::from(permille) >= scaled).filter(|&p| f64::from(p) == scaled)
        });
        if found.is_none() {
            let [low, high] = [within.start(), within.end()].map(|&permille| f64::from(permille) / 1000.0);
            self.refuse(problems, format!("must be {low} to {high}"));
        }
        found
    }

    /// A duration within bounds, written like "90s" or "1h 30m".
    pub(super) fn duration(
        &self,
        problems: &mut Problems,
        within: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let DeValue::String(text) = &self.value else {
            return self.expected(problems, "a duration in quotes, such as \"90s\"");
        };
        match humantime::parse_duration(text) {
            Ok(duration) if within.contains(&duration) && !duration.subsec_nanos().is_multiple_of(1000) => {
                self.refuse(problems, "must be whole microseconds");
                None
            }
            Ok(duration) if within.contains(&duration) => Some(duration),
            Ok(duration) if duration < *within.start() => {
                self.refuse(
                    problems,
                    format!("must be at least {}", humantime::format_duration(*within.start())),
                );
                None
            }
            Ok(_) => {
                self.refuse(problems, format!("must be at most {}", longest(*within.end())));
                None
            }
            Err(error) => {
                self.refuse(problems, format!("is no duration such as \"90s\" or \"1h 30m\": {error}"));
                None
            }
        }
    }
}

/// A bound of some days in days, a shorter one as it is written.
fn longest(bound: Duration) -> String {
    match bound.as_secs() / 86_400 {
        0 | 1 => humantime::format_duration(bound).to_string(),
        days => format!("{days} days"),
    }
}

/// The known name that is closest to another, if any is close.
pub(crate) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    known
        .take_while(|_| name.len() <= MOST_COMPARED)
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|&(distance, _)| distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

fn join(path: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let key = if bare { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn with_article(word: &str) -> String {
    let vowel = word.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {word}", if vowel { "an" } else { "a" })
}

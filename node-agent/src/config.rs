//! The node file: what this machine offers, what it runs, and when it says no.
//!
//! Responsible for reading the file, for naming every mistake in it with file, line and key, and for the checked
//! [`Config`] that the agent starts with. Not responsible for what pressure rules mean (`pressure/settings.rs`), nor
//! for anything that the server decides.
//!
//! Invariant: only a kind that stands in this file is ever run, by the argv that stands here.

mod changes;
mod kinds;
mod lines;
mod nearest;
mod servers;
mod slots;
mod units;
mod users;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tenure_tls::{Files, Role, files::Own};
use tonic::transport::Uri;

use self::kinds::KindFile;
use self::lines::Lines;
use self::units::Rate;
use crate::cgroup::Wanted;
use crate::clock::Clock;
use crate::holdings::StartRate;
use crate::pressure::rules::KindFacts;
use crate::pressure::settings::Settings;
use crate::pressure::{self, Pressure};

pub use self::kinds::{Advertised, Kind, ResultSource};
pub(crate) use self::servers::is_loopback;
pub(crate) use self::slots::in_a_variable;
pub use self::users::{Account, lookup_uid, own as own_account};

/// The default search path of commands, unless a kind sets `PATH`.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Unaccepted grants that the node takes at once, unless the file says otherwise.
const DEFAULT_CREDITS: u32 = 16;
/// How long running jobs may go on when the agent stops, unless the file says otherwise.
const DEFAULT_DRAIN: Duration = Duration::from_secs(60);
/// Slots and labels that a Hello can carry.
const MOST_NAMES: usize = 64;
/// Kinds that a Hello can carry.
const MOST_KINDS: usize = 1_000;
/// The value of a label, in bytes, as the server takes it.
const LONGEST_LABEL: usize = 255;
/// What a message shows of the text that is wrong, in bytes.
const MOST_SHOWN: usize = 200;

/// A checked node file: everything that the agent needs to know of its machine's purpose.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's name: `[a-z0-9._-]{1,63}`.
    pub name: String,
    /// The servers' addresses, in the order in which they are asked: HTTPS, or plain HTTP on loopback.
    pub servers: Vec<Uri>,
    /// Speaks to other hosts without TLS. Not in the file: whoever starts the agent says so each time.
    pub insecure: bool,
    /// For HTTPS: whom to believe, and who this node is. Read again for each connection.
    pub tls: Option<Files>,
    /// The state directory, absolute: lock, identity, spool, attempts.
    pub data: PathBuf,
    /// Capacity by slot.
    pub slots: BTreeMap<String, u32>,
    /// The numbers of the units of slots that have some, in order: as many as the capacity.
    pub indexes: BTreeMap<String, Vec<u32>>,
    /// Routing labels.
    pub labels: BTreeMap<String, String>,
    /// What the node runs, by kind.
    pub kinds: BTreeMap<String, Kind>,
    /// Start limits by slot.
    pub starts: BTreeMap<String, StartRate>,
    /// Rules on pressure, merged over the defaults when the sampler starts.
    pub pressure: Settings,
    /// Unaccepted grants that the node takes at once.
    pub credits: u32,
    /// How long running jobs may go on when the agent stops.
    pub drain_deadline: Duration,
    /// Whether attempts are held by cgroups.
    pub containment: Wanted,
}

/// The file as it is written. [`NodeFile::validate`] makes a [`Config`] of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeFile {
    name: Option<String>,
    server: Option<String>,
    servers: Option<Vec<String>>,
    data: Option<PathBuf>,
    allow_root: bool,
    credits: Option<u32>,
    #[serde(deserialize_with = "units::optional_duration")]
    drain_deadline: Option<Duration>,
    containment: Wanted,
    tls: Option<TlsFile>,
    slots: BTreeMap<String, slots::SlotFile>,
    labels: BTreeMap<String, String>,
    kinds: BTreeMap<String, KindFile>,
    starts: BTreeMap<String, Rate>,
    pressure: Settings,
    /// Where it was read from, and where its keys stand.
    #[serde(skip)]
    origin: Origin,
}

/// What flags and the environment say; they win over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The node's name.
    pub name: Option<String>,
    /// The server's address; of several, all of them between commas.
    pub server: Option<String>,
    /// The state directory.
    pub data: Option<PathBuf>,
    /// The files of TLS.
    pub tls: Option<Files>,
    /// Speaks to another host without TLS.
    pub insecure: bool,
}

/// `[tls]` as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsFile {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

/// One thing that is wrong in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The file; empty where settings came from flags alone.
    pub file: PathBuf,
    /// The line of the key, or of the table that lacks it. 0: in no file.
    pub line: usize,
    /// The key, dotted; empty where the problem names it.
    pub key: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the node file {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no TOML, or has a key that does not exist or a value of another type.
    #[error("{}:{line}: {problem}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Which line.
        line: usize,
        /// The key or the text there, and what is wrong with it.
        problem: String,
    },
    /// The file can be read and says things that cannot be. All of them.
    #[error("{}", join(.0))]
    Invalid(Vec<Violation>),
}

#[derive(Clone, Debug, Default)]
struct Origin {
    path: PathBuf,
    lines: Lines,
}

impl NodeFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Takes the text of a file; `path` is for messages, and relative paths in the file start in its directory.
    ///
    /// # Errors
    /// If it is no TOML, or has a key that does not exist or a value of another type.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let mut file: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| lines::line_of(text, span.start));
            let found = text.lines().nth(line.saturating_sub(1)).unwrap_or("").trim();
            let problem = nearest::unknown_key(error.message())
                .unwrap_or_else(|| format!("{} (at `{}`)", error.message(), clipped(found)));
            let problem = printable(&problem);
            Error::Syntax { path: path.to_owned(), line, problem }
        })?;
        file.origin = Origin { path: path.to_owned(), lines: Lines::of(text) };
        Ok(file)
    }

    /// Whether it says which server the node belongs to: `tenure up` knows that better.
    #[must_use]
    pub fn names_server(&self) -> bool {
        self.server.is_some() || self.servers.is_some()
    }

    /// Checks everything and names every violation at once.
    ///
    /// # Errors
    /// If anything is wrong.
    pub fn validate(self, overrides: Overrides) -> Result<Config, Error> {
        self.validate_as(overrides, rustix::process::geteuid().is_root())
    }

    fn validate_as(self, overrides: Overrides, root: bool) -> Result<Config, Error> {
        let mut found = Findings { origin: &self.origin, violations: Vec::new() };
        let name = overrides.name.or(self.name);
        match name.as_deref() {
            None => found.add(&["name"], "is missing: give the node a name, such as \"mini-1\""),
            Some(name) if !is_name(name) => found.add(&["name"], &not_a_name(name)),
            Some(_) => {}
        }
        let name = name.unwrap_or_default();
        let named = servers::Named::of(overrides.server, self.server, self.servers, &mut found);
        let base = self.origin.path.parent().map(Path::to_owned).unwrap_or_default();
        let tls = overrides.tls.or_else(|| {
            let TlsFile { ca, cert, key } = self.tls?;
            Some(Files { ca: base.join(ca), own: Some(Own { cert: base.join(cert), key: base.join(key) }) })
        });
        let safe = servers::Safe { tls: tls.is_some(), insecure: overrides.insecure };
        let servers = named.check(safe, &mut found);
        let data = overrides.data.or(self.data.map(|data| base.join(data))).or_else(|| default_data(&name));
        let data = data.and_then(|data| std::path::absolute(data).ok()).unwrap_or_else(|| {
            found.add(&["data"], "is missing, and there is no home directory to derive it from");
            PathBuf::new()
        });
        if data.as_os_str().as_encoded_bytes().contains(&0) {
            found.add(&["data"], "must not contain NUL");
        }
        check_counts(self.slots.len(), &self.labels, &mut found);
        let (slots, indexes) = slots::check(self.slots, &mut found);
        let starts = check_starts(self.starts, &slots, &mut found);
        if self.kinds.len() > MOST_KINDS {
            found.add(
                &["kinds"],
                &format!("names {} kinds; at most {MOST_KINDS} are possible", self.kinds.len()),
            );
        }
        let identity = kinds::Identity { root, must_name_user: root && !self.allow_root };
        let checked = self.kinds.into_iter().filter_map(|(kind, file)| {
            let checked = file.check(&kind, &base, identity, &mut found)?;
            Some((kind, checked))
        });
        let kinds = checked.collect();
        let credits = self.credits.unwrap_or(DEFAULT_CREDITS);
        if !(1..=1_000).contains(&credits) {
            found.add(&["credits"], "must be 1 to 1000");
        }
        let config = Config {
            name,
            servers,
            insecure: overrides.insecure,
            tls,
            data,
            slots,
            indexes,
            labels: self.labels,
            kinds,
            starts,
            pressure: self.pressure,
            credits,
            drain_deadline: self.drain_deadline.unwrap_or(DEFAULT_DRAIN),
            containment: self.containment,
        };
        if let Err(pressure::Error::Settings(reasons)) =
            Pressure::new(config.watched(Vec::new(), Clock::default()))
        {
            reasons.iter().for_each(|reason| found.add_rule(reason));
        }
        if found.violations.is_empty() { Ok(config) } else { Err(Error::Invalid(found.violations)) }
    }
}

impl Config {
    /// Checks that the certificate is this node's: the server would refuse its session otherwise.
    ///
    /// # Errors
    /// Which file, and what is wrong with it.
    pub fn check_certificate(&self) -> Result<(), tenure_tls::files::Error> {
        let own = self.tls.as_ref().filter(|_| self.speaks_tls()).and_then(|tls| tls.own.as_ref());
        own.map_or(Ok(()), |own| own.check_holder(Role::Node, Some(&self.name)))
    }

    /// Whether the servers are spoken to by TLS.
    #[must_use]
    pub fn speaks_tls(&self) -> bool {
        self.servers.iter().any(|server| server.scheme_str() == Some("https"))
    }

    /// What the sampler has to know. `dirs`: whose file systems must have room.
    pub fn watched(&self, dirs: Vec<PathBuf>, clock: Clock) -> pressure::Options {
        let kinds = self.kinds.iter().map(|(name, kind)| {
            let facts = KindFacts { uid: kind.user.as_ref().map(|user| user.uid), headroom: kind.headroom };
            (name.clone(), facts)
        });
        let (settings, kinds) = (self.pressure.clone(), kinds.collect());
        pressure::Options { settings, kinds, dirs, clock, users: lookup_uid }
    }
}

/// Collects violations with their places.
struct Findings<'a> {
    origin: &'a Origin,
    violations: Vec<Violation>,
}

impl Findings<'_> {
    fn add(&mut self, key: &[&str], problem: &str) {
        self.violations.push(Violation {
            file: self.origin.path.clone(),
            line: self.origin.lines.line(key),
            key: key.join("."),
            problem: problem.to_owned(),
        });
    }

    /// What is wrong with the rules on pressure, which name themselves.
    fn add_rule(&mut self, reason: &str) {
        let rule = reason.split('"').nth(1).unwrap_or_default();
        let line = self.origin.lines.line(&["pressure", "rule", rule]);
        let (file, problem) = (self.origin.path.clone(), reason.to_owned());
        self.violations.push(Violation { file, line, key: String::new(), problem });
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}:{}: ", self.file.display(), self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, "{} ", printable(clipped(&self.key)))?;
        }
        f.write_str(&printable(&self.problem))
    }
}

/// The begin of a text.
fn clipped(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MOST_SHOWN)).unwrap_or_default()
}

/// A text for a terminal: what would steer it is escaped.
fn printable(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

fn join(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("\n")
}

pub(crate) fn is_name(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    (1..=63).contains(&text.len()) && text.bytes().all(allowed)
}

fn not_a_name(text: &str) -> String {
    format!("\"{}\" is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen", clipped(text))
}

fn check_counts(slots: usize, labels: &BTreeMap<String, String>, found: &mut Findings<'_>) {
    for (table, count) in [("slots", slots), ("labels", labels.len())] {
        if count > MOST_NAMES {
            found.add(&[table], &format!("has {count} entries; at most {MOST_NAMES} are possible"));
        }
    }
    for (label, value) in labels {
        if !is_name(label) {
            found.add(&["labels", label], &not_a_name(label));
        }
        if value.len() > LONGEST_LABEL || value.chars().any(char::is_control) {
            found.add(
                &["labels", label],
                &format!("must be at most {LONGEST_LABEL} bytes without control characters"),
            );
        }
    }
}

fn check_starts(
    starts: BTreeMap<String, Rate>,
    slots: &BTreeMap<String, u32>,
    found: &mut Findings<'_>,
) -> BTreeMap<String, StartRate> {
    for slot in starts.keys().filter(|slot| !slots.contains_key(*slot)) {
        found.add(&["starts", slot], "limits a slot that is not in [slots]");
    }
    starts.into_iter().map(|(slot, Rate(rate))| (slot, rate)).collect()
}

/// `$XDG_STATE_HOME/tenure/agent-NAME`.
fn default_data(name: &str) -> Option<PathBuf> {
    let absolute =
        |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("tenure").join(format!("agent-{name}")))
}

#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod tests;

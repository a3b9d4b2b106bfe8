//! Settings of the server, and the two files that an operator writes for it: the server file and the fleet file.
//!
//! Responsible for: reading, defaults, and telling every mistake at once with file, line and key. Not responsible for:
//! flags and environment variables (those are the command line's), or for what a fleet file means to jobs that are
//! stored already (that is the scheduler's).
//! Invariant: a [`Config`] that passed [`Config::validate`] can be served: it listens beyond loopback only with TLS, or
//! because that was asked for.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::clock;

mod access;
mod database;
mod document;
mod fleet;
mod results;
mod selector;
mod server_file;
#[cfg(test)]
mod tests;
mod webhooks;

pub use access::{Deny, Producer, Producers, TRUST_DOMAIN, Tls};
pub use database::{Database, Unreadable};
pub(crate) use document::nearest;
pub use document::{LONGEST, Problem};
pub use fleet::parse as parse_fleet;
pub use results::{ResultBucket, ResultPlace, Results};
pub(crate) use selector::{MOST_REQUIREMENTS, MOST_VALUES, label_problem, label_value_problem};
pub use webhooks::{Network, SecretFiles, Webhooks};

/// All settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where gRPC is served. Beyond loopback only with TLS; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where `/metrics`, `/livez` and `/readyz` are served. Loopback only; port 0 takes a free one.
    pub http: SocketAddr,
    /// Where other servers on the same database hand calls on to this one while it leads. Beyond loopback only with TLS;
    /// port 0 takes a free one. Default: nowhere.
    pub peer_listen: Option<SocketAddr>,
    /// Under which `host:port` clients and agents reach this server; written into the database while it leads. Default:
    /// `listen`, unless that is every address of the host.
    pub advertise: Option<String>,
    /// Under which `host:port` other servers reach `peer_listen`, likewise. Default: `peer_listen`, likewise.
    pub peer_advertise: Option<String>,
    /// The directory of the SQLite file. Made if it does not exist.
    pub data: PathBuf,
    /// A Postgres database instead of the SQLite file. Default: none.
    pub database: Option<Database>,
    /// Whether an older schema of the Postgres database is brought up to date at the start; else it is refused. Not in
    /// the file: it is said once, by a flag. (A SQLite file always is.)
    pub migrate: bool,
    /// What a client may not exceed.
    pub limits: Limits,
    /// For how long what has ended is kept.
    pub retention: Retention,
    /// Results over the inline limit.
    pub results: Results,
    /// Certificates. None: no TLS, and whoever reaches the port may do everything.
    pub tls: Option<Tls>,
    /// Whose certificates count for nothing.
    pub deny: Deny,
    /// What producers are limited to.
    pub producers: Producers,
    /// With what webhooks are signed, and which addresses they may reach beside public ones.
    pub webhooks: Webhooks,
    /// Serves beyond loopback without TLS. Not in the file: whoever starts the server says so each time.
    pub insecure: bool,
    /// Which clocks. Not in the file: `tenure up` and tests set it.
    pub clock: clock::Options,
    /// What goes to the global providers of OpenTelemetry. Not in the file: the standard environment says it.
    pub telemetry: Telemetry,
}

/// What is told to the global providers of OpenTelemetry. Default: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Telemetry {
    /// Spans of calls, turns and commits.
    pub traces: bool,
    /// The figures of `/metrics`.
    pub metrics: bool,
}

/// What clients may not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Jobs that are not final, 1 to 20,000,000. The next enqueue is refused with STORE_FULL.
    pub max_live_jobs: u64,
    /// Open connections of clients and agents together, 8 to 65,536. More wait in the kernel's backlog.
    pub max_connections: u32,
    /// Of them, those of one address, under TLS. 1 to 65,536. More are closed.
    pub max_connections_per_ip: u32,
    /// TLS handshakes of one address at once, 1 to 256. More are closed.
    pub max_handshakes_per_ip: u32,
    /// How many parents may stand above a job, 1 to 64. A deeper one is refused with TREE_LIMIT.
    pub tree_depth: u8,
    /// Children of one job in all, 1 to 10,000. Then TREE_LIMIT.
    pub tree_children: u32,
    /// Live jobs below one that has no parent, 1 to 100,000: they are cancelled in one turn. Then TREE_LIMIT.
    pub tree_descendants: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_live_jobs: 20_000_000,
            max_connections: 1024,
            max_connections_per_ip: 256,
            max_handshakes_per_ip: 64,
            tree_depth: 16,
            tree_children: 1000,
            tree_descendants: 10_000,
        }
    }
}

/// For how long what has ended is kept, where the kind in the fleet file does not say. A change counts for the next
/// fleet file that is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Final jobs with their attempts. Default: 7 days.
    pub final_jobs: Duration,
    /// Results. Default: 7 days.
    pub results: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        const WEEK: Duration = Duration::from_secs(7 * 86_400);
        Self { final_jobs: WEEK, results: WEEK }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7070)),
            http: SocketAddr::from((Ipv4Addr::LOCALHOST, 7071)),
            peer_listen: None,
            advertise: None,
            peer_advertise: None,
            data: default_data_dir(),
            database: None,
            migrate: false,
            limits: Limits::default(),
            retention: Retention::default(),
            results: Results::default(),
            tls: None,
            deny: Deny::default(),
            producers: Producers::default(),
            webhooks: Webhooks::default(),
            insecure: false,
            clock: clock::Options::default(),
            telemetry: Telemetry::default(),
        }
    }
}

impl Config {
    /// Reads and validates a server file. What it does not name is as in [`Config::default`]; a relative `data` or
    /// `database_url_file` is meant from the directory of the file.
    ///
    /// # Errors
    /// If the file cannot be read, or with every mistake in it.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::load_as(path, false)
    }

    /// As [`Config::load`], for a start that may be without TLS beyond loopback.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_as(path: &Path, insecure: bool) -> Result<Self, Error> {
        let file = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|source| Error::Read { file: file.clone(), source })?;
        let parsed = server_file::parse(&text, insecure);
        let mut config = parsed.map_err(|problems| Error::Invalid { file, problems })?;
        if let Some(parent) = path.parent() {
            config.data = parent.join(&config.data);
            if let Some(Database::File(file)) = &mut config.database {
                *file = parent.join(&file);
            }
            config.results.relative_to(parent);
            if let Some(tls) = &mut config.tls {
                tls.relative_to(parent);
            }
            config.webhooks.relative_to(parent);
        }
        Ok(config)
    }

    /// Reads and validates the text of a server file. `file` is its name in errors.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        server_file::parse(text, false).map_err(|problems| Error::Invalid { file: file.to_owned(), problems })
    }

    /// Checks the settings, wherever they came from.
    ///
    /// # Errors
    /// Every mistake in them.
    pub fn validate(&self) -> Result<(), Error> {
        let problems: Vec<Problem> = self
            .violations()
            .into_iter()
            .map(|(key, text)| Problem { line: None, key: key.to_owned(), text })
            .collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Error::Invalid { file: "settings".to_owned(), problems })
        }
    }

    /// Keys as in the server file, with what is wrong.
    fn violations(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if !self.listen.ip().is_loopback() && self.tls.is_none() && !self.insecure {
            found.push(("server.listen", without_tls(self.listen)));
        }
        if !self.http.ip().is_loopback() && !self.insecure {
            found.push(("server.http", beyond_loopback(self.http)));
        }
        if self.listen == self.http && self.listen.port() != 0 {
            found.push(("server.http", format!("is the same address as server.listen: {}", self.http)));
        }
        if let Some(peer) = self.peer_listen {
            if !peer.ip().is_loopback() && self.tls.is_none() && !self.insecure {
                found.push(("server.peer_listen", without_tls(peer)));
            }
            if peer.port() != 0 && [self.listen, self.http].contains(&peer) {
                let problem = format!("is the same address as server.listen or server.http: {peer}");
                found.push(("server.peer_listen", problem));
            }
        }
        for (key, address) in
            [("server.advertise", &self.advertise), ("server.peer_advertise", &self.peer_advertise)]
        {
            if let Some(address) = address.as_ref().filter(|address| !is_host_and_port(address)) {
                let problem =
                    format!("must be HOST:PORT, such as \"control-1.example:7070\", not {address:?}");
                found.push((key, problem));
            }
        }
        if self.peer_advertise.is_some() && self.peer_listen.is_none() {
            found.push((
                "server.peer_advertise",
                "says where server.peer_listen is reached: give both".to_owned(),
            ));
        }
        if self.data.as_os_str().is_empty() {
            found.push(("server.data", "must name a directory".to_owned()));
        }
        if !(1..=20_000_000).contains(&self.limits.max_live_jobs) {
            found.push(("limits.max_live_jobs", "must be 1 to 20000000".to_owned()));
        }
        if !(8..=65_536).contains(&self.limits.max_connections) {
            found.push(("limits.max_connections", "must be 8 to 65536".to_owned()));
        }
        if !(1..=65_536).contains(&self.limits.max_connections_per_ip) {
            found.push(("limits.max_connections_per_ip", "must be 1 to 65536".to_owned()));
        }
        if !(1..=256).contains(&self.limits.max_handshakes_per_ip) {
            found.push(("limits.max_handshakes_per_ip", "must be 1 to 256".to_owned()));
        }
        if !(1..=64).contains(&self.limits.tree_depth) {
            found.push(("limits.tree_depth", "must be 1 to 64".to_owned()));
        }
        if !(1..=10_000).contains(&self.limits.tree_children) {
            found.push(("limits.tree_children", "must be 1 to 10000".to_owned()));
        }
        if !(1..=100_000).contains(&self.limits.tree_descendants) {
            found.push(("limits.tree_descendants", "must be 1 to 100000".to_owned()));
        }
        for (key, length) in [
            ("retention.final_jobs", self.retention.final_jobs),
            ("retention.results", self.retention.results),
        ] {
            if length > LONGEST {
                found.push((key, format!("must be at most {} days", LONGEST.as_secs() / 86_400)));
            }
        }
        found
    }
}

/// A name or an address, with a port, and nothing else: it is what others connect to.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let name = |host: &str| {
        (1..=253).contains(&host.len())
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    };
    let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = v6.map_or_else(|| name(host), |host| host.parse::<Ipv6Addr>().is_ok());
    host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn without_tls(address: SocketAddr) -> String {
    format!(
        "{address} is beyond loopback, and there is no [tls]: everybody who reaches the port could do everything. Add \
         [tls] with certificates from `tenure certs`, use 127.0.0.1:{port}, or start with --insecure",
        port = address.port()
    )
}

fn beyond_loopback(address: SocketAddr) -> String {
    format!(
        "{address} is beyond loopback, and metrics are served without TLS: use 127.0.0.1:{port}, or start with \
         --insecure",
        port = address.port()
    )
}

/// `$XDG_STATE_HOME/tenure`, else `~/.local/state/tenure`, else `tenure-data` here.
fn default_data_dir() -> PathBuf {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map_or_else(|| PathBuf::from("tenure-data"), |state| state.join("tenure"))
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {file}")]
    Read {
        /// Its name.
        file: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It can, and is wrong.
    #[error("{}", Listed { file, problems })]
    Invalid {
        /// Its name, or "settings".
        file: String,
        /// Every mistake, by line.
        problems: Vec<Problem>,
    },
}

/// `file:line: key: text`, one line each.
struct Listed<'a> {
    file: &'a str,
    problems: &'a [Problem],
}

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Problem { line, key, text }) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(self.file)?;
            if let Some(line) = line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
            if !key.is_empty() {
                write!(f, "{key}: ")?;
            }
            f.write_str(text)?;
        }
        Ok(())
    }
}

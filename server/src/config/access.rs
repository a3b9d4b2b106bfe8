//! `[tls]`, `[deny]` and `[producers]` of the server file.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use tenure_scheduler::{KindName, Tenant};
use tenure_tls::{
    Role,
    files::Own,
    identity::{is_name, normal_serial},
};

use super::document::{Problems, Table, Value};

/// The trust domain of certificates unless the file names another; `tenure certs init` takes the same.
pub const TRUST_DOMAIN: &str = "tenure";

/// How the server shows itself, and whom it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The server's certificate and key.
    pub own: Own,
    /// The authorities of clients and nodes.
    pub client_ca: PathBuf,
    /// Whose names the certificates of clients and nodes carry. Default: [`TRUST_DOMAIN`].
    pub trust_domain: String,
}

/// Whose certificates count for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deny {
    /// Holders, as `role/name`.
    pub names: BTreeSet<String>,
    /// Serial numbers, as [`tenure_tls::Certificate::serial`].
    pub serials: BTreeSet<String>,
}

/// What producers are limited to, by name. One that is not there may use everything.
pub type Producers = BTreeMap<String, Producer>;

/// What one producer is limited to. An absent part limits nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Producer {
    /// Kinds that it may enqueue and see.
    pub kinds: Option<BTreeSet<KindName>>,
    /// Tenants that it may enqueue for.
    pub tenants: Option<BTreeSet<Tenant>>,
    /// The highest priority that it may give, -100 to 100.
    pub max_priority: Option<i8>,
    /// Roles of the database whose rows of the inbox are its own. Each is of one producer.
    pub database_roles: BTreeSet<String>,
}

impl Tls {
    /// Relative paths are meant from the directory of the server file.
    pub(super) fn relative_to(&mut self, directory: &Path) {
        for path in [&mut self.own.cert, &mut self.own.key, &mut self.client_ca] {
            *path = directory.join(&*path);
        }
    }
}

pub(super) fn tls(mut table: Table<'_>, at: usize, problems: &mut Problems) -> Option<Tls> {
    let mut path = |key: &'static str, problems: &mut Problems| match table.take(key) {
        Some(value) => {
            let path = value.path_text(problems)?;
            if path.as_os_str().is_empty() {
                value.refuse(problems, "must name a file");
            }
            Some(path)
        }
        None => {
            problems.add(
                at,
                &format!("tls.{key}"),
                "is required beside the other two of cert, key and client_ca",
            );
            None
        }
    };
    let (cert, key, client_ca) = (path("cert", problems), path("key", problems), path("client_ca", problems));
    let mut trust_domain = TRUST_DOMAIN.to_owned();
    if let Some(value) = table.take("trust_domain")
        && let Some(text) = name(&value, problems)
    {
        trust_domain = text;
    }
    table.finish(&[], problems);
    Some(Tls { own: Own { cert: cert?, key: key? }, client_ca: client_ca?, trust_domain })
}

pub(super) fn deny(mut table: Table<'_>, problems: &mut Problems) -> Deny {
    let mut deny = Deny::default();
    for value in items(&mut table, "names", problems) {
        let Some(text) = value.text(problems) else { continue };
        let known = text.split_once('/').filter(|(role, name)| Role::parse(role).is_some() && is_name(name));
        match known {
            Some(_) => drop(deny.names.insert(text.to_owned())),
            None => value.refuse(
                problems,
                format!("must be a role and a name, such as \"node/mini-1\", not {text:?}"),
            ),
        }
    }
    for value in items(&mut table, "serials", problems) {
        let Some(text) = value.text(problems) else { continue };
        let serial = normal_serial(text);
        if serial.is_empty() || !serial.bytes().all(|b| b.is_ascii_hexdigit()) {
            value.refuse(problems, format!("must be a serial number in hexadecimal digits, not {text:?}"));
        } else {
            deny.serials.insert(serial);
        }
    }
    table.finish(&[], problems);
    deny
}

pub(super) fn producers(table: Table<'_>, problems: &mut Problems) -> Producers {
    let mut all = Producers::new();
    let mut taken = BTreeSet::new();
    for (name, value) in table.into_entries() {
        if !is_name(&name) {
            value.refuse(problems, "is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen");
        }
        let Some(mut table) = value.table(problems) else { continue };
        let mut producer = Producer {
            kinds: names(&mut table, "kinds", problems, KindName::parse),
            tenants: names(&mut table, "tenants", problems, Tenant::parse),
            max_priority: None,
            database_roles: BTreeSet::new(),
        };
        for value in items(&mut table, "database_roles", problems) {
            let Some(role) = self::name(&value, problems) else { continue };
            if !taken.insert(role.clone()) {
                value.refuse(problems, format!("{role:?} is a role of two producers, or twice of one"));
            }
            producer.database_roles.insert(role);
        }
        if let Some(value) = table.take("max_priority") {
            producer.max_priority = value.integer(problems, -100..=100);
        }
        table.finish(&[], problems);
        all.insert(name, producer);
    }
    all
}

fn names<T: Ord, E>(
    table: &mut Table<'_>,
    key: &'static str,
    problems: &mut Problems,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Option<BTreeSet<T>> {
    let values = table.take(key)?.array(problems)?;
    let mut found = BTreeSet::new();
    for value in values {
        if let Some(text) = name(&value, problems)
            && let Ok(parsed) = parse(&text)
        {
            found.insert(parsed);
        }
    }
    Some(found)
}

fn items<'t>(table: &mut Table<'t>, key: &'static str, problems: &mut Problems) -> Vec<Value<'t>> {
    table.take(key).and_then(|value| value.array(problems)).unwrap_or_default()
}

fn name(value: &Value<'_>, problems: &mut Problems) -> Option<String> {
    let text = value.text(problems)?;
    if is_name(text) {
        return Some(text.to_owned());
    }
    value.refuse(problems, format!("must be 1 to 63 of a-z, 0-9, dot, underscore and hyphen, not {text:?}"));
    None
}

//! The server file: `[server]`, `[limits]`, `[retention]`, and what `access.rs` reads.

use std::{net::SocketAddr, time::Duration};

use super::{
    Config, Database, LONGEST, Problem, access,
    document::{Problems, Table, Value},
    results, webhooks,
};

/// Keys that belong to later versions, so that the answer is not "unknown".
const LATER_LIMITS: &[&str] = &["per_producer"];

/// All settings, or all mistakes by line.
pub(super) fn parse(text: &str, insecure: bool) -> Result<Config, Vec<Problem>> {
    let (root, mut problems) = Problems::parse(text);
    let Some(mut root) = root else { return Err(problems.into_found()) };
    let mut config = Config { insecure, ..Config::default() };
    let mut places = Vec::new();
    if let Some(table) = root.take_table("server", &mut problems) {
        server(table, &mut config, &mut places, &mut problems);
    }
    if let Some(table) = root.take_table("limits", &mut problems) {
        limits(table, &mut config, &mut problems);
    }
    if let Some(table) = root.take_table("retention", &mut problems) {
        retention(table, &mut config, &mut problems);
    }
    if let Some(table) = root.take_table("results", &mut problems) {
        config.results = results::parse(table, &mut problems);
    }
    if let Some(value) = root.take("tls") {
        let at = value.at();
        config.tls = value.table(&mut problems).and_then(|table| access::tls(table, at, &mut problems));
    }
    if let Some(table) = root.take_table("deny", &mut problems) {
        config.deny = access::deny(table, &mut problems);
    }
    if let Some(table) = root.take_table("producers", &mut problems) {
        config.producers = access::producers(table, &mut problems);
    }
    if let Some(table) = root.take_table("webhooks", &mut problems) {
        config.webhooks = webhooks::webhooks(table, &mut problems);
    }
    root.finish(&[], &mut problems);

    let tls_is_wrong = config.tls.is_none() && problems.tells_of("tls");
    for (key, text) in config.violations() {
        // A wrong [tls] is told already.
        if key == "server.listen" && tls_is_wrong {
            continue;
        }
        let at = places.iter().find(|(place, _)| *place == key).map_or(0, |&(_, at)| at);
        problems.add(at, key, text);
    }
    let found = problems.into_found();
    if found.is_empty() { Ok(config) } else { Err(found) }
}

/// Where a key stands, for checks that look at several of them.
type Places = Vec<(&'static str, usize)>;

fn server(mut table: Table<'_>, config: &mut Config, places: &mut Places, problems: &mut Problems) {
    if let Some(value) = table.take("listen") {
        places.push(("server.listen", value.at()));
        config.listen = address(&value, problems).unwrap_or(config.listen);
    }
    if let Some(value) = table.take("http") {
        places.push(("server.http", value.at()));
        config.http = address(&value, problems).unwrap_or(config.http);
    }
    if let Some(value) = table.take("peer_listen") {
        places.push(("server.peer_listen", value.at()));
        config.peer_listen = address(&value, problems);
    }
    for (key, place, advertised) in [
        ("advertise", "server.advertise", &mut config.advertise),
        ("peer_advertise", "server.peer_advertise", &mut config.peer_advertise),
    ] {
        if let Some(value) = table.take(key) {
            places.push((place, value.at()));
            *advertised = value.text(problems).map(str::to_owned);
        }
    }
    if let Some(value) = table.take("data") {
        places.push(("server.data", value.at()));
        config.data = value.path_text(problems).unwrap_or_else(|| config.data.clone());
    }
    let mut places_of_data = usize::from(places.iter().any(|(key, _)| *key == "server.data"));
    for key in ["database_url", "database_url_file"] {
        let Some(value) = table.take(key) else { continue };
        places_of_data += 1;
        if places_of_data > 1 {
            value.refuse(
                problems,
                "is one too many: data, database_url and database_url_file exclude each other",
            );
        } else if let Some(text) = value.text(problems) {
            let database = if key == "database_url" {
                Database::Url(text.to_owned())
            } else {
                Database::File(value.path_text(problems).unwrap_or_default())
            };
            let unusable = matches!(database, Database::Url(_)) && database.address().is_err();
            if text.is_empty() || unusable {
                value.refuse(
                    problems,
                    "must be a URL such as \"postgres://user@host:5432/database\", or a file with one",
                );
            }
            config.database = Some(database);
        }
    }
    table.finish(&[], problems);
}

fn address(value: &Value<'_>, problems: &mut Problems) -> Option<SocketAddr> {
    let text = value.text(problems)?;
    let parsed = text.parse().ok();
    if parsed.is_none() {
        value.refuse(
            problems,
            format!("must be an address with a port, such as \"127.0.0.1:7070\", not {text:?}"),
        );
    }
    parsed
}

fn limits(mut table: Table<'_>, config: &mut Config, problems: &mut Problems) {
    let limits = &mut config.limits;
    if let Some(value) = table.take("max_live_jobs") {
        limits.max_live_jobs = value.integer(problems, 1..=20_000_000).unwrap_or(limits.max_live_jobs);
    }
    if let Some(value) = table.take("max_connections") {
        limits.max_connections = value.integer(problems, 8..=65_536).unwrap_or(limits.max_connections);
    }
    if let Some(value) = table.take("max_connections_per_ip") {
        let read = value.integer(problems, 1..=65_536);
        limits.max_connections_per_ip = read.unwrap_or(limits.max_connections_per_ip);
    }
    if let Some(value) = table.take("max_handshakes_per_ip") {
        let read = value.integer(problems, 1..=256);
        limits.max_handshakes_per_ip = read.unwrap_or(limits.max_handshakes_per_ip);
    }
    if let Some(value) = table.take("tree_depth") {
        let read = value.integer(problems, 1..=64).and_then(|depth: u32| u8::try_from(depth).ok());
        limits.tree_depth = read.unwrap_or(limits.tree_depth);
    }
    if let Some(value) = table.take("tree_children") {
        limits.tree_children = value.integer(problems, 1..=10_000).unwrap_or(limits.tree_children);
    }
    if let Some(value) = table.take("tree_descendants") {
        limits.tree_descendants = value.integer(problems, 1..=100_000).unwrap_or(limits.tree_descendants);
    }
    table.finish(LATER_LIMITS, problems);
}

fn retention(mut table: Table<'_>, config: &mut Config, problems: &mut Problems) {
    let retention = &mut config.retention;
    if let Some(value) = table.take("final_jobs") {
        retention.final_jobs =
            value.duration(problems, Duration::ZERO..=LONGEST).unwrap_or(retention.final_jobs);
    }
    if let Some(value) = table.take("results") {
        retention.results = value.duration(problems, Duration::ZERO..=LONGEST).unwrap_or(retention.results);
    }
    table.finish(&[], problems);
}

//! Every mistake that a server file or a fleet file can hold: told with line and key, whatever the bytes are.

use std::{fs, path::Path};

use tempfile::TempDir;
use tenure_server::config::{Config, Retention, parse_fleet};

const SERVER: &str = r#"[server]
listen = "127.0.0.1:7070"
http = "127.0.0.1:7071"
data = "state"
[limits]
max_live_jobs = 1000
max_connections = 100
max_connections_per_ip = 50
max_handshakes_per_ip = 8
tree_depth = 16
tree_children = 100
tree_descendants = 500
[retention]
final_jobs = "7d"
results = "1d"
[results]
url = "s3://bucket/a"
max_bytes = 1_000_000
[tls]
cert = "server.pem"
key = "server.key"
client_ca = "ca.pem"
[deny]
names = ["node/old"]
serials = ["0a"]
"#;

const FLEET: &str = r#"[slots]
api = 6
browser = "node"
[kinds.qa]
needs = { browser = 1, api = 1 }
selector = { os = "linux" }
prefer = [{ zone = "a" }]
node_backoff = true
lease = "10m"
max_failures = 3
max_losses = 3
retry = { initial = "1s", factor = 2, max = "1m", jitter = 0.2 }
permanent_exit_codes = [64]
hard_time_limit = "30m"
soft_time_limit = "28m"
progress_timeout = "5m"
queue_cap = 20
concurrency = { key = "account", limit = 2 }
fifo = true
stale_after = "4h"
dedupe = "live"
priority = 5
result_ttl = "1d"
retention = "2d"
[tenants.site]
weight = 3
"#;

/// A piece of a good text, what stands there instead, the key that is named.
type Mistakes = [(&'static str, &'static str, &'static str)];

const OF_SERVER: &Mistakes = &[
    ("[server]", "[servr]", "servr"),
    ("[server]", "server = 1\n[x]", "server"),
    ("listen =", "listn =", "server.listn"),
    ("\"127.0.0.1:7070\"", "\"localhost\"", "server.listen"),
    ("\"127.0.0.1:7070\"", "\"127.0.0.1:70700\"", "server.listen"),
    ("\"127.0.0.1:7070\"", "\"127.0.0.1:7070\\u0000\"", "server.listen"),
    ("\"127.0.0.1:7070\"", "\"\"", "server.listen"),
    ("\"127.0.0.1:7070\"", "\"שלום:1\"", "server.listen"),
    ("\"127.0.0.1:7070\"", "7070", "server.listen"),
    ("\"127.0.0.1:7071\"", "\"127.0.0.1:7070\"", "server.http"),
    ("\"127.0.0.1:7071\"", "\"0.0.0.0:7071\"", "server.http"),
    ("\"state\"", "\"\"", "server.data"),
    ("\"state\"", "\"a\\u0000b\"", "server.data"),
    ("\"state\"", "[]", "server.data"),
    ("data = \"state\"", "database_url = \"mysql://x\"", "server.database_url"),
    ("data = \"state\"", "database_url_file = \"\"", "server.database_url_file"),
    ("data = \"state\"", "data = \"a\"\ndatabase_url = \"postgres://h/d\"", "server.database_url"),
    ("max_live_jobs = 1000", "max_live_jobs = 0", "limits.max_live_jobs"),
    ("max_live_jobs = 1000", "max_live_jobs = 20000001", "limits.max_live_jobs"),
    ("max_live_jobs = 1000", "max_live_jobs = 99999999999999999999999", "limits.max_live_jobs"),
    ("max_live_jobs = 1000", "max_live_jobs = -1", "limits.max_live_jobs"),
    ("max_live_jobs = 1000", "max_live_jobs = 1.5", "limits.max_live_jobs"),
    ("max_live_jobs = 1000", "max_live_jobs = \"many\"", "limits.max_live_jobs"),
    ("max_live_jobs = 1000", "max_job = 1", "limits.max_job"),
    ("max_connections = 100", "max_connections = 7", "limits.max_connections"),
    ("max_connections_per_ip = 50", "max_connections_per_ip = 65537", "limits.max_connections_per_ip"),
    ("max_handshakes_per_ip = 8", "max_handshakes_per_ip = 0", "limits.max_handshakes_per_ip"),
    ("tree_depth = 16", "tree_depth = 0", "limits.tree_depth"),
    ("tree_depth = 16", "tree_depth = 65", "limits.tree_depth"),
    ("tree_children = 100", "tree_children = 10001", "limits.tree_children"),
    ("tree_descendants = 500", "tree_descendants = 0", "limits.tree_descendants"),
    ("\"7d\"", "\"soon\"", "retention.final_jobs"),
    ("\"7d\"", "\"-1d\"", "retention.final_jobs"),
    ("\"7d\"", "\"11years\"", "retention.final_jobs"),
    ("\"7d\"", "\"1d 1ns\"", "retention.final_jobs"),
    ("\"7d\"", "7", "retention.final_jobs"),
    ("\"1d\"", "\"99999999999999999999d\"", "retention.results"),
    ("results =", "result =", "retention.result"),
    ("\"s3://bucket/a\"", "\"file:///a\"", "results.url"),
    ("\"s3://bucket/a\"", "7", "results.url"),
    ("1_000_000", "1", "results.max_bytes"),
    ("max_bytes =", "max_byte =", "results.max_byte"),
    ("cert = \"server.pem\"", "cert = 1", "tls.cert"),
    ("cert = \"server.pem\"", "crt = \"x\"", "tls.crt"),
    ("cert = \"server.pem\"", "cert = \"\"", "tls.cert"),
    ("[\"node/old\"]", "\"old\"", "deny.names"),
    ("[\"node/old\"]", "[\"A B\"]", "deny.names[0]"),
    ("[\"0a\"]", "[\"xyz\"]", "deny.serials[0]"),
    ("[\"0a\"]", "[7]", "deny.serials[0]"),
    ("[deny]", "[dny]", "dny"),
];

const OF_FLEET: &Mistakes = &[
    ("[slots]", "[slot]", "slot"),
    ("api = 6", "api = -1", "slots.api"),
    ("api = 6", "api = 1000001", "slots.api"),
    ("api = 6", "api = 99999999999999999999999", "slots.api"),
    ("api = 6", "api = \"nodes\"", "slots.api"),
    ("api = 6", "api = {}", "slots.api"),
    ("browser = \"node\"", "browser = \"node\"\n\"a b\" = 1", "slots.\"a b\""),
    ("browser = \"node\"", "browser = \"node\"\n\"\" = 1", "slots.\"\""),
    ("browser = \"node\"", "browser = \"node\"\n\"a\\u0000\" = 1", "slots.\"a\\0\""),
    ("[kinds.qa]", "[kinds.QA]", "kinds.QA"),
    ("[kinds.qa]", "[kinds.\"שלום\"]", "kinds."),
    ("[kinds.qa]", "[kinds]\nx = 1\n[kinds.qa]", "kinds.x"),
    ("browser = 1, api", "browsr = 1, api", "kinds.qa.needs.browsr"),
    ("browser = 1, api", "browser = 0, api", "kinds.qa.needs.browser"),
    ("os = \"linux\"", "\"o s\" = \"linux\"", "kinds.qa.selector.\"o s\""),
    ("os = \"linux\"", "os = \"\\u0000\"", "kinds.qa.selector.os"),
    ("os = \"linux\"", "os = 1", "kinds.qa.selector.os"),
    ("os = \"linux\"", "os = []", "kinds.qa.selector.os"),
    ("os = \"linux\"", "os = [\"a\", 1]", "kinds.qa.selector.os[1]"),
    ("os = \"linux\"", "os = [[\"a\"]]", "kinds.qa.selector.os[0]"),
    ("os = \"linux\"", "os = {}", "kinds.qa.selector.os"),
    ("os = \"linux\"", "os = { not = [] }", "kinds.qa.selector.os.not"),
    ("os = \"linux\"", "os = { not = true }", "kinds.qa.selector.os.not"),
    ("os = \"linux\"", "os = { not = \"\\u0000\" }", "kinds.qa.selector.os.not"),
    ("os = \"linux\"", "os = { nto = \"x\" }", "kinds.qa.selector.os.nto"),
    ("[{ zone = \"a\" }]", "{ zone = \"a\" }", "kinds.qa.prefer"),
    ("[{ zone = \"a\" }]", "[\"zone\"]", "kinds.qa.prefer[0]"),
    ("[{ zone = \"a\" }]", "[{}]", "kinds.qa.prefer[0]"),
    ("[{ zone = \"a\" }]", "[{ a = 1, b = 2 }]", "kinds.qa.prefer[0]"),
    ("[{ zone = \"a\" }]", "[{ zone = 1 }]", "kinds.qa.prefer[0].zone"),
    ("[{ zone = \"a\" }]", "[{ \"z z\" = true }]", "kinds.qa.prefer[0].\"z z\""),
    ("[{ zone = \"a\" }]", "[{}, {}, {}, {}, {}, {}, {}, {}, {}]", "kinds.qa.prefer"),
    ("node_backoff = true", "node_backoff = \"no\"", "kinds.qa.node_backoff"),
    ("lease = \"10m\"", "lease = \"9s\"", "kinds.qa.lease"),
    ("lease = \"10m\"", "lease = \"11years\"", "kinds.qa.lease"),
    ("lease = \"10m\"", "lease = 10", "kinds.qa.lease"),
    ("lease = \"10m\"", "leese = \"10m\"", "kinds.qa.leese"),
    ("max_failures = 3", "max_failures = 0", "kinds.qa.max_failures"),
    ("max_losses = 3", "max_losses = 1001", "kinds.qa.max_losses"),
    ("\"1s\", factor", "\"0s\", factor", "kinds.qa.retry.initial"),
    ("factor = 2", "factor = nan", "kinds.qa.retry.factor"),
    ("factor = 2", "factor = inf", "kinds.qa.retry.factor"),
    ("factor = 2", "factor = 0.5", "kinds.qa.retry.factor"),
    ("max = \"1m\"", "max = \"1ms\"", "kinds.qa.retry.max"),
    ("jitter = 0.2", "jitter = 1e308", "kinds.qa.retry.jitter"),
    ("jitter = 0.2", "surprise = 1", "kinds.qa.retry.surprise"),
    ("[64]", "[0]", "kinds.qa.permanent_exit_codes[0]"),
    ("[64]", "[75]", "kinds.qa.permanent_exit_codes[0]"),
    ("[64]", "64", "kinds.qa.permanent_exit_codes"),
    ("\"30m\"", "\"0s\"", "kinds.qa.hard_time_limit"),
    ("\"28m\"", "\"0s\"", "kinds.qa.soft_time_limit"),
    ("\"28m\"", "\"30m\"", "kinds.qa.soft_time_limit"),
    ("\"5m\"", "\"never\"", "kinds.qa.progress_timeout"),
    ("queue_cap = 20", "queue_cap = 0.5", "kinds.qa.queue_cap"),
    ("\"4h\"", "\"never\"", "kinds.qa.stale_after"),
    ("\"live\"", "\"Live\"", "kinds.qa.dedupe"),
    ("priority = 5", "priority = 101", "kinds.qa.priority"),
    ("priority = 5", "priority = 9223372036854775808", "kinds.qa.priority"),
    ("result_ttl = \"1d\"", "result_ttl = 1979-05-27", "kinds.qa.result_ttl"),
    ("retention = \"2d\"", "retention = \"2d 500ns\"", "kinds.qa.retention"),
    ("limit = 2", "limit = 0", "kinds.qa.concurrency.limit"),
    ("limit = 2", "limit = 1000001", "kinds.qa.concurrency.limit"),
    ("key = \"account\", ", "", "kinds.qa.concurrency.key"),
    ("\"account\"", "\"an account\"", "kinds.qa.concurrency.key"),
    ("fifo = true", "fifo = 1", "kinds.qa.fifo"),
    ("[tenants.site]", "[tenants.\"a b\"]", "tenants.\"a b\""),
    ("[tenants.site]", "[tenants]\nsite = 3\n[tenants.x]", "tenants.site"),
    ("weight = 3", "weight = 0", "tenants.site.weight"),
    ("weight = 3", "weight = 1001", "tenants.site.weight"),
    ("weight = 3", "weight = 1.5", "tenants.site.weight"),
    ("weight = 3", "wait = 3", "tenants.site.wait"),
];

/// Each mistake is told in its line, with its key and with nothing that steers a terminal.
fn told(good: &str, mistakes: &Mistakes, check: impl Fn(&str) -> Result<(), Vec<String>>) {
    check(good).expect("the good text");
    for (piece, other, key) in mistakes {
        let (before, _) = good.split_once(piece).unwrap_or_else(|| panic!("{piece} is in the good text"));
        let lines = before.matches('\n').count() + 1;
        let lines = lines..=lines + other.matches('\n').count();
        let found = check(&good.replacen(piece, other, 1)).expect_err(other);
        let named = found.iter().any(|problem| {
            lines.clone().any(|line| problem.contains(&format!(":{line}: ")) && problem.contains(key))
        });
        assert!(named, "{piece} → {other}, line {lines:?}, {key}: {found:#?}");
        assert!(!found.concat().contains(char::is_control), "{found:?}");
    }
}

#[test]
fn every_mistake_of_a_server_file_is_told_with_line_and_key() {
    told(SERVER, OF_SERVER, |text| {
        let problems =
            |error: tenure_server::config::Error| error.to_string().lines().map(str::to_owned).collect();
        Config::parse("server.toml", text).map(drop).map_err(problems)
    });
}

#[test]
fn every_mistake_of_a_fleet_file_is_told_with_line_and_key() {
    told(FLEET, OF_FLEET, |text| {
        let line = |problem: &tenure_server::config::Problem| {
            format!("fleet.toml:{}: {} {}", problem.line.unwrap_or_default(), problem.key, problem.text)
        };
        let checked = parse_fleet(text, &Retention::default());
        checked.map(drop).map_err(|problems| problems.iter().map(line).collect())
    });
}

/// Bytes that are no file of ours, and what else may stand at a path.
#[test]
fn whatever_a_server_file_is_it_ends_in_a_sentence_with_its_name() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("server.toml");
    let cases: [(&str, Vec<u8>); 9] = [
        ("no UTF-8", b"[server]\nlisten = \"\xff\xfe\"".to_vec()),
        ("UTF-16", "[server]".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("NUL", b"[server]\0".to_vec()),
        ("10 MB of one line", vec![b'x'; 10 << 20]),
        ("very deep", format!("a = {}", "[".repeat(100_000)).into_bytes()),
        ("a long key", format!("a{} = 1", ".a".repeat(100_000)).into_bytes()),
        ("a key twice", b"[server]\ndata = \"a\"\ndata = \"b\"".to_vec()),
        ("a table twice", b"[server]\n[server]".to_vec()),
        ("cut", b"[server]\nlisten = \"127".to_vec()),
    ];
    for (what, bytes) in cases {
        fs::write(&file, bytes).unwrap();
        let error = Config::load(&file).expect_err(what).to_string();
        let first = error.lines().next().unwrap_or_default();
        assert!(first.contains(&file.display().to_string()), "{what}: {error:.300}");
    }
    for path in [directory.path(), &directory.path().join("none"), Path::new("/dev/null/none")] {
        let error = Config::load(path).expect_err("no file").to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
    for text in [format!("\u{feff}{SERVER}"), SERVER.replace('\n', "\r\n"), format!("# 🜁 שלום\n{SERVER}")]
    {
        fs::write(&file, text).unwrap();
        Config::load(&file).expect("what editors of other systems leave behind is no mistake");
    }
}

#[test]
fn whatever_a_fleet_file_is_it_ends_in_problems() {
    let deep = format!("kinds = {}", "[".repeat(100_000));
    let long = format!("kinds{} = 1", ".a".repeat(100_000));
    let many: String = (0..10_001).map(|n| format!("[kinds.k{n}]\n")).collect();
    for text in ["\0", "[slots]\r", "[slots", "[[slots]]\na = 1", "a = 1\na = 2", &deep, &long, &many] {
        let problems = parse_fleet(text, &Retention::default()).expect_err("no fleet file");
        assert!(problems.iter().all(|problem| problem.line.is_some()), "{:.60}", text);
    }
    for text in
        ["", "\u{feff}", "# only a remark", "\r\n", &format!("\u{feff}{FLEET}"), &FLEET.replace('\n', "\r\n")]
    {
        parse_fleet(text, &Retention::default()).unwrap();
    }
}

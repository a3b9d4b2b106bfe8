//! Both files: what they mean, and that every mistake is told at once with line and key.

use expect_test::{Expect, expect};
use tenure_scheduler::{Concurrency, DedupePolicy, Fleet, KindName, Placement, RetryPolicy, Scope, SlotName};

use super::*;

fn fleet(text: &str) -> Result<Fleet, Vec<Problem>> {
    parse_fleet(text, &Retention::default())
}

fn fleet_problems(text: &str, want: Expect) {
    let problems = fleet(text).unwrap_err();
    want.assert_eq(&problems.iter().map(|problem| format!("{problem}\n")).collect::<String>());
}

fn server_problems(text: &str, want: Expect) {
    want.assert_eq(&Config::parse("server.toml", text).unwrap_err().to_string());
}

#[test]
fn a_fleet_file_becomes_slots_and_kinds() {
    let fleet = fleet(
        r#"
        [slots]
        anthropic = 6
        openai = { capacity = 4, rate = "50/min", burst = 10 }
        slow = { capacity = 1, rate = "2/d" }
        plain = { capacity = 3 }
        browser = "node"

        [kinds."site.qa"]
        needs = { browser = 1, anthropic = 2 }
        selector = { os = "linux", gpu = ["h100", "a100"], zone = { not = "attic" }, rack = { not = ["a", "b"] }, spot = false, ssd = true }
        lease = "10m"
        retry = { intervals = ["10s", "1m"] }
        permanent_exit_codes = [64, 3, 64]
        hard_time_limit = "30m"
        soft_time_limit = "28m"
        progress_timeout = "5m"
        queue_cap = 20
        max_running = 3
        budget = { tokens = "2M/day", pages = "90 / hour", cents = "1k/month", on_exhausted = "refuse" }
        concurrency = { key = "conversation", limit = 2 }
        fifo = true
        reserve_after = "45s"
        keep_on_wait = ["browser", "browser"]
        reacquire_timeout = "90s"
        stale_after = "4h"
        dedupe = "live"
        placement = "spread"
        priority = -7
        result_ttl = "1d"
        retention = "2d"

        prefer = [{ gpu = ["h100"] }, { zone = { not = "attic" } }]
        node_backoff = false

        [kinds.plain]

        [tenants.site]
        weight = 3
        [tenants.plain]
        "#,
    )
    .unwrap();
    assert_eq!(fleet.slots[&SlotName::new("anthropic")], Scope::Fleet { capacity: 6 });
    assert_eq!(fleet.slots[&SlotName::new("browser")], Scope::Node);
    assert_eq!(fleet.slots[&SlotName::new("plain")], Scope::Fleet { capacity: 3 });
    assert_eq!(fleet.slots[&SlotName::new("openai")], Scope::Fleet { capacity: 4 });
    let rates: Vec<String> = fleet.rates.iter().map(|(slot, rate)| format!("{slot} {rate}")).collect();
    assert_eq!(rates, ["openai 50/min burst 10", "slow 2/d burst 1"]);
    let qa = &fleet.kinds[&KindName::new("site.qa")];
    assert_eq!(qa.needs.to_string(), "anthropic:2,browser:1");
    assert_eq!(
        qa.selector.to_string(),
        "gpu in (a100, h100),os=linux,rack not in (a, b),!spot,ssd,zone!=attic"
    );
    let prefer: Vec<String> = qa.prefer.iter().map(ToString::to_string).collect();
    assert_eq!((prefer, qa.node_backoff), (vec!["gpu=h100".to_owned(), "zone!=attic".to_owned()], false));
    assert_eq!(qa.lease, Duration::from_secs(600));
    assert_eq!(qa.retry, RetryPolicy::Intervals(vec![Duration::from_secs(10), Duration::from_secs(60)]));
    assert_eq!(qa.permanent_exit_codes, [64, 3]);
    assert_eq!((qa.queue_cap, qa.dedupe, qa.priority), (Some(20), DedupePolicy::Live, -7));
    assert_eq!((qa.max_running, qa.placement), (Some(3), Placement::Spread));
    let by_key = Concurrency { key: "conversation".into(), limit: 2 };
    assert_eq!((&qa.concurrency, qa.fifo), (&Some(by_key), true));
    assert_eq!((qa.max_running, qa.reserve_after), (Some(3), Duration::from_secs(45)));
    assert_eq!(qa.keep_on_wait, [SlotName::new("browser")].into());
    assert_eq!(qa.reacquire_timeout, Duration::from_secs(90));
    assert_eq!(qa.retention, Duration::from_secs(2 * 86_400));
    let (soft, silence) = (Duration::from_secs(28 * 60), Duration::from_secs(300));
    assert_eq!((qa.soft_time_limit, qa.progress_timeout), (Some(soft), Some(silence)));
    assert_eq!(fleet.kinds[&KindName::new("plain")], tenure_scheduler::KindPolicy::default());
    let weights: Vec<_> = fleet.tenants.iter().map(|(name, policy)| (name.as_str(), policy.weight)).collect();
    assert_eq!(weights, [("plain", 1), ("site", 3)]);
}

#[test]
fn an_empty_fleet_file_is_an_empty_fleet() {
    assert_eq!(fleet("").unwrap(), Fleet::default());
}

#[test]
fn a_kind_without_retention_takes_the_servers() {
    let hour = Duration::from_secs(3600);
    let defaults = Retention { final_jobs: hour, results: 2 * hour };
    let fleet = parse_fleet("[kinds.a]\n[kinds.b]\nretention = \"3d\"\n", &defaults).unwrap();
    let [a, b] = ["a", "b"].map(|kind| &fleet.kinds[&KindName::new(kind)]);
    assert_eq!((a.retention, a.result_ttl), (hour, 2 * hour));
    assert_eq!((b.retention, b.result_ttl), (72 * hour, 2 * hour));
}

#[test]
fn growing_retries_take_fractions() {
    let text = r#"kinds.a.retry = { initial = "2s", factor = 1.5, max = "1m", jitter = 0.25 }"#;
    let want = RetryPolicy::Exponential {
        initial: Duration::from_secs(2),
        factor_permille: 1500,
        max: Duration::from_secs(60),
        jitter_permille: 250,
    };
    assert_eq!(fleet(text).unwrap().kinds[&KindName::new("a")].retry, want);
}

#[test]
fn a_long_first_wait_lifts_the_default_longest() {
    let parsed = fleet(r#"kinds.a.retry = { initial = "2h" }"#).unwrap();
    let RetryPolicy::Exponential { initial, max, .. } = parsed.kinds[&KindName::new("a")].retry else {
        panic!("growing waits were asked for");
    };
    assert_eq!((initial, max), (Duration::from_secs(7200), Duration::from_secs(7200)));
}

#[test]
fn every_mistake_of_a_fleet_file_is_told_with_line_and_key() {
    fleet_problems(
        r#"
[slots]
anthropic = -1
browser = "nodes"
Shell = 2
wide = 1.5

[kinds."site.qa"]
needs = { brwser = 1, anthropic = 0 }
lease = "9s"
max_failures = 0
hard_time_limit = "0s"
dedupe = "for ever"
priority = 101
queue_cap = "many"
retry = { intervals = [], initial = "1s" }
permanent_exit_codes = [0, 75, 256]
leese = "10s"
soft_time_limit = "1h"

[kinds.b]
retry = { initial = "2h", max = "1h", factor = 0.5, jitter = 2 }
selector = { "o s" = "linux", os = 5 }
stale_after = "soon"
reserve_after = "25h"
keep_on_wait = ["anthropic", "brwser", 5]
reacquire_timeout = "500ms"
retention = "4000d"
needs = { gpu = 1 }

[cron.c]
kind = "b"

[limits]

[tenants.Site]
weight = 0
[tenants.web]
weight = 1001
wieght = 2
[tenants]
x = 3
"#,
        expect![[r#"
            line 3: slots.anthropic: must be 0 to 1000000
            line 4: slots.browser: must be a whole number (units of the fleet), a table with its rate, or "node" (each node's own)
            line 5: slots.Shell: is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen
            line 6: slots.wide: must be a whole number, not a float
            line 9: kinds."site.qa".needs.anthropic: must be 1 to 1000000
            line 9: kinds."site.qa".needs.brwser: names a slot that is not declared; did you mean "browser"?
            line 10: kinds."site.qa".lease: must be at least 10s
            line 11: kinds."site.qa".max_failures: must be 1 to 1000
            line 12: kinds."site.qa".hard_time_limit: must be at least 1s
            line 13: kinds."site.qa".dedupe: must be "retained" or "live", not "for ever"
            line 14: kinds."site.qa".priority: must be -100 to 100
            line 15: kinds."site.qa".queue_cap: must be a whole number, not a string
            line 16: kinds."site.qa".retry.initial: cannot stand beside intervals
            line 16: kinds."site.qa".retry.intervals: must hold 1 to 100 waits
            line 17: kinds."site.qa".permanent_exit_codes[0]: must be 1 to 255
            line 17: kinds."site.qa".permanent_exit_codes[1]: 75 always means "try again"
            line 17: kinds."site.qa".permanent_exit_codes[2]: must be 1 to 255
            line 18: kinds."site.qa".leese: is unknown; did you mean "lease"?
            line 19: kinds."site.qa".soft_time_limit: must be below hard_time_limit, which is 3600 s
            line 22: kinds.b.retry.factor: must be 1 to 100
            line 22: kinds.b.retry.max: is shorter than the first wait, 2h
            line 22: kinds.b.retry.jitter: must be 0 to 1
            line 23: kinds.b.selector."o s": is no label: use 1 to 63 of letters, digits, dot, underscore, hyphen and slash
            line 23: kinds.b.selector.os: must be a text, a list of texts, true, false or { not = … }
            line 24: kinds.b.stale_after: is no duration such as "90s" or "1h 30m": expected number at 0
            line 25: kinds.b.reserve_after: must be at most 1day
            line 26: kinds.b.keep_on_wait[1]: names a slot that is not declared; did you mean "browser"?
            line 26: kinds.b.keep_on_wait[2]: must be a text, not an integer
            line 27: kinds.b.reacquire_timeout: must be at least 1s
            line 28: kinds.b.retention: must be at most 3660 days
            line 29: kinds.b.needs.gpu: names a slot that is not declared; declare it under [slots]
            line 31: cron.c.when: is required
            line 34: limits: is unknown; known here: slots, kinds, tenants, cron, webhooks
            line 36: tenants.Site: is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen
            line 37: tenants.Site.weight: must be 1 to 1000
            line 39: tenants.web.weight: must be 1 to 1000
            line 40: tenants.web.wieght: is unknown; did you mean "weight"?
            line 42: tenants.x: must be a table, not an integer
        "#]],
    );
}

#[test]
fn every_mistake_of_a_rate_is_told() {
    fleet_problems(
        r#"
[slots]
fast = { capacity = 1, rate = "50", burst = 0 }
faster = { capacity = 1, rate = "0/min" }
fastest = { rate = "5/week", brust = 1 }
none = { capacity = 1, burst = 2 }
"#,
        expect![[r#"
            line 3: slots.fast.rate: is no rate such as "50/min": 1 to 1000000 in each s, min, h or d
            line 3: slots.fast.burst: must be 1 to 1000000
            line 4: slots.faster.rate: is no rate such as "50/min": 1 to 1000000 in each s, min, h or d
            line 5: slots.fastest: must have a capacity
            line 5: slots.fastest.rate: is no rate such as "50/min": 1 to 1000000 in each s, min, h or d
            line 5: slots.fastest.brust: is unknown; did you mean "burst"?
            line 6: slots.none.burst: needs a rate beside it
        "#]],
    );
}

#[test]
fn every_mistake_of_a_budget_is_told() {
    fleet_problems(
        r#"
[kinds]
a.budget = { tokens = "2M", pages = "0/day", Cents = "1/day", bytes = "99999999G/week" }
b.budget = {}
c.budget = { tokens = "1/fortnight", on_exhausted = "panic" }
d.budget = "2M/day"
"#,
        expect![[r#"
            line 3: kinds.a.budget.Cents: is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen
            line 3: kinds.a.budget.bytes: is no allowance such as "2M/day": 1 to 2^53, with k, M or G, in each hour, day, week or month
            line 3: kinds.a.budget.pages: is no allowance such as "2M/day": 1 to 2^53, with k, M or G, in each hour, day, week or month
            line 3: kinds.a.budget.tokens: is no allowance such as "2M/day": 1 to 2^53, with k, M or G, in each hour, day, week or month
            line 4: kinds.b.budget: must name a counter, such as tokens = "2M/day"
            line 5: kinds.c.budget.on_exhausted: must be "defer" or "refuse", not "panic"
            line 5: kinds.c.budget.tokens: is no allowance such as "2M/day": 1 to 2^53, with k, M or G, in each hour, day, week or month
            line 6: kinds.d.budget: must be a table, not a string
        "#]],
    );
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    let problems = fleet("[slots]\na = \n[kinds\n").unwrap_err();
    assert!(problems.iter().any(|problem| problem.line == Some(2)), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.line == Some(3)), "{problems:?}");
    assert_eq!(fleet("a = 1\na = 2\n").unwrap_err().len(), 1);
}

#[test]
fn wrong_shapes_are_told() {
    fleet_problems(
        "slots = 5\n[kinds]\na = \"b\"\n[kinds.c]\nneeds = [1]\nretry = \"often\"\n",
        expect![[r#"
            line 1: slots: must be a table, not an integer
            line 3: kinds.a: must be a table, not a string
            line 5: kinds.c.needs: must be a table, not an array
            line 6: kinds.c.retry: must be a table, not a string
        "#]],
    );
}

#[test]
fn random_text_never_panics() {
    let seed = std::process::id();
    println!("seed {seed}");
    let words = [
        "[", "]", "slots", "kinds", ".", "a", "=", "\"", "{", "}", "1e99", "needs", "\n", "ä", "'", "-",
        "retry",
    ];
    let mut state = u64::from(seed) | 1;
    for _ in 0..3000 {
        let text: String = (0..12)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                words[usize::try_from(state % words.len() as u64).unwrap()]
            })
            .collect();
        drop(fleet(&text));
        drop(Config::parse("server.toml", &text));
    }
}

#[test]
fn a_server_file_says_how_webhooks_are_signed_and_where_they_may_go() {
    let text = r#"
        [webhooks]
        allow = ["10.0.0.0/8", "::1"]
        ca = "ca.pem"
        [webhooks.secrets.ci]
        file = "ci"
        previous_file = "/old"
        [webhooks.secrets.other]
        file = "other"
    "#;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server.toml");
    std::fs::write(&file, text).unwrap();
    let webhooks = Config::load(&file).unwrap().webhooks;
    assert_eq!(webhooks.allow.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.0/8", "::1/128"]);
    assert_eq!(webhooks.ca, Some(directory.path().join("ca.pem")));
    let secret = |name: &str, previous: Option<&str>| SecretFiles {
        file: directory.path().join(name),
        previous_file: previous.map(Into::into),
    };
    assert_eq!(webhooks.secrets["ci"], secret("ci", Some("/old")));
    assert_eq!(webhooks.secrets["other"], secret("other", None));
}

#[test]
fn mistakes_about_webhooks_are_told() {
    server_problems(
        "[webhooks]\nallow = [\"10.1.0.0/8\", \"all\", 5]\nproxy = \"x\"\n[webhooks.secrets.Ci]\nfile = \"a\"\n[webhooks.secrets.b]\nsecret = \"whsec_x\"\n",
        expect![[r#"
            server.toml:2: webhooks.allow[0]: has bits beyond its first 8: did you mean "10.0.0.0/8"?
            server.toml:2: webhooks.allow[1]: must be a network such as "10.0.0.0/8" or "fd00::/8", not "all"
            server.toml:2: webhooks.allow[2]: must be a text, not an integer
            server.toml:3: webhooks.proxy: is unknown; known here: allow, ca, secrets
            server.toml:4: webhooks.secrets.Ci: is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen
            server.toml:6: webhooks.secrets.b.file: is required
            server.toml:7: webhooks.secrets.b.secret: is unknown; known here: file, previous_file"#]],
    );
}

#[test]
fn a_server_file_names_addresses_limits_and_retention() {
    let text = r#"
        [server]
        listen = "127.0.0.1:0"
        http = "[::1]:9000"
        peer_listen = "127.0.0.1:7072"
        advertise = "control-1.example:7070"
        peer_advertise = "[fd00::1]:7072"
        data = "/var/lib/tenure"
        [limits]
        max_live_jobs = 20_000
        max_connections = 64
        tree_depth = 3
        tree_children = 2_000
        tree_descendants = 50_000
        [retention]
        final_jobs = "30d"
    "#;
    let config = Config::parse("server.toml", text).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:0");
    assert_eq!(config.http.to_string(), "[::1]:9000");
    assert_eq!(config.peer_listen, Some(SocketAddr::from(([127, 0, 0, 1], 7072))));
    assert_eq!(config.advertise.as_deref(), Some("control-1.example:7070"));
    assert_eq!(config.peer_advertise.as_deref(), Some("[fd00::1]:7072"));
    assert_eq!(config.data, Path::new("/var/lib/tenure"));
    let limits = Limits {
        max_live_jobs: 20_000,
        max_connections: 64,
        tree_depth: 3,
        tree_children: 2_000,
        tree_descendants: 50_000,
        ..Limits::default()
    };
    assert_eq!(config.limits, limits);
    assert_eq!(config.retention.final_jobs, Duration::from_secs(30 * 86_400));
    assert_eq!(config.retention.results, Retention::default().results);
    config.validate().unwrap();
    assert_eq!(Config::parse("server.toml", "").unwrap(), Config::default());
}

#[test]
fn every_mistake_of_a_server_file_is_told_with_file_line_and_key() {
    server_problems(
        r#"
[server]
listen = "0.0.0.0:7070"
http = "localhost"
data = ""
database_url_file = "/run/secrets/db"
lisen = 1
[limits]
max_live_jobs = 0
tree_depth = 65
tree_children = 0
tree_descendants = 100_001
per_producer = { requests = "5/s" }
[retention]
results = 7
[tls]
cert = "server.pem"
"#,
        expect![[r#"
            server.toml:4: server.http: must be an address with a port, such as "127.0.0.1:7070", not "localhost"
            server.toml:5: server.data: must name a directory
            server.toml:6: server.database_url_file: is one too many: data, database_url and database_url_file exclude each other
            server.toml:7: server.lisen: is unknown; did you mean "listen"?
            server.toml:9: limits.max_live_jobs: must be 1 to 20000000
            server.toml:10: limits.tree_depth: must be 1 to 64
            server.toml:11: limits.tree_children: must be 1 to 10000
            server.toml:12: limits.tree_descendants: must be 1 to 100000
            server.toml:13: limits.per_producer: is not supported by this version
            server.toml:15: retention.results: must be a duration in quotes, such as "90s", not an integer
            server.toml:16: tls.key: is required beside the other two of cert, key and client_ca
            server.toml:16: tls.client_ca: is required beside the other two of cert, key and client_ca"#]],
    );
}

#[test]
fn who_may_do_what_is_read_whole() {
    let config = Config::parse(
        "server.toml",
        r#"
[server]
listen = "0.0.0.0:7070"
[tls]
cert = "server.pem"
key = "server-key.pem"
client_ca = "ca.pem"
[deny]
names = ["node/mini-1"]
serials = ["0A:0b"]
[producers.web]
kinds = ["page"]
tenants = ["web"]
max_priority = 5
database_roles = ["web_app", "web.cron"]
"#,
    )
    .unwrap();
    let tls = config.tls.unwrap();
    assert_eq!((tls.client_ca, tls.trust_domain.as_str()), ("ca.pem".into(), TRUST_DOMAIN));
    assert!(config.deny.names.contains("node/mini-1") && config.deny.serials.contains("a0b"));
    let web = &config.producers["web"];
    assert_eq!(web.max_priority, Some(5));
    assert!(web.database_roles.iter().eq(["web.cron", "web_app"]), "{web:?}");
    assert!(web.kinds.as_ref().unwrap().contains(&tenure_scheduler::KindName::new("page")));
}

#[test]
fn mistakes_about_who_may_do_what_are_told() {
    let text = r#"
[server]
listen = "0.0.0.0:7070"
[deny]
names = ["root/x", "mini-1"]
serials = ["xyz"]
[producers.Web]
max_priority = 101
database_roles = ["Web App", "app"]
[producers.other]
database_roles = ["app"]
"#;
    let error = Config::parse("server.toml", text).unwrap_err().to_string();
    expect![[r#"
        server.toml:3: server.listen: 0.0.0.0:7070 is beyond loopback, and there is no [tls]: everybody who reaches the port could do everything. Add [tls] with certificates from `tenure certs`, use 127.0.0.1:7070, or start with --insecure
        server.toml:5: deny.names[0]: must be a role and a name, such as "node/mini-1", not "root/x"
        server.toml:5: deny.names[1]: must be a role and a name, such as "node/mini-1", not "mini-1"
        server.toml:6: deny.serials[0]: must be a serial number in hexadecimal digits, not "xyz"
        server.toml:7: producers.Web: is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen
        server.toml:8: producers.Web.max_priority: must be -100 to 100
        server.toml:9: producers.Web.database_roles[0]: must be 1 to 63 of a-z, 0-9, dot, underscore and hyphen, not "Web App"
        server.toml:11: producers.other.database_roles[0]: "app" is a role of two producers, or twice of one"#]]
    .assert_eq(&error);
}

#[test]
fn addresses_for_other_servers_are_checked() {
    server_problems(
        r#"
[server]
listen = "127.0.0.1:7070"
peer_listen = "127.0.0.1:7070"
advertise = "https://control-1.example:7070"
"#,
        expect![[r#"
            server.toml:4: server.peer_listen: is the same address as server.listen or server.http: 127.0.0.1:7070
            server.toml:5: server.advertise: must be HOST:PORT, such as "control-1.example:7070", not "https://control-1.example:7070""#]],
    );
    server_problems(
        r#"
[server]
peer_advertise = "control-1.example"
"#,
        expect![[r#"
            server.toml:3: server.peer_advertise: must be HOST:PORT, such as "control-1.example:7070", not "control-1.example"
            server.toml:3: server.peer_advertise: says where server.peer_listen is reached: give both"#]],
    );
    server_problems(
        "[server]\npeer_listen = \"10.0.0.5:7072\"\n",
        expect![[r#"
            server.toml:2: server.peer_listen: 10.0.0.5:7072 is beyond loopback, and there is no [tls]: everybody who reaches the port could do everything. Add [tls] with certificates from `tenure certs`, use 127.0.0.1:7072, or start with --insecure"#]],
    );
    for address in ["a:0", "a:65536", ":7070", "[::1]", "::1:7070", "a b:1", "user@a:1", "a/b:1", "[a]:1"] {
        assert!(!is_host_and_port(address), "{address}");
    }
    for address in ["a:1", "10.0.0.5:7070", "[::1]:7070", "control-1.example:65535"] {
        assert!(is_host_and_port(address), "{address}");
    }
}

#[test]
fn settings_from_flags_are_checked_alike() {
    let config = Config {
        listen: SocketAddr::from(([10, 0, 0, 5], 7070)),
        http: SocketAddr::from(([10, 0, 0, 5], 7070)),
        ..Config::default()
    };
    let error = config.validate().unwrap_err().to_string();
    assert_eq!(error.lines().count(), 3, "{error}");
    assert!(error.contains("settings: server.listen: 10.0.0.5:7070 is beyond loopback"), "{error}");
    assert!(error.contains("is the same address"), "{error}");
}

#[test]
fn a_relative_directory_is_meant_from_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.toml");
    std::fs::write(&path, "[server]\ndata = \"state\"\n").unwrap();
    assert_eq!(Config::load(&path).unwrap().data, directory.path().join("state"));
    let missing = Config::load(&directory.path().join("missing.toml")).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read "), "{missing}");
}

//! Rules as scripts: what is read, second by second, and the trace of what the rules then say.

mod random;

use expect_test::{Expect, expect};

use super::*;
use crate::pressure::settings::{HeadroomSettings, Settings, Users};
use crate::pressure::signals::Value;

/// The user of the agent and of every kind.
const UID: u32 = 1000;

/// Runs a script. Words before the first line that begins with `at` are the rules, as a node file has them; the
/// defaults are off. Then, each on a line, with times in seconds that only grow:
/// `at 5: mem.headroom=400MiB`: from then on that is read, once a second (`unknown`, `unsupported`, `pending`);
/// `at 7: start 1 crawl`, `at 9: end 1`: an attempt of a kind, by token;
/// `at 30:` lets time pass. The trace has a line for each second in which something other than a value changed.
fn check(rules: &str, kinds: &str, script: &str, trace: Expect) {
    let mut bench = Bench::new(rules, kinds);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (at, words) =
            line.strip_prefix("at ").and_then(|line| line.split_once(':')).expect("`at SECONDS: …`");
        bench.pass(at.trim().parse().unwrap());
        bench.order(words.trim());
    }
    trace.assert_eq(&bench.trace);
}

struct Bench {
    rules: Rules,
    second: u64,
    values: BTreeMap<Key, Value>,
    /// A signal that is no longer read keeps its last moment.
    frozen: BTreeMap<Key, Mono>,
    shown: String,
    trace: String,
}

impl Bench {
    fn new(rules: &str, kinds: &str) -> Self {
        let kinds: BTreeMap<String, HeadroomSettings> = toml::from_str(kinds).unwrap();
        let kinds: BTreeMap<String, KindFacts> = kinds
            .into_iter()
            .map(|(kind, headroom)| (kind, KindFacts { uid: None, headroom: Some(headroom.into()) }))
            .collect();
        let settings: Settings = toml::from_str(rules).unwrap();
        let own: BTreeSet<String> = settings.rule.iter().map(|rule| rule.id.clone()).collect();
        let users = Users { kinds: &kinds, own: UID, lookup: |_| None };
        let rules =
            settings.rules(&users).unwrap().into_iter().filter(|rule| own.contains(&rule.id)).collect();
        let rules = Rules::new(rules, kinds, UID, settings.stale_after, Mono::ZERO);
        Self {
            rules,
            second: 0,
            values: BTreeMap::new(),
            frozen: BTreeMap::new(),
            shown: String::new(),
            trace: String::new(),
        }
    }

    fn now(&self) -> Mono {
        Mono::from_micros(self.second * 1_000_000)
    }

    /// Samples and judges every second before `second`.
    fn pass(&mut self, second: u64) {
        while self.second < second {
            self.sample();
            self.second += 1;
        }
    }

    fn sample(&mut self) {
        let now = self.now();
        let at = |key: &Key| self.frozen.get(key).copied().unwrap_or(now);
        let samples = self.values.iter().map(|(key, value)| (key.clone(), (at(key), *value))).collect();
        self.rules.sampled(now, Samples(samples));
        self.show();
    }

    fn order(&mut self, words: &str) {
        for order in words.split(',').map(str::trim).filter(|order| !order.is_empty()) {
            let parts: Vec<&str> = order.split_whitespace().collect();
            match parts.as_slice() {
                ["start", token, kind] => {
                    self.rules.accepted(self.now(), token.parse().unwrap(), kind);
                    self.show();
                }
                ["end", token] => self.rules.ended(token.parse().unwrap()),
                ["freeze", signal] => drop(self.frozen.insert(key(signal), self.now())),
                [reading] => {
                    let (signal, value) = reading.split_once('=').expect("`SIGNAL=VALUE`");
                    self.values.insert(key(signal), value_of(value));
                }
                _ => panic!("{order}"),
            }
        }
    }

    fn show(&mut self) {
        let reading = self.rules.reading();
        let closed: Vec<String> = reading.closed.iter().map(shown).collect();
        let caps: Vec<String> = reading.caps.iter().map(|(slot, cap)| format!(" cap:{slot}={cap}")).collect();
        let unknown: Vec<String> =
            reading.unknown_signals.iter().map(|name| format!(" unknown:{name}")).collect();
        let weight = if reading.weight > 1 { format!(" weight:{}", reading.weight) } else { String::new() };
        let groups: Vec<&str> = closed.iter().map(String::as_str).collect();
        let state = format!(
            "g{} [{}]{}{weight}{}",
            reading.generation,
            groups.join(" "),
            caps.concat(),
            unknown.concat()
        );
        if state != self.shown {
            self.trace.push_str(&format!("{} {state}\n", self.second));
            self.shown = state;
        }
    }
}

/// Without the observed value, which changes all the time.
fn shown(closed: &ClosedGroup) -> String {
    format!("{} by {}({})", closed.group, closed.rule, closed.signal)
}

fn key(signal: &str) -> Key {
    let signal: Signal = signal.parse().unwrap();
    Key { signal, uids: if signal.counts_a_user() { vec![UID] } else { Vec::new() } }
}

/// `400MiB`, or `50/8GiB`: 50 % of 8 GiB.
fn value_of(text: &str) -> Value {
    match text {
        "unknown" => Value::Unknown,
        "unsupported" => Value::Unsupported,
        "pending" => Value::Pending,
        number => {
            let (value, scale) = number.split_once('/').unwrap_or((number, "0"));
            let number = |text: &str| text.parse().unwrap_or_else(|_| f64_of(text));
            Value::Known { value: number(value), scale: number(scale) }
        }
    }
}

fn f64_of(text: &str) -> f64 {
    crate::pressure::settings::approximate(crate::pressure::settings::parse_bytes(text).unwrap())
}

const UID_PROCS: &str = r#"
    [[rule]]
    id = "uid_procs"
    close = { any = [{ signal = "procs.used", above = 550 }] }
    open = { all = [{ signal = "procs.used", below = 500 }], for = "10s" }
    effect = { refuse = "*" }
"#;

#[test]
fn everything_is_closed_until_there_is_a_sample() {
    let bench = Bench::new(UID_PROCS, "");
    assert_eq!(bench.rules.reading().closed[0].group, Group::All);
    assert_eq!(bench.rules.reading().generation, 1);
}

#[test]
fn a_rule_opens_at_another_value_and_only_after_its_time() {
    check(
        UID_PROCS,
        "",
        "at 0: procs.used=100
         at 5: procs.used=551
         at 20: procs.used=520
         at 40: procs.used=499
         at 45: procs.used=500
         at 46: procs.used=499
         at 70:",
        expect![[r#"
            0 g2 []
            5 g3 [* by uid_procs(procs.used)]
            56 g4 []
        "#]],
    );
}

#[test]
fn a_short_peak_closes_nothing_if_the_rule_waits() {
    check(
        r#"
        [[rule]]
        id = "mem_stall"
        close = { all = [{ signal = "psi.memory.full.avg10", above = 10 }], for = "5s" }
        open = { all = [{ signal = "psi.memory.full.avg10", below = 2 }], for = "30s" }
        effect = { refuse = "*" }
        "#,
        "",
        "at 0: psi.memory.full.avg10=0
         at 5: psi.memory.full.avg10=20
         at 9: psi.memory.full.avg10=9
         at 10: psi.memory.full.avg10=20
         at 20:",
        expect![[r#"
            0 g2 []
            15 g3 [* by mem_stall(psi.memory.full.avg10)]
        "#]],
    );
}

#[test]
fn a_rule_stays_closed_for_a_hold_that_doubles() {
    check(
        r#"
        [[rule]]
        id = "fds"
        close = { all = [{ signal = "fds.used_pct", above = 80 }] }
        open = { all = [{ signal = "fds.used_pct", below = 70 }] }
        effect = { refuse = "slot:browser" }
        "#,
        "",
        "at 0: fds.used_pct=90
         at 1: fds.used_pct=10
         at 11: fds.used_pct=90
         at 12: fds.used_pct=10
         at 40: fds.used_pct=90
         at 41: fds.used_pct=10
         at 400: fds.used_pct=90
         at 401: fds.used_pct=10
         at 420:",
        expect![[r#"
            0 g2 [slot:browser by fds(fds.used_pct)]
            10 g3 []
            11 g4 [slot:browser by fds(fds.used_pct)]
            31 g5 []
            40 g6 [slot:browser by fds(fds.used_pct)]
            80 g7 []
            400 g8 [slot:browser by fds(fds.used_pct)]
            410 g9 []
        "#]],
    );
}

#[test]
fn an_unknown_signal_closes_unless_the_rule_says_otherwise() {
    let rule = |on_unknown: &str| UID_PROCS.to_owned() + "\n    on_unknown = \"" + on_unknown + "\"\n";
    let script = "at 0: procs.used=1
         at 5: procs.used=-1900000000
         at 6: procs.used=NaN
         at 7: procs.used=1
         at 10: procs.used=unknown
         at 11: procs.used=1
         at 50:";
    check(
        &rule("closed"),
        "",
        script,
        expect![[r#"
            0 g2 []
            5 g3 [* by uid_procs(procs.used)] unknown:procs.used
            7 g3 [* by uid_procs(procs.used)]
            10 g3 [* by uid_procs(procs.used)] unknown:procs.used
            11 g3 [* by uid_procs(procs.used)]
            21 g4 []
        "#]],
    );
    check(
        &rule("open"),
        "",
        script,
        expect![[r#"
            0 g2 []
            5 g2 [] unknown:procs.used
            7 g2 []
            10 g2 [] unknown:procs.used
            11 g2 []
        "#]],
    );
}

#[test]
fn a_stale_reading_is_unknown() {
    check(
        UID_PROCS,
        "",
        "at 0: procs.used=1
         at 5: freeze procs.used
         at 30:",
        expect![[r#"
            0 g2 []
            16 g3 [* by uid_procs(procs.used)] unknown:procs.used
        "#]],
    );
}

#[test]
fn a_share_above_the_whole_is_unknown() {
    check(
        r#"
        [[rule]]
        id = "disk_low"
        close = { any = [{ signal = "disk.free_pct", below = 10 }] }
        open = { all = [{ signal = "disk.free_pct", above = 15 }] }
        effect = { refuse = "*" }
        "#,
        "",
        "at 0: disk.free_pct=101
         at 1:",
        expect![[r#"
            0 g1 [* by disk_low(disk.free_pct)] unknown:disk.free_pct
        "#]],
    );
}

#[test]
fn an_unsupported_signal_is_left_out() {
    let rule = r#"
        [[rule]]
        id = "both"
        close = { all = [{ signal = "swap.used_pct", above = 90 }, { signal = "mem.headroom_pct", below = 10 }] }
        open = { all = [{ signal = "swap.used_pct", below = 80 }] }
        effect = { refuse = "*" }
    "#;
    check(
        rule,
        "",
        "at 0: swap.used_pct=unsupported, mem.headroom_pct=50
         at 5: mem.headroom_pct=5
         at 6: mem.headroom_pct=50
         at 30: mem.headroom_pct=unsupported
         at 40:",
        expect![[r#"
            0 g2 []
            5 g3 [* by both(mem.headroom_pct)]
            15 g4 []
        "#]],
    );
}

#[test]
fn a_pending_rate_closes_nothing() {
    check(
        r#"
        [[rule]]
        id = "swapping"
        close = { all = [{ signal = "swap.rate", above = 100 }] }
        open = { all = [{ signal = "swap.rate", below = 10 }] }
        effect = { refuse = "*" }
        "#,
        "",
        "at 0: swap.rate=pending
         at 1: swap.rate=0
         at 2:",
        expect![[r#"
            0 g2 []
        "#]],
    );
}

#[test]
fn the_group_of_several_rules_opens_with_the_last() {
    check(
        r#"
        [[rule]]
        id = "one"
        close = { all = [{ signal = "load.per_cpu", above = 4 }] }
        open = { all = [{ signal = "load.per_cpu", below = 2 }] }
        effect = { refuse = ["slot:shell", "kind:crawl"], cap = { browser = 2 }, weight = 2 }
        [[rule]]
        id = "two"
        close = { all = [{ signal = "oom.kills", above = 0 }] }
        open = { all = [{ signal = "oom.kills", below = 1 }] }
        effect = { refuse = "slot:shell", cap = { browser = 1 }, weight = 3 }
        "#,
        "",
        "at 0: load.per_cpu=0, oom.kills=0
         at 1: oom.kills=1
         at 5: load.per_cpu=9
         at 20: oom.kills=0
         at 30: load.per_cpu=0
         at 50:",
        expect![[r#"
            0 g2 []
            1 g3 [slot:shell by two(oom.kills)] cap:browser=1 weight:3
            5 g4 [slot:shell by two(oom.kills) kind:crawl by one(load.per_cpu)] cap:browser=1 weight:3
            20 g5 [slot:shell by one(load.per_cpu) kind:crawl by one(load.per_cpu)] cap:browser=2 weight:2
            30 g6 []
        "#]],
    );
}

#[test]
fn starting_attempts_are_counted_before_they_show() {
    // Ten browsers of 1 GiB pass the same sample of 8 GiB otherwise; the rule closes below 2 GiB.
    check(
        r#"
        [[rule]]
        id = "mem_low"
        close = { any = [{ signal = "mem.headroom", below = "2GiB" }] }
        open = { all = [{ signal = "mem.headroom", above = "3GiB" }] }
        effect = { refuse = "slot:browser" }
        "#,
        "crawl = { mem = \"1GiB\", ramp = \"20s\" }",
        "at 0: mem.headroom=8GiB
         at 1: start 1 crawl, start 2 crawl, start 3 crawl, start 4 crawl, start 5 crawl, start 6 crawl
         at 1: start 7 crawl
         at 2: end 7
         at 40:",
        expect![[r#"
            0 g2 []
            1 g3 [slot:browser by mem_low(mem.headroom)]
            11 g4 []
        "#]],
    );
}

#[test]
fn a_kind_whose_headroom_does_not_fit_is_closed() {
    check(
        "",
        "crawl = { mem = \"1200MiB\", procs = 60, fds = 600, ramp = \"20s\" }\nsmall = { mem = \"100MiB\" }",
        "at 0: mem.headroom=2000MiB, tasks.headroom=1000, fds.used_pct=50/10000
         at 1: start 1 crawl
         at 2: end 1
         at 5: mem.headroom=1000MiB
         at 6: mem.headroom=4GiB, tasks.headroom=59
         at 7: tasks.headroom=60, fds.used_pct=95/10000
         at 8: fds.used_pct=unknown
         at 9: fds.used_pct=10/10000
         at 10:",
        expect![[r#"
            0 g2 []
            1 g3 [kind:crawl by headroom(mem.headroom)]
            2 g4 []
            5 g5 [kind:crawl by headroom(mem.headroom)]
            6 g5 [kind:crawl by headroom(tasks.headroom)]
            7 g5 [kind:crawl by headroom(fds.used_pct)]
            8 g5 [kind:crawl by headroom(fds.used_pct)] unknown:fds.used_pct
            9 g6 []
        "#]],
    );
}

#[test]
fn a_debt_decays_over_its_ramp() {
    let mut bench = Bench::new("", "crawl = { mem = \"1000MiB\", ramp = \"10s\" }");
    bench.order("mem.headroom=1500MiB");
    bench.pass(1);
    bench.order("start 1 crawl");
    let observed =
        |bench: &Bench| bench.rules.reading().closed.first().map(|closed| closed.observed / 1024.0 / 1024.0);
    assert_eq!(observed(&bench), Some(500.0));
    bench.pass(3);
    assert_eq!(observed(&bench), Some(600.0));
    bench.pass(7);
    assert_eq!(observed(&bench), None, "half of it is paid off");
    let shortage = bench.rules.reading();
    assert!(shortage.closed.is_empty());
}

#[test]
fn a_refusal_names_the_first_group_that_applies() {
    let mut bench = Bench::new(
        r#"
        [[rule]]
        id = "a"
        close = { all = [{ signal = "load.per_cpu", above = 4 }] }
        open = { all = [{ signal = "load.per_cpu", below = 2 }], for = "30s" }
        effect = { refuse = ["slot:browser", "kind:crawl"] }
        "#,
        "",
    );
    bench.order("load.per_cpu=9");
    bench.pass(1);
    let reading = bench.rules.reading();
    let refusal = reading.refusal("crawl", ["shell", "browser"]).unwrap();
    assert_eq!((&refusal.group, refusal.rule.as_str()), (&Group::Slot("browser".to_owned()), "a"));
    assert_eq!((refusal.observed, refusal.threshold), (9.0, 4.0));
    assert_eq!(refusal.retry_after, Duration::from_secs(30));
    assert_eq!(reading.refusal("crawl", []).unwrap().group, Group::Kind("crawl".to_owned()));
    assert_eq!(reading.refusal("other", ["shell"]), None);
}

#[test]
fn only_signals_of_rules_and_headrooms_are_asked_for() {
    let bench = Bench::new(UID_PROCS, "crawl = { disk = \"1GiB\" }");
    let names: Vec<String> = bench.rules.keys().iter().map(|key| key.signal.to_string()).collect();
    assert_eq!(names, ["procs.used", "disk.free"]);
}

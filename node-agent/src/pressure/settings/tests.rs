//! What a node file may say on pressure, and what it is told when it may not.

use std::time::Duration;

use super::*;

fn facts(uid: Option<u32>) -> KindFacts {
    KindFacts { uid, headroom: None }
}

fn lookup(name: &str) -> Option<u32> {
    if name == "jobs" { Some(1000) } else { name.parse().ok() }
}

fn rules(text: &str) -> Result<Vec<Rule>, Vec<String>> {
    let kinds = BTreeMap::from([
        ("a".to_owned(), facts(Some(7))),
        ("b".to_owned(), facts(Some(5))),
        ("c".to_owned(), facts(None)),
    ]);
    let settings: Settings = toml::from_str(text).map_err(|error| vec![error.to_string()])?;
    settings.rules(&Users { kinds: &kinds, own: 1, lookup })
}

fn rule(text: &str, id: &str) -> Rule {
    rules(text).unwrap().into_iter().find(|rule| rule.id == id).unwrap()
}

fn uids(rule: &Rule) -> Vec<u32> {
    rule.close.conditions[0].key.uids.clone()
}

#[test]
fn the_defaults_parse_and_are_all_there() {
    assert_eq!(defaults().len(), DEFAULTS.matches("[[rule]]").count());
    let ids: Vec<String> = rules("").unwrap().into_iter().map(|rule| rule.id).collect();
    assert_eq!(
        ids.join(" "),
        "mem_low mem_stall uid_tasks io_stall cpu_stall fds disk_low inodes_low swap_full load_busy load_high"
    );
}

#[test]
fn units_are_understood() {
    let rule = rule("", "mem_low");
    assert_eq!(rule.close.conditions[0].threshold, 536_870_912.0);
    assert_eq!(rule.close.hold, Duration::from_secs(2));
    assert_eq!(rule.open.hold, Duration::from_secs(30));
}

#[test]
fn a_file_changes_a_default_field_by_field() {
    let text = r#"
        [[rule]]
        id = "uid_tasks"
        effect = { refuse = ["slot:browser", "slot:shell"], cap = { browser = 1 } }
    "#;
    let changed = rule(text, "uid_tasks");
    assert_eq!(changed.refuse, [Group::Slot("browser".to_owned()), Group::Slot("shell".to_owned())]);
    assert_eq!(changed.caps, BTreeMap::from([("browser".to_owned(), 1)]));
    assert_eq!(changed.close, rule("", "uid_tasks").close);
}

#[test]
fn a_default_can_be_dropped() {
    let left = rules("rule = [{ id = \"disk_low\", enabled = false }]").unwrap();
    assert!(!left.iter().any(|rule| rule.id == "disk_low"));
}

#[test]
fn a_rule_of_ones_own_counts_the_users_of_the_kinds_it_refuses() {
    let of = |refuse: &str| {
        let text = format!(
            "rule = [{{ id = \"uid_procs\", close = {{ any = [{{ signal = \"procs.used\", above = 550 }}] }}, \
             open = {{ all = [{{ signal = \"procs.used\", below = 500 }}], for = \"10s\" }}, effect = {{ refuse = {refuse} }} }}]"
        );
        uids(&rule(&text, "uid_procs"))
    };
    assert_eq!(of("\"*\""), [1, 5, 7]);
    assert_eq!(of("\"slot:browser\""), [1, 5, 7]);
    assert_eq!(of("[\"kind:a\", \"kind:c\"]"), [1, 7]);
    assert_eq!(of("\"kind:unknown\""), [1]);
}

#[test]
fn a_user_is_found_by_name_and_number() {
    let of = |uid: &str| {
        let condition = format!("{{ signal = \"tasks.used\", above = 1, uid = \"{uid}\" }}");
        rules(&format!(
            "rule = [{{ id = \"x\", close = {{ any = [{condition}] }}, open = {{ any = [{condition}] }}, effect = {{ weight = 3 }} }}]"
        ))
    };
    assert_eq!(uids(of("jobs").unwrap().last().unwrap()), [1000]);
    assert_eq!(uids(of("42").unwrap().last().unwrap()), [42]);
    assert!(of("nobody-here").unwrap_err()[0].contains("nobody-here"));
}

#[test]
fn every_violation_is_named_at_once() {
    let text = r#"
        sample = "1ms"
        stale_after = "1ms"
        [[rule]]
        id = "Bad Id"
        close = { any = [{ signal = "mem.headrom", below = 1 }, { signal = "disk.free" }, { signal = "disk.free", above = 1, uid = "5" }] }
        effect = { refuse = ["slot", "everything", "kind:"], weight = 4 }
        [[rule]]
        id = "twice"
        close = { any = [], all = [] }
        open = { any = [] }
        [[rule]]
        id = "twice"
        [[rule]]
        id = "draining"
    "#;
    let violations = rules(text).unwrap_err().join("\n");
    for part in [
        "pressure.sample",
        "pressure.stale_after",
        "\"Bad Id\": its id",
        "mem.headrom",
        "disk.free needs exactly one of above and below",
        "disk.free counts no user",
        "\"Bad Id\": open is missing",
        "\"slot\"",
        "\"everything\"",
        "\"kind:\"",
        "weight must be",
        "\"twice\" is there twice",
        "exactly one of any and all",
        "at least one condition",
        "\"twice\": its effect",
        "\"draining\": its id is a word that the agent itself gives",
    ] {
        assert!(violations.contains(part), "{part} is missing in:\n{violations}");
    }
}

#[test]
fn unknown_fields_and_amounts_are_refused() {
    for text in [
        "sampel = \"1s\"",
        "sample = \"soon\"",
        "rule = [{ id = \"x\", close = { any = [{ signal = \"disk.free\", below = \"5 apples\" }] } }]",
        "rule = [{ id = \"x\", close = { any = [{ signal = \"disk.free\", below = -5 }] } }]",
        "rule = [{ id = \"x\", on_unknown = \"maybe\" }]",
    ] {
        assert!(toml::from_str::<Settings>(text).is_err(), "{text}");
    }
}

#[test]
fn headroom_has_units_and_a_ramp() {
    let settings: HeadroomSettings = toml::from_str("mem = \"1200MiB\"\nprocs = 60\nfds = 600").unwrap();
    let headroom = Headroom::from(settings);
    assert_eq!((headroom.mem, headroom.procs, headroom.fds), (1200 << 20, 60, 600));
    assert_eq!(headroom.ramp, Duration::from_secs(20));
}

//! Random histories against what hysteresis promises, judged from outside: by readings alone.

use super::*;

/// A small generator, so that a seed is all that a failure needs.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// What was seen of one group.
#[derive(Default)]
struct Seen {
    closed_at: Option<u64>,
    opened_at: Option<u64>,
    hold: u64,
}

const RULES: &str = r#"
    [[rule]]
    id = "a"
    close = { any = [{ signal = "load.per_cpu", above = 50 }, { signal = "swap.rate", above = 90 }], for = "2s" }
    open = { all = [{ signal = "load.per_cpu", below = 40 }, { signal = "swap.rate", below = 80 }], for = "4s" }
    effect = { refuse = "slot:a", cap = { a = 1 } }
    [[rule]]
    id = "b"
    close = { all = [{ signal = "load.per_cpu", above = 60 }] }
    open = { any = [{ signal = "load.per_cpu", below = 30 }] }
    effect = { refuse = "slot:b", weight = 2 }
    on_unknown = "open"
"#;

#[test]
fn hysteresis_holds_whatever_is_read() {
    let fixed = std::env::var("TENURE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds: Vec<u64> = fixed.map_or_else(|| (1..=20).collect(), |seed| vec![seed]);
    for seed in seeds {
        let run = std::panic::catch_unwind(|| history(seed));
        assert!(run.is_ok(), "failed with TENURE_TEST_SEED={seed}");
    }
}

fn history(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bench = Bench::new(RULES, "");
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::from([("a", Seen::default()), ("b", Seen::default())]);
    let mut before = bench.rules.reading().clone();
    // How long the tests have held without a break, by our own count, up to this second and not beyond.
    let mut met = BTreeMap::from([("close a", 0u64), ("open a", 0), ("close b", 0), ("open b", 0)]);
    let (mut load, mut rate) = (10.0, 10.0);
    for second in 0..3_000 {
        if random.next(4) == 0 {
            load = f64::from(u32::try_from(random.next(100)).unwrap());
            rate = f64::from(u32::try_from(random.next(100)).unwrap());
        }
        let unknown = random.next(40) == 0;
        let words = if unknown { "unknown".to_owned() } else { load.to_string() };
        bench.order(&format!("load.per_cpu={words}, swap.rate={rate}"));
        bench.pass(second + 1);

        let held = [
            ("close a", unknown || load > 50.0 || rate > 90.0),
            ("open a", !unknown && load < 40.0 && rate < 80.0),
            ("close b", !unknown && load > 60.0),
            ("open b", unknown || load < 30.0),
        ];
        for (test, holds) in held {
            let count = met.get_mut(test).unwrap();
            *count = if holds { *count + 1 } else { 0 };
        }
        let reading = bench.rules.reading().clone();
        let changed = groups(&reading) != groups(&before) || reading.caps != before.caps;
        assert_eq!(reading.generation - before.generation, u64::from(changed), "second {second}");
        for (name, seen) in &mut seen {
            let closed = reading.closed.iter().any(|it| it.group == Group::Slot((*name).to_owned()));
            let (close_for, open_for) = if *name == "a" { (2, 4) } else { (0, 0) };
            let (close_met, open_met) =
                (met[format!("close {name}").as_str()], met[format!("open {name}").as_str()]);
            match (closed, seen.closed_at) {
                (true, None) => {
                    assert!(close_met > close_for, "second {second}: {name} closed early");
                    seen.hold = match seen.opened_at {
                        Some(at) if second - at <= 300 => (seen.hold * 2).min(300),
                        _ => 10,
                    };
                    seen.closed_at = Some(second);
                }
                (false, Some(at)) => {
                    assert!(
                        second - at >= seen.hold,
                        "second {second}: {name} was closed for {} s",
                        second - at
                    );
                    assert!(open_met > open_for, "second {second}: {name} opened early");
                    (seen.closed_at, seen.opened_at) = (None, Some(second));
                }
                (true, Some(at)) => {
                    let due = second - at >= seen.hold && open_met > open_for;
                    assert!(!due, "second {second}: {name} should have opened");
                }
                (false, None) => {
                    assert!(close_met <= close_for, "second {second}: {name} should have closed")
                }
            }
        }
        assert_eq!(reading.caps.contains_key("a"), seen["a"].closed_at.is_some());
        assert_eq!(reading.weight, if seen["b"].closed_at.is_some() { 2 } else { 1 });
        before = reading;
    }
}

fn groups(reading: &Reading) -> Vec<Group> {
    reading.closed.iter().map(|closed| closed.group.clone()).collect()
}

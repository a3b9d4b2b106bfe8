//! How long a large job can be passed by: S5. The first job of all that is queued and could run starts within its
//! `reserve_after`, the longest remaining hard limit on its earmark and the kill grace.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    random::{OnPanic, variable},
    support::{Rng, Script},
};

/// Histories of a usual run.
const SEEDS: u64 = 8;

/// A fleet whose jobs run for as long as this test says, in steps of a second.
struct Stream {
    run: Script,
    now: u64,
    /// By job: when it ends.
    running: BTreeMap<String, u64>,
    /// By enqueue: name, hard limit.
    queued: BTreeMap<u64, (String, u64)>,
    enqueued: u64,
    earmarks: usize,
}

impl Stream {
    fn new(fleet: &str) -> Self {
        let mut run = Script::new();
        run.world.paranoid = false;
        run.lines(fleet);
        Self {
            run,
            now: 0,
            running: BTreeMap::new(),
            queued: BTreeMap::new(),
            enqueued: 0,
            earmarks: 0,
        }
    }

    fn enqueue(&mut self, kind: &str, hard: u64) -> String {
        self.enqueued += 1;
        let name = format!("{kind}-{}", self.enqueued);
        self.run.lines(&format!("enqueue {name} kind={kind} hard={hard}s"));
        self.queued.insert(self.enqueued, (name.clone(), hard));
        name
    }

    /// A second passes: what is to end ends, and what is granted starts at once, for as long as `lasts` says of its limit.
    fn second(&mut self, mut lasts: impl FnMut(u64) -> u64) {
        self.now += 1;
        let over = self.running.extract_if(.., |_, ends| *ends <= self.now);
        let mut lines = String::from("advance 1s\n");
        over.for_each(|(name, _)| writeln!(lines, "done {name}").unwrap());
        lines += "tick";
        self.run.lines(&lines);
        let trace = std::mem::take(&mut self.run.trace);
        self.earmarks += trace.matches(": earmarked ").count();
        for line in trace.lines() {
            let Some((_, granted)) = line.split_once("granted ") else { continue };
            let name = granted.split(' ').next().unwrap();
            let place = self.queued.iter().find(|(_, (queued, _))| queued == name).map(|(place, _)| *place);
            let (_, hard) = self.queued.remove(&place.expect("it was queued")).unwrap();
            self.run.lines(&format!("run {name}"));
            self.running.insert(name.to_owned(), self.now + lasts(hard));
        }
        self.run.trace.clear();
    }

    /// The job that was enqueued before all others that wait.
    fn first(&self) -> Option<&str> {
        self.queued.values().next().map(|(name, _)| name.as_str())
    }
}

#[test]
fn a_thousand_small_jobs_in_a_stream_do_not_starve_a_large_one() {
    let started_after = |reserve_after: &str| {
        let mut stream = Stream::new(&format!(
            "
            slot gpu node
            kind small needs=gpu:1 hard=20s
            kind large needs=gpu:4 hard=20s reserve_after={reserve_after}
            node n1 slots=gpu:4
            "
        ));
        (0..4).for_each(|_| {
            stream.enqueue("small", 20);
            stream.second(|_| 4);
        });
        let large = stream.enqueue("large", 20);
        for waited in 0..1000 {
            if stream.running.contains_key(&large) {
                return Some(waited);
            }
            stream.enqueue("small", 20);
            stream.second(|_| 4);
        }
        None
    };
    assert_eq!(started_after("24h"), None, "each unit that comes free is taken by the next small one");
    let waited = started_after("30s").expect("it starts");
    assert!((30..=30 + 20 + 10).contains(&waited), "{waited} s");
}

/// A history by its seed. Gives how many earmarks there were.
fn history(seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let hard = |rng: &mut Rng| 5 + rng.below(36);
    let reserve_after = 1 + rng.below(20);
    let mut fleet = format!("slot gpu node\nslot cpu node\nslot f {}\n", 3 + rng.below(3));
    let kinds = [
        ("small", "gpu:1"),
        ("other", "cpu:1"),
        ("call", "f:1"),
        ("both", "gpu:1,f:1"),
        ("wide", "gpu:3"),
        ("deep", "gpu:2,f:2"),
        ("whole", "cpu:2,gpu:2,f:3"),
    ];
    for (kind, needs) in kinds {
        writeln!(fleet, "kind {kind} needs={needs} hard=40s reserve_after={reserve_after}s").unwrap();
    }
    for n in 0..2 + rng.below(3) {
        writeln!(fleet, "node n{n} slots=gpu:{},cpu:{}", 3 + rng.below(2), 2 + rng.below(2)).unwrap();
    }
    let mut stream = Stream::new(&fleet);
    let bound = reserve_after + 40 + 10 + 2; // Two seconds for the steps of this test.
    let mut first: (String, u64) = (String::new(), 0);
    for _ in 0..400 {
        for _ in 0..1 + rng.below(3) {
            let kind = if rng.percent(85) { rng.below(4) } else { 4 + rng.below(3) };
            let limit = hard(&mut rng);
            if stream.queued.len() < 40 {
                stream.enqueue(kinds[usize::try_from(kind).unwrap()].0, limit);
            }
        }
        // Some run to their limit, and some until they are killed.
        stream.second(|hard| match rng.below(10) {
            0 => hard + rng.below(10),
            1..4 => hard,
            _ => 1 + rng.below(hard),
        });
        let now = stream.now;
        match stream.first() {
            Some(name) if name == first.0 => {
                let waited = now - first.1;
                assert!(waited <= bound, "{name} is first since {waited} s, more than {bound} s");
            }
            Some(name) => first = (name.to_owned(), now),
            None => first = (String::new(), now),
        }
    }
    stream.earmarks
}

#[test]
fn the_first_job_of_all_is_passed_by_for_no_longer_than_its_bound() {
    let replay = variable("TENURE_SCHEDULER_SEED");
    let seeds = replay.map_or(1..=SEEDS, |seed| seed..=seed);
    let earmarks: usize = seeds
        .map(|seed| {
            let _replay = OnPanic(seed);
            history(seed)
        })
        .sum();
    assert!(replay.is_some() || earmarks > 40, "only {earmarks} earmarks: these histories show nothing");
}

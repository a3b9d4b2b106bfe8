//! When a job may start: what is said of it, and that it is never later.

use std::{collections::BTreeMap, time::Duration};

use expect_test::expect;
use tenure_scheduler::{JobId, JobState, Wall};

use crate::support::{Rng, Script, check};

#[test]
fn the_latest_start_counts_holders_and_those_ahead_by_their_hard_limits() {
    check(
        "
        slot f 2
        slot n node
        kind short needs=f:1,n:1 hard=60s
        kind long needs=f:1 hard=600s
        node n1 slots=n:8
        enqueue h1 kind=long
        enqueue h2 kind=short
        tick
        run h1
        run h2
        advance 10s
        enqueue a kind=short
        enqueue b kind=long
        enqueue c kind=short
        tick
        explain a
        explain c
        ",
        expect![[r#"
            granted h1 -> n1 token=1.1
            granted h2 -> n1 token=1.2
            10s: deferred a slot_busy: slot f 2/2
            10s: deferred b slot_busy: slot f 2/2
            10s: a: slot f 2/2, 0 ahead
            10s:   It waits for 1 unit of fleet slot f (2/2 taken).
            10s:   slot f: needs 1 of 2/2
            10s:     h1 holds 1 for 10s
            10s:     h2 holds 1 for 10s
            10s:   slot n on n1: needs 1 of 1/8
            10s:     h2 holds 1 for 10s
            10s:   node n1: fits
            10s:   starts latest in 60s
            10s:   > 1 more unit of fleet slot f: holders end, or its capacity is raised from 2 to 3
            10s:   > 2 leases hold slot f; they are listed
            10s: c: slot f 2/2, 1 ahead a
            10s:   It waits for 1 unit of fleet slot f (2/2 taken); 1 job of its class is before it.
            10s:   slot f: needs 1 of 2/2
            10s:     h1 holds 1 for 10s
            10s:     h2 holds 1 for 10s
            10s:   slot n on n1: needs 1 of 1/8
            10s:     h2 holds 1 for 10s
            10s:   node n1: fits
            10s:   before it for f: 1 sure, 0 by share, of 1 classes
            10s:   starts latest in 680s
            10s:   > 1 more unit of fleet slot f: holders end, or its capacity is raised from 2 to 3
            10s:   > 2 leases hold slot f; they are listed
        "#]],
    );
}

#[test]
fn no_latest_start_is_said_where_none_can_be_promised() {
    check(
        "
        slot f 2
        slot g 1
        slot n node
        kind one needs=f:1 hard=60s
        kind two needs=f:2 hard=60s
        kind both needs=f:1,g:1 hard=60s
        kind other needs=g:1 hard=60s
        node n1 slots=n:8
        enqueue h1 kind=one
        enqueue h2 kind=one
        enqueue h3 kind=other
        tick
        enqueue a kind=two
        enqueue b kind=both
        enqueue c kind=other
        tick
        explain a
        explain b
        run h1
        run h2
        finish h1 ok
        advance 2s
        mute n1
        advance 150s
        enqueue d kind=one
        enqueue e kind=one
        tick
        explain d
        ",
        expect![[r#"
            granted h1 -> n1 token=1.1
            granted h2 -> n1 token=1.2
            granted h3 -> n1 token=1.3
            deferred a slot_busy: slot f 2/2
            deferred b slot_busy: slot f 2/2
            deferred c slot_busy: slot g 1/1
            a: slot f 2/2, 0 ahead
              It waits for 2 units of fleet slot f (2/2 taken).
              slot f: needs 2 of 2/2
                h1 holds 1 for 0ns
                h2 holds 1 for 0ns
              node n1: fits
              > 2 more units of fleet slot f: holders end, or its capacity is raised from 2 to 4
              > 2 leases hold slot f; they are listed
            b: slot f 2/2, 0 ahead
              It waits for 1 unit of fleet slot f (2/2 taken).
              slot f: needs 1 of 2/2
                h1 holds 1 for 0ns
                h2 holds 1 for 0ns
              slot g: needs 1 of 1/1
                h3 holds 1 for 0ns
              node n1: fits
              before it for f: 1 sure, 0 by share, of 1 classes
              > 1 more unit of fleet slot f: holders end, or its capacity is raised from 2 to 3
              > 2 leases hold slot f; they are listed
              > 1 lease holds slot g; it is listed
            ended h1 token=1.1 succeeded (exit) -> succeeded
            5s: revoked 1.3 unanswered
            12s: suspect n1
            23s: ended h3 token=1.3 returned (undelivered) -> queued [its first lease ended without a word from its node]
            23s: deferred h3 suspect: n1 silent
            23s: deferred b slot_busy: slot f 2/2
            30s: deferred h3 suspect: n1 silent
            30s: deferred a slot_busy: slot f 2/2
            30s: deferred b slot_busy: slot f 2/2
            128s: lease 1.1 gone
            128s: ended h2 token=1.2 lost (lease_expired) -> queued [its lease ended in silence]
            128s: deferred h2 suspect: n1 silent
            128s: deferred h3 suspect: n1 silent
            128s: deferred a suspect: n1 silent
            128s: deferred b suspect: n1 silent
            152s: d: n1 silent, 1 ahead h2
            152s:   It does not start: n1 silent; 1 job of its class is before it.
            152s:   slot f: needs 1 of 0/2
            152s:   node n1: n1 silent
            152s:   > node n1 is heard again, or a node that runs kind one joins
        "#]],
    );
}

#[test]
fn what_a_job_waits_for_by_the_clock_is_its_earliest_start() {
    check(
        "
        slot f 1
        kind k needs=f:1
        node n1
        enqueue a kind=k run_at=90s
        explain a
        enqueue b kind=k
        pause slot f 30s
        tick
        explain b
        ",
        expect![[r#"
            a: start time, 0 ahead
              It waits for its start time.
              slot f: needs 1 of 0/1
              node n1: fits
              starts earliest in 90s
              > its time comes
            deferred b slot_paused: slot f paused
            b: slot f paused, 0 ahead
              It does not start: slot f paused.
              slot f: needs 1 of 0/1
              node n1: fits
              starts earliest in 30s
              > slot f is resumed
        "#]],
    );
}

#[test]
fn a_likely_start_needs_a_history_and_a_new_leader_has_none() {
    let mut run = Script::new();
    run.lines("slot f 1 \n kind k needs=f:1 hard=600s \n node n1");
    for n in 0..8 {
        run.lines(&format!("enqueue h{n} kind=k \n tick \n run h{n} \n advance {}s \n done h{n}", 20 + n));
    }
    run.lines("enqueue h kind=k \n tick \n run h \n enqueue a kind=k \n tick");
    run.trace.clear();
    run.lines("explain a \n advance 10s \n explain a \n reload \n hello n1 \n tick \n explain a");
    expect![[r#"
        188s: a: slot f 1/1, 0 ahead
        188s:   It waits for 1 unit of fleet slot f (1/1 taken).
        188s:   slot f: needs 1 of 1/1
        188s:     h holds 1 for 0ns
        188s:   node n1: fits
        188s:   starts likely in 24.576s, late in 28.672s, latest in 610s
        188s:   > 1 more unit of fleet slot f: holders end, or its capacity is raised from 1 to 2
        188s:   > 1 lease holds slot f; it is listed
        198s: a: slot f 1/1, 0 ahead
        198s:   It waits for 1 unit of fleet slot f (1/1 taken).
        198s:   slot f: needs 1 of 1/1
        198s:     h holds 1 for 10s
        198s:   node n1: fits
        198s:   starts likely in 14.576s, late in 18.672s, latest in 600s
        198s:   > 1 more unit of fleet slot f: holders end, or its capacity is raised from 1 to 2
        198s:   > 1 lease holds slot f; it is listed
        198s: deferred a slot_busy: slot f 1/1
        198s: a: slot f 1/1, 0 ahead
        198s:   It waits for 1 unit of fleet slot f (1/1 taken).
        198s:   slot f: needs 1 of 1/1
        198s:     h holds 1 for 10s
        198s:   node n1: fits
        198s:   starts latest in 610s
        198s:   > 1 more unit of fleet slot f: holders end, or its capacity is raised from 1 to 2
        198s:   > 1 lease holds slot f; it is listed
    "#]]
    .assert_eq(&run.trace);
}

/// A fleet in which nothing but the work that is there happens: no enqueue, no failure, no node that goes.
struct Rest {
    run: Script,
    rng: Rng,
    names: Vec<String>,
    /// When each running job ends.
    ends: BTreeMap<String, Duration>,
    promised: BTreeMap<JobId, Wall>,
    kept: usize,
}

const KINDS: [(&str, u64); 4] = [("a", 40), ("b", 90), ("c", 120), ("d", 30)];

impl Rest {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut run = Script::new();
        run.world.paranoid = false;
        let fleet = 1 + rng.below(3);
        run.lines(&format!("slot f {fleet} \n slot g {} \n slot n node \n slot m node", 2 + rng.below(6)));
        // Of some fleets every need is one unit, of others not.
        let large = if rng.percent(20) { 2.min(fleet) } else { 1 };
        run.lines("kind a needs=f:1 hard=40s");
        run.lines("kind b needs=f:1,n:1 hard=90s");
        run.lines(&format!("kind c needs=f:{large},g:1 hard=120s"));
        run.lines(if rng.percent(50) { "kind d needs=n:1 hard=30s" } else { "kind d needs=m:1 hard=30s" });
        for n in 0..1 + rng.below(3) {
            run.lines(&format!("node n{n} slots=n:{},m:1 credits=64", 1 + rng.below(8)));
        }
        let names = (0..10 + rng.below(20)).map(|n| format!("j{n}")).collect();
        Self { run, rng, names, ends: BTreeMap::new(), promised: BTreeMap::new(), kept: 0 }
    }

    fn enqueue(&mut self) {
        for name in self.names.clone() {
            let (kind, _) = KINDS[usize::try_from(self.rng.below(4)).unwrap()];
            let priority = ["-30", "0", "0", "0", "10", "60"][usize::try_from(self.rng.below(6)).unwrap()];
            let tenant = if self.rng.percent(70) { "t1" } else { "t2" };
            self.run.lines(&format!("enqueue {name} kind={kind} priority={priority} tenant={tenant}"));
        }
        self.run.lines("tick");
    }

    /// Lets what runs go on for a while, each for at most its limit, and looks who started.
    fn go_on(&mut self) -> bool {
        self.run.lines("tick");
        let now = self.run.world.now();
        let mut waiting = false;
        for name in self.names.clone() {
            let id = self.run.id(&name);
            let Some(job) = self.run.world.state.job(id).cloned() else { continue };
            if job.state == JobState::Running && !self.ends.contains_key(&name) {
                self.started(id, &name, job.granted_at.unwrap());
                let (_, limit) = KINDS.into_iter().find(|(kind, _)| *kind == job.kind.as_str()).unwrap();
                let length = if self.rng.percent(50) { limit } else { 1 + self.rng.below(limit) };
                let end = Duration::from_micros(now.mono.0) + Duration::from_secs(length);
                self.ends.insert(name.clone(), end);
                self.run.lines(&format!("run {name}"));
            } else if let JobState::Queued { .. } = job.state {
                waiting = true;
                let explained = self.run.world.state.explain(now, id).unwrap();
                if let Some(latest) = explained.bracket.latest {
                    let known = self.promised.entry(id).or_insert(latest);
                    *known = latest.min(*known);
                }
            }
        }
        let next = self.ends.values().min().copied();
        if let Some(next) = next {
            let rest = next.saturating_sub(Duration::from_micros(self.run.world.now().mono.0));
            self.run.lines(&format!("advance {}s", rest.as_secs().max(1)));
            let now = Duration::from_micros(self.run.world.now().mono.0);
            let over: Vec<String> =
                self.ends.iter().filter(|(_, end)| **end <= now).map(|(name, _)| name.clone()).collect();
            for name in over {
                self.ends.remove(&name);
                self.run.lines(&format!("done {name}"));
            }
        }
        waiting || next.is_some()
    }

    fn started(&mut self, id: JobId, name: &str, at: Wall) {
        if let Some(latest) = self.promised.remove(&id) {
            assert!(at <= latest, "{name} started {:?} later than promised", at.since(latest));
            self.kept += 1;
        }
    }
}

/// While nothing is enqueued: in the order of now, whatever the runs take within their limits, nobody starts later than
/// was promised, then or at any time meanwhile.
#[test]
fn a_job_never_starts_after_its_latest_start_while_nothing_is_enqueued() {
    let mut kept = 0;
    for seed in 1..=20 {
        let mut rest = Rest::new(seed);
        rest.enqueue();
        let mut rounds = 0;
        while rest.go_on() {
            rounds += 1;
            assert!(rounds < 2000, "seed {seed} does not end");
        }
        kept += rest.kept;
    }
    assert!(kept > 40, "{kept} promises were made and kept: too few to say anything");
}

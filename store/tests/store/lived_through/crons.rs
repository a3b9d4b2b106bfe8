//! Cron entries of the histories: one every five minutes, one that is a singleton and is fired by hand as well.

use std::{collections::BTreeMap, time::Duration};

use tenure_scheduler::{
    Command, CronJob, CronName, CronPlan, CronPolicy, JobId, KindName, MissedPolicy, Selector, State, Tenant,
    Wall,
};
use uuid::Uuid;

use crate::random::Random;

/// Their timetables, in seconds.
const EVERY: [(&str, i64); 2] = [("often", 300), ("single", 700)];

/// By a chance of their own, as are the verbs below: what else happens stays as it was without them.
pub(super) fn declared(seed: u64, kinds: [&str; 3]) -> BTreeMap<CronName, CronPolicy> {
    let random = &mut Random::new(seed);
    let policy = |random: &mut Random, every: i64, kind: &str| CronPolicy {
        kind: KindName::new(kind),
        when: every.to_string().into(),
        zone: if random.chance(80) { "UTC" } else { "Europe/Berlin" }.into(),
        missed: *random
            .pick(&[MissedPolicy::Skip, MissedPolicy::Coalesce, MissedPolicy::CatchUp(2)])
            .expect("one of three"),
        jitter: Duration::from_secs(random.below(20)),
        singleton: every == 700,
        job: CronJob {
            payload: if random.chance(50) { "hello" } else { "" }.into(),
            content_type: "text/plain".into(),
            tenant: Tenant::new("default"),
            priority: random.chance(50).then_some(3),
            labels: BTreeMap::new(),
            needs: None,
            selector: Selector::default(),
            stale_after: None,
            hard_time_limit: None,
            concurrency_key: None,
        },
    };
    let all = EVERY.into_iter().zip(kinds);
    all.map(|((name, every), kind)| (CronName::new(name), policy(random, every, kind))).collect()
}

/// How the timetables go on of which more has to be known.
pub(super) fn plans(state: &State, now: Wall) -> Vec<Command> {
    let plan = |entry: &tenure_scheduler::CronEntry| {
        let every = entry.policy.when.parse::<i64>().expect("a number") * 1_000_000;
        let first = entry.last_instant.0.div_euclid(every) + 1;
        let last = now.0.max(entry.last_instant.0).div_euclid(every) + 3;
        Command::PlanCron(Box::new(CronPlan {
            entry: entry.name.clone(),
            when: entry.policy.when.clone(),
            zone: entry.policy.zone.clone(),
            after: entry.last_instant,
            instants: (first..=last).map(|n| Wall(n * every)).collect(),
            ends: false,
        }))
    };
    state.unplanned_crons(9).map(plan).collect()
}

pub(super) fn operate(now: Wall) -> Option<Command> {
    let random = &mut Random::new(now.0.unsigned_abs());
    if !random.chance(4) {
        return None;
    }
    let entry = CronName::new(EVERY[usize::from(random.chance(50))].0);
    Some(match random.below(4) {
        0 => Command::PauseCron { entry, by: "ann".into() },
        1 | 2 => Command::ResumeCron { entry },
        _ => {
            let id =
                Uuid::from_u64_pair(0x0190_0000_0000_7777, 0x8000_0000_0000_0000 | random.below(1 << 60));
            Command::RunCron { entry, job: JobId(id), prior: None }
        }
    })
}

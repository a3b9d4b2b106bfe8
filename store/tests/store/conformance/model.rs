//! Random turns against a naive model: what was committed is what is loaded and read.

use std::collections::BTreeMap;

use tenure_scheduler::{
    Changes, CronEntry, Durable, FencingToken, Job, JobChange, JobId, JobState, Lease, Outcome,
    ScheduledCause, Stage, WaitPolicy, Wall,
};

use crate::{
    random::{Random, seeds},
    samples::{
        attempt, crons, detached, id, keyed, kinds, lease, node, rich_job, rich_lease, slots, tenants, token,
    },
    stores::{Led, TestStore, assert_same},
};

/// Everything that the turns so far should have left behind.
#[derive(Default)]
struct Model {
    jobs: BTreeMap<JobId, Job>,
    leases: BTreeMap<FencingToken, Lease>,
    rest: Durable,
    next_job: u64,
    next_token: u64,
}

pub(crate) async fn random_turns_equal_the_model<S: TestStore>() {
    for seed in seeds(12) {
        let mut random = Random::new(seed);
        let mut led = Led::<S>::new().await;
        let mut model = Model::default();
        for _ in 0..30 {
            let changes = model.turn(&mut random);
            led.commit(&changes).await;
            if random.chance(20) {
                assert_same(&led.reload().await, &model.durable(), &format!("seed {seed}"));
            }
        }
        assert_same(&led.reload().await, &model.durable(), &format!("seed {seed}"));
        for n in 0..model.next_job {
            assert_eq!(led.read(id(n)).await.as_ref(), model.jobs.get(&id(n)), "seed {seed}");
        }
    }
}

impl Model {
    fn durable(&self) -> Durable {
        let live = self.jobs.iter().filter(|(_, job)| !job.state.is_final());
        Durable {
            jobs: live.map(|(_, job)| job.clone()).collect(),
            leases: self.leases.clone(),
            ..self.rest.clone()
        }
    }

    /// A turn that changes each row at most once.
    fn turn(&mut self, random: &mut Random) -> Changes {
        let mut changes = Changes::default();
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            if random.chance(40) {
                self.change_job(random, id, &mut changes);
            }
        }
        for _ in 0..random.below(8) {
            let job = self.new_job(random);
            self.jobs.insert(job.id, job.clone());
            changes.jobs.push(JobChange::Insert(Box::new(job)));
        }
        self.change_leases(random, &mut changes);
        self.change_fleet(random, &mut changes);
        // The order of changes within a turn must not matter.
        for at in (1..changes.jobs.len()).rev() {
            let other = usize::try_from(random.below(at as u64 + 1)).unwrap();
            changes.jobs.swap(at, other);
        }
        changes
    }

    fn new_job(&mut self, random: &mut Random) -> Job {
        let n = self.next_job;
        self.next_job += 1;
        let key = format!("key-{}", random.below(6));
        let free = !self
            .jobs
            .values()
            .any(|job| job.dedupe_held && job.dedupe_key.as_ref().is_some_and(|held| held.as_str() == key));
        let mut job = if random.chance(30) { rich_job(n) } else { keyed(n, &key) };
        job.tenant = keyed(n, &key).tenant;
        job.dedupe_key = keyed(n, &key).dedupe_key;
        job.dedupe_held = free;
        job.created_at = Wall(i64::try_from(random.below(5)).unwrap());
        job.version = 1;
        job.token = FencingToken::NONE;
        self.move_on(random, &mut job);
        job
    }

    fn change_job(&mut self, random: &mut Random, id: JobId, changes: &mut Changes) {
        let Some(mut job) = self.jobs.get(&id).cloned() else { return };
        let previous = job.token;
        if job.state.is_final() {
            if random.chance(50) {
                self.jobs.remove(&id);
                changes.jobs.push(JobChange::Delete(id));
                return;
            }
            job.round += 1;
        }
        job.version += 1;
        self.move_on(random, &mut job);
        if job.token > previous && previous > FencingToken::NONE {
            changes.attempts_put.push(attempt(0, previous, Outcome::Lost));
            if let Some(last) = changes.attempts_put.last_mut() {
                last.job = id;
            }
        }
        if job.state.is_final() && random.chance(50) {
            job.dedupe_held = false;
        }
        self.jobs.insert(id, job.clone());
        changes.jobs.push(JobChange::Update { previous, job: Box::new(job) });
    }

    fn move_on(&mut self, random: &mut Random, job: &mut Job) {
        let at = Wall(i64::try_from(random.below(1_000)).unwrap());
        job.state = match random.below(7) {
            0 => JobState::Scheduled { until: at, cause: ScheduledCause::RunAt },
            1 | 2 => JobState::Queued { since: at },
            3 => JobState::Dead { at },
            4 => JobState::Expired { at },
            5 => JobState::Waiting { since: at },
            _ => {
                self.next_token += 1;
                job.token = token(self.next_token);
                JobState::Running
            }
        };
        let waits =
            matches!(job.state, JobState::Waiting { .. }) || (random.chance(20) && !job.state.is_final());
        job.detached = waits.then(|| Box::new(detached(WaitPolicy::All)));
        job.failures = u32::try_from(random.below(5)).unwrap();
        job.reason = random.chance(50).then(|| "because".into());
    }

    fn change_leases(&mut self, random: &mut Random, changes: &mut Changes) {
        for token in self.leases.keys().copied().collect::<Vec<_>>() {
            let Some(lease) = self.leases.get_mut(&token) else { continue };
            if random.chance(20) {
                lease.stage = Stage::Unreaped;
                changes.leases_put.push(lease.clone());
            } else if random.chance(20) {
                self.leases.remove(&token);
                changes.leases_deleted.push(token);
            }
        }
        for n in 0..random.below(3) {
            let live = self.leases.values().any(|lease| lease.job == id(n) && lease.stage.is_live());
            if !live {
                self.next_token += 1;
                let token = token(self.next_token);
                let new =
                    if random.chance(50) { rich_lease(n, token) } else { lease(n, token, Stage::Finished) };
                self.leases.insert(token, new.clone());
                // Before the row that may make room for it.
                changes.leases_put.insert(0, new);
            }
        }
    }

    fn change_fleet(&mut self, random: &mut Random, changes: &mut Changes) {
        if let Some(kind) = random.pick(&kinds()) {
            if self.rest.kinds.remove(&kind.name).is_some() && random.chance(30) {
                changes.kinds_deleted.push(kind.name.clone());
            } else {
                self.rest.kinds.insert(kind.name.clone(), kind.clone());
                changes.kinds_put.push(kind.clone());
            }
        }
        if let Some(slot) = random.pick(&slots()) {
            let mut slot = slot.clone();
            slot.capacity_since = token(random.below(100));
            self.rest.slots.insert(slot.name.clone(), slot.clone());
            changes.slots_put.push(slot);
        }
        if let Some((tenant, policy)) = random.pick(&tenants()).cloned() {
            if self.rest.tenants.remove(&tenant).is_some() && random.chance(30) {
                changes.tenants_deleted.push(tenant);
            } else {
                self.rest.tenants.insert(tenant.clone(), policy);
                changes.tenants_put.push((tenant, policy));
            }
        }
        if let Some(entry) = random.pick(&crons()).cloned() {
            let known = self.rest.crons.remove(&entry.name);
            if known.is_some() && random.chance(30) {
                changes.crons_deleted.push(entry.name);
            } else {
                let last = known.map_or(entry.last_instant, |known| known.last_instant);
                let last_instant = Wall(last.0 + i64::try_from(random.below(3)).unwrap());
                let entry = CronEntry { last_instant, ..entry };
                self.rest.crons.insert(entry.name.clone(), entry.clone());
                changes.crons_put.push(entry);
            }
        }
        if random.chance(30) {
            let mut node = node();
            node.stream = random.below(1_000);
            self.rest.nodes.insert(node.name.clone(), node.clone());
            changes.nodes_put.push(node);
        }
    }
}

//! What a store keeps and gives back.

use bytes::Bytes;
use tenure_scheduler::{
    Attempt, Changes, CheckpointPut, ChildEnd, CronEntry, DedupeKey, Durable, Epoch, FencingToken, Job,
    JobChange, JobState, KindName, MemberOf, Outcome, ResultPut, Stage, Tenant, TenantPolicy, WaitPolicy,
    WaitVerdict, Wall, Workflow, WorkflowState,
};
use tenure_store::{Beside, HeldKey, Journal, WorkflowCursor, WorkflowFilter};

use crate::{
    samples::{
        attempt, bare_node, class, crons, ended, id, job, keyed, kinds, lease, node, parked_lease, rich_job,
        rich_lease, running, slots, tenants, token, waiting, workflow,
    },
    stores::{Led, TestStore, assert_same, bytes_for, payload_of},
};

fn insert(job: &Job) -> JobChange {
    JobChange::Insert(Box::new(job.clone()))
}

fn update(previous: FencingToken, job: &Job) -> JobChange {
    JobChange::Update { previous, job: Box::new(job.clone()) }
}

fn jobs(jobs: Vec<JobChange>) -> Changes {
    Changes { jobs, ..Changes::default() }
}

/// What an execution left which detached is found by its token, and is no result; its attempt tells that it detached.
pub(crate) async fn a_state_is_no_result<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1)]).await;
    let state = ResultPut {
        job: id(1),
        token: token(4),
        of_wait: true,
        partial: false,
        created_at: Wall(5),
        expires_at: Wall(60),
    };
    led.commit(&Changes {
        attempts_put: vec![attempt(1, token(4), Outcome::Detached), attempt(1, token(5), Outcome::Returned)],
        results_put: vec![state],
        ..Changes::default()
    })
    .await;
    let reader = led.store.reader().clone();
    let found = reader.state(id(1), token(4)).await.unwrap().unwrap();
    assert_eq!((found.token, found.created_at, found.expires_at), (token(4), Wall(5), Wall(60)));
    assert_eq!(found.data, Bytes::from(format!("result of {} {}", id(1), token(4))));
    assert_eq!(reader.result(id(1)).await.unwrap(), None);
    let outcomes: Vec<Outcome> =
        reader.attempts(id(1), None, 9).await.unwrap().iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [Outcome::Detached, Outcome::Returned]);

    let result = ResultPut {
        job: id(1),
        token: token(6),
        of_wait: false,
        partial: false,
        created_at: Wall(5),
        expires_at: Wall(60),
    };
    led.commit(&Changes { results_put: vec![result], ..Changes::default() }).await;
    assert_eq!(reader.result(id(1)).await.unwrap().unwrap().token, token(6));
    assert_eq!(reader.state(id(1), token(6)).await.unwrap(), None);
    led.commit(&Changes { results_deleted: vec![(id(1), token(4))], ..Changes::default() }).await;
    assert_eq!(reader.state(id(1), token(4)).await.unwrap(), None);
}

pub(crate) async fn a_new_store_is_empty<S: TestStore>() {
    let mut store = S::new().await;
    let taken = store.journal().takeover(Epoch(0)).await.unwrap();
    assert_eq!((taken.epoch, taken.durable), (Epoch(1), Durable::default()));
    assert!(store.reader().schema_version().await.unwrap() > 0);
    store.reader().ping().await.unwrap();
}

pub(crate) async fn an_empty_turn_commits<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.commit(&Changes::default()).await;
}

pub(crate) async fn rows_come_back_as_they_were<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let policies =
        [WaitPolicy::All, WaitPolicy::Any, WaitPolicy::AtLeast(u32::MAX), WaitPolicy::FirstFailure];
    let parents = (30..).zip(policies).map(|(n, policy)| waiting(n, policy));
    let all: Vec<Job> = [job(1), rich_job(10)].into_iter().chain(parents).collect();
    let leases = [
        rich_lease(20, token(9)),
        lease(21, token(10), Stage::Finished),
        lease(22, token(11), Stage::Unreaped),
        parked_lease(23, token(12), None),
        parked_lease(24, token(13), Some(WaitVerdict::Go)),
        parked_lease(25, token(14), Some(WaitVerdict::MustDetach)),
    ];
    led.commit(&Changes {
        jobs: all.iter().map(insert).collect(),
        leases_put: leases.to_vec(),
        kinds_put: kinds().to_vec(),
        slots_put: slots().to_vec(),
        tenants_put: tenants().to_vec(),
        crons_put: crons().to_vec(),
        nodes_put: vec![node(), bare_node("mini-2")],
        classes_put: vec![class()],
        ..Changes::default()
    })
    .await;
    let expected = Durable {
        workflows: Default::default(),
        webhooks: Default::default(),
        deliveries: Default::default(),
        kinds: kinds().into_iter().map(|kind| (kind.name.clone(), kind)).collect(),
        slots: slots().into_iter().map(|slot| (slot.name.clone(), slot)).collect(),
        tenants: tenants().into(),
        crons: crons().into_iter().map(|entry| (entry.name.clone(), entry)).collect(),
        nodes: [node(), bare_node("mini-2")].into_iter().map(|node| (node.name.clone(), node)).collect(),
        jobs: all.iter().cloned().collect(),
        leases: leases.iter().map(|lease| (lease.token, lease.clone())).collect(),
        classes: [(class().class, class())].into(),
    };
    assert_eq!(led.reload().await, expected);
    for job in &all {
        assert_eq!(led.read(job.id).await.as_ref(), Some(job));
    }
}

pub(crate) async fn rows_change<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.commit(&Changes {
        jobs: vec![insert(&job(1))],
        leases_put: vec![rich_lease(1, token(1))],
        kinds_put: kinds().to_vec(),
        slots_put: slots().to_vec(),
        tenants_put: tenants().to_vec(),
        crons_put: crons().to_vec(),
        nodes_put: vec![node()],
        classes_put: vec![class()],
        ..Changes::default()
    })
    .await;

    let changed_job =
        Job { labels: rich_job(1).labels, waits: rich_job(1).waits, ..running(&job(1), token(1)) };
    let mut changed_lease = lease(1, token(1), Stage::Unreaped);
    changed_lease.length = rich_lease(1, token(1)).length;
    changed_lease.attempt = 3;
    changed_lease.round = 2;
    let [mut plain, rich] = kinds();
    plain.policy = rich.policy.clone();
    let [mut slot, fleet, _] = slots();
    slot.scope = fleet.scope;
    let changed_tenant = (tenants()[0].0.clone(), TenantPolicy { weight: 7 });
    let [plain_cron, rich_cron] = crons();
    let changed_cron = CronEntry { name: plain_cron.name.clone(), ..rich_cron.clone() };
    let changed_class = tenure_scheduler::ClassRow { timeline: Vec::new(), ..class() };
    led.commit(&Changes {
        jobs: vec![update(FencingToken::NONE, &changed_job)],
        leases_put: vec![changed_lease.clone()],
        kinds_put: vec![plain.clone()],
        slots_put: vec![slot.clone()],
        tenants_put: vec![changed_tenant.clone()],
        crons_put: vec![changed_cron.clone()],
        nodes_put: vec![bare_node("mini-1")],
        classes_put: vec![changed_class.clone()],
        ..Changes::default()
    })
    .await;

    let loaded = led.reload().await;
    assert_eq!(loaded.jobs.get(&id(1)), Some(&changed_job));
    assert_eq!(loaded.leases.get(&token(1)), Some(&changed_lease));
    assert_eq!(loaded.kinds.get(&plain.name), Some(&plain));
    assert_eq!(loaded.kinds.get(&rich.name), Some(&rich));
    assert_eq!(loaded.slots.get(&slot.name), Some(&slot));
    assert_eq!(loaded.tenants, [changed_tenant, tenants()[1].clone()].into());
    assert_eq!(loaded.crons.get(&changed_cron.name), Some(&changed_cron));
    assert_eq!(loaded.crons.get(&rich_cron.name), Some(&rich_cron));
    assert_eq!(loaded.nodes.get(&node().name), Some(&bare_node("mini-1")));
    assert_eq!(loaded.classes.get(&class().class), Some(&changed_class));
}

pub(crate) async fn rows_go<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.commit(&Changes {
        jobs: vec![insert(&job(1))],
        leases_put: vec![lease(1, token(1), Stage::Finished)],
        kinds_put: kinds().to_vec(),
        slots_put: slots().to_vec(),
        tenants_put: tenants().to_vec(),
        crons_put: crons().to_vec(),
        nodes_put: vec![node()],
        classes_put: vec![class()],
        ..Changes::default()
    })
    .await;
    led.commit(&Changes {
        jobs: vec![JobChange::Delete(id(1))],
        leases_deleted: vec![token(1)],
        kinds_deleted: kinds().into_iter().map(|kind| kind.name).collect(),
        slots_deleted: slots().into_iter().map(|slot| slot.name).collect(),
        tenants_deleted: tenants().into_iter().map(|(name, _)| name).collect(),
        crons_deleted: crons().into_iter().map(|entry| entry.name).collect(),
        nodes_deleted: vec![node().name],
        classes_deleted: vec![class().class, "never saved".into()],
        ..Changes::default()
    })
    .await;
    assert_eq!(led.reload().await, Durable::default());
}

pub(crate) async fn every_takeover_raises_the_epoch<S: TestStore>() {
    let mut store = S::new().await;
    for (at_least, epoch) in [(0, 1), (0, 2), (7, 8), (3, 9), (9, 10)] {
        let taken = store.journal().takeover(Epoch(at_least)).await.unwrap();
        assert_eq!(taken.epoch, Epoch(epoch), "at least {at_least}");
    }
}

pub(crate) async fn final_jobs_leave_the_load_and_stay_readable<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1), &job(2)]).await;
    let running = running(&job(1), token(1));
    let succeeded = ended(&running, JobState::Succeeded { at: Wall(9) }, Outcome::Succeeded);
    led.commit(&jobs(vec![update(FencingToken::NONE, &running)])).await;
    led.commit(&jobs(vec![update(token(1), &succeeded)])).await;
    let loaded = led.reload().await;
    assert_eq!(loaded.jobs.keys().collect::<Vec<_>>(), [&id(2)]);
    assert_eq!(led.read(id(1)).await, Some(succeeded));
    led.assert_sound().await;
}

pub(crate) async fn a_requeued_job_is_loaded_again<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let cancelled = Job { state: JobState::Cancelled { at: Wall(9) }, ..job(1) };
    led.insert(&[&cancelled]).await;
    let requeued = Job { round: 2, version: 2, ..job(1) };
    led.commit(&jobs(vec![update(FencingToken::NONE, &requeued)])).await;
    assert_eq!(led.reload().await.jobs.get(&id(1)), Some(&requeued));
}

pub(crate) async fn prior_finds_ids_and_held_keys<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let held = keyed(1, "a");
    let released = Job { dedupe_held: false, state: JobState::Dead { at: Wall(9) }, ..keyed(2, "b") };
    let elsewhere = Job { tenant: Tenant::new("other"), ..keyed(3, "a") };
    let dead = Job { state: JobState::Dead { at: Wall(9) }, detached: None, ..rich_job(4) };
    led.insert(&[&held, &released, &elsewhere, &dead]).await;

    let key = |tenant: &Tenant, key: &str| HeldKey {
        tenant: tenant.clone(),
        kind: KindName::new("site.qa"),
        key: DedupeKey::new(key),
    };
    let keys = [
        key(&held.tenant, "a"),
        key(&released.tenant, "b"),
        key(&held.tenant, "never"),
        key(&dead.tenant, dead.dedupe_key.as_ref().unwrap().as_str()),
    ];
    // Each once, though both its id and its key are asked for.
    let found = led.store.journal().prior(&[id(1), id(2), id(99)], &keys).await.unwrap();
    assert_eq!(found, [held, released, dead]);
    assert_eq!(led.store.journal().prior(&[], &[]).await.unwrap(), []);
    // Reading does not end the leader's term.
    led.insert(&[&job(5)]).await;
}

pub(crate) async fn a_key_freed_in_a_turn_is_taken_in_it<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let first = Job { state: JobState::Dead { at: Wall(9) }, ..keyed(1, "a") };
    led.insert(&[&first]).await;
    // Freed by a deletion.
    led.commit(&jobs(vec![insert(&keyed(2, "a")), JobChange::Delete(id(1))])).await;
    // Freed by a release.
    let released =
        Job { dedupe_held: false, state: JobState::Cancelled { at: Wall(9) }, version: 2, ..keyed(2, "a") };
    led.commit(&jobs(vec![insert(&keyed(3, "a")), update(FencingToken::NONE, &released)])).await;
    // Freed by a release, and taken by a requeue.
    let released =
        Job { dedupe_held: false, state: JobState::Expired { at: Wall(9) }, version: 2, ..keyed(3, "a") };
    let requeued = Job { round: 2, version: 3, ..keyed(2, "a") };
    led.commit(&jobs(vec![update(FencingToken::NONE, &requeued), update(FencingToken::NONE, &released)]))
        .await;
    let held =
        HeldKey { tenant: requeued.tenant.clone(), kind: requeued.kind.clone(), key: DedupeKey::new("a") };
    assert_eq!(led.store.journal().prior(&[], &[held]).await.unwrap(), [requeued]);
}

pub(crate) async fn a_lease_freed_in_a_turn_is_taken_in_it<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&running(&job(1), token(1))]).await;
    led.commit(&Changes { leases_put: vec![lease(1, token(1), Stage::Granted)], ..Changes::default() }).await;
    // The new lease stands before the one that makes room for it.
    led.commit(&Changes {
        jobs: vec![update(token(1), &running(&job(1), token(2)))],
        leases_put: vec![lease(1, token(2), Stage::Granted), lease(1, token(1), Stage::Unreaped)],
        ..Changes::default()
    })
    .await;
    led.commit(&Changes {
        jobs: vec![update(token(2), &running(&job(1), token(3)))],
        leases_put: vec![lease(1, token(3), Stage::Granted)],
        leases_deleted: vec![token(1), token(2)],
        ..Changes::default()
    })
    .await;
    assert_eq!(
        led.reload().await.leases.into_values().collect::<Vec<_>>(),
        [lease(1, token(3), Stage::Granted)]
    );
}

pub(crate) async fn a_deleted_job_takes_its_bytes_and_attempts_along<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let dead = Job { payload_size: 5, state: JobState::Dead { at: Wall(9) }, ..job(1) };
    let put = ResultPut {
        job: id(1),
        token: token(1),
        of_wait: false,
        partial: false,
        created_at: Wall(5),
        expires_at: Wall(6),
    };
    led.commit(&Changes {
        jobs: vec![insert(&dead), insert(&Job { payload_size: 5, ..job(2) })],
        attempts_put: vec![attempt(1, token(1), Outcome::Failed), attempt(2, token(2), Outcome::Failed)],
        results_put: vec![put],
        leases_put: vec![lease(1, token(1), Stage::Unreaped)],
        ..Changes::default()
    })
    .await;
    led.commit(&jobs(vec![JobChange::Delete(id(1))])).await;
    let reader = led.store.reader();
    assert_eq!(reader.get_job(id(1)).await.unwrap(), None);
    assert_eq!(reader.payloads(&[id(1), id(2)]).await.unwrap().into_keys().collect::<Vec<_>>(), [id(2)]);
    assert_eq!(reader.result(id(1)).await.unwrap(), None);
    assert_eq!(reader.attempts(id(1), None, 10).await.unwrap(), []);
    assert_eq!(reader.attempts(id(2), None, 10).await.unwrap().len(), 1);
    // Its lease lives on.
    assert_eq!(led.reload().await.leases.len(), 1);
}

pub(crate) async fn payloads_travel_beside<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let all: Vec<Job> = [0, 1, 256 * 1024]
        .into_iter()
        .zip(1..)
        .map(|(size, n)| Job { payload_size: size, ..job(n) })
        .collect();
    let mut changes = jobs(all.iter().map(insert).collect());
    let mut beside = bytes_for(&changes);
    // Of a deduplicated enqueue: no job asks for it.
    beside.payloads.insert(id(77), payload_of(&Job { payload_size: 3, ..job(77) }));
    led.store.journal().commit(led.epoch, &changes, &beside).await.unwrap();

    let read = led.store.reader().payloads(&[id(1), id(2), id(3), id(77)]).await.unwrap();
    let expected =
        all.iter().filter(|job| job.payload_size > 0).map(|job| (job.id, payload_of(job))).collect();
    assert_eq!(read, expected);
    assert!(led.store.reader().payloads(&[]).await.unwrap().is_empty());

    // An update leaves it alone.
    changes.jobs = vec![update(FencingToken::NONE, &running(all.last().unwrap(), token(1)))];
    led.store.journal().commit(led.epoch, &changes, &Beside::default()).await.unwrap();
    assert_eq!(led.store.reader().payloads(&[id(3)]).await.unwrap().len(), 1);
}

pub(crate) async fn the_newest_result_is_read<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1)]).await;
    for n in [2, 1] {
        let put = ResultPut {
            job: id(1),
            token: token(n),
            of_wait: false,
            partial: false,
            created_at: Wall(5),
            expires_at: Wall(60),
        };
        led.commit(&Changes { results_put: vec![put], ..Changes::default() }).await;
    }
    let result = led.store.reader().result(id(1)).await.unwrap().unwrap();
    assert_eq!((result.job, result.token), (id(1), token(2)));
    assert_eq!((result.created_at, result.expires_at), (Wall(5), Wall(60)));
    assert_eq!(result.data, Bytes::from(format!("result of {} {}", id(1), token(2))));
    assert_eq!(result.content_type, "text/plain");
    assert!(!format!("{result:?}").contains("result of"), "results are not for logs");
}

pub(crate) async fn results_of_one_turn_keep_their_bytes<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1), &job(2), &job(3), &job(4)]).await;
    let put = |n| ResultPut {
        job: id(n),
        token: token(n),
        of_wait: false,
        partial: false,
        created_at: Wall(5),
        expires_at: Wall(60),
    };
    let bytes: [&[u8]; 4] = [b"", b"\0\xff\0", b"", b"four"];
    for turn in [&[1][..], &[2, 3, 4]] {
        let changes = Changes { results_put: turn.iter().copied().map(put).collect(), ..Changes::default() };
        let mut beside = bytes_for(&changes);
        for (&(job, _), result) in &mut beside.results {
            let (_, data) = (1..).map(id).zip(bytes).find(|(id, _)| *id == job).unwrap();
            result.data = data.into();
        }
        led.store.journal().commit(led.epoch, &changes, &beside).await.unwrap();
    }
    for (n, data) in (1..).zip(bytes) {
        assert_eq!(led.store.reader().result(id(n)).await.unwrap().unwrap().data, data, "job {n}");
    }
}

pub(crate) async fn an_outcome_that_came_late_replaces_a_loss<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1)]).await;
    for outcome in [Outcome::Lost, Outcome::TimedOut] {
        let attempts_put = vec![attempt(1, token(1), outcome)];
        led.commit(&Changes { attempts_put, ..Changes::default() }).await;
    }
    let attempts = led.store.reader().attempts(id(1), None, 10).await.unwrap();
    assert_eq!(attempts, [attempt(1, token(1), Outcome::TimedOut)]);
}

pub(crate) async fn deleting_a_result_twice_is_no_error<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1)]).await;
    let put = ResultPut {
        job: id(1),
        token: token(1),
        of_wait: false,
        partial: false,
        created_at: Wall(5),
        expires_at: Wall(60),
    };
    led.commit(&Changes { results_put: vec![put], ..Changes::default() }).await;
    for _ in 0..2 {
        led.commit(&Changes { results_deleted: vec![(id(1), token(1))], ..Changes::default() }).await;
    }
    assert_eq!(led.store.reader().result(id(1)).await.unwrap(), None);
}

/// A partial result is told from a whole one, and what an execution left is there for the next: the newest checkpoint, and
/// the newest partial result. Both go with their job.
pub(crate) async fn what_executions_left_is_kept_for_the_next<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1), &job(2), &job(3)]).await;
    let result = |n, of, partial| ResultPut {
        job: id(of),
        token: token(n),
        of_wait: false,
        partial,
        created_at: Wall(5),
        expires_at: Wall(60),
    };
    let saved = |n, of| CheckpointPut { job: id(of), token: token(n), created_at: Wall(7) };
    let ended =
        |n, outcome| Attempt { partial: true, checkpoint_size: Some(9), ..attempt(1, token(n), outcome) };
    led.commit(&Changes {
        attempts_put: vec![ended(1, Outcome::TimedOut), ended(2, Outcome::Stalled)],
        results_put: vec![result(2, 1, true), result(1, 1, true), result(1, 2, false)],
        checkpoints_put: vec![saved(1, 1), saved(1, 2)],
        ..Changes::default()
    })
    .await;
    led.commit(&Changes { checkpoints_put: vec![saved(2, 1)], ..Changes::default() }).await;

    let reader = led.store.reader().clone();
    assert!(reader.result(id(1)).await.unwrap().unwrap().partial);
    assert!(!reader.result(id(2)).await.unwrap().unwrap().partial);
    let attempts = reader.attempts(id(1), None, 9).await.unwrap();
    assert_eq!(attempts, [ended(1, Outcome::TimedOut), ended(2, Outcome::Stalled)]);
    let left = reader.left(&[id(1), id(2), id(3), id(77)]).await.unwrap();
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [id(1), id(2)]);
    let checkpoint = |n: u64| Some(Bytes::from(format!("checkpoint of {} {}", id(n), token(3 - n))));
    assert_eq!(left[&id(1)].checkpoint, checkpoint(1));
    let partial = left[&id(1)].partial.as_ref().unwrap();
    assert_eq!(partial.data, Bytes::from(format!("result of {} {}", id(1), token(2))));
    assert_eq!(partial.content_type, "text/plain");
    assert_eq!((&left[&id(2)].checkpoint, &left[&id(2)].partial), (&checkpoint(2), &None));
    assert!(reader.left(&[]).await.unwrap().is_empty());

    led.commit(&Changes { results_deleted: vec![(id(1), token(2))], ..Changes::default() }).await;
    let partial = reader.left(&[id(1)]).await.unwrap()[&id(1)].partial.clone().unwrap();
    assert_eq!(partial.data, Bytes::from(format!("result of {} {}", id(1), token(1))));
    led.commit(&jobs(vec![JobChange::Delete(id(1))])).await;
    assert!(reader.left(&[id(1)]).await.unwrap().is_empty());
    led.commit(&Changes { jobs: vec![insert(&job(1))], ..Changes::default() }).await;
    assert!(reader.left(&[id(1)]).await.unwrap().is_empty(), "a new job under its id has nothing of it");
}

/// A member tells its end by its own row; a deleted one has none. Lists, counts and what is due follow.
pub(crate) async fn workflows_come_back_with_the_ends_of_their_members<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let workflow = workflow(50);
    let member = |place: u32, state: JobState| Job {
        state,
        id: workflow.member(place),
        root: workflow.member(place),
        workflow: Some(MemberOf { workflow: workflow.id, place }),
        reason: (place == 1).then(|| "ö".repeat(1000).into()),
        ..job(900 + u64::from(place))
    };
    let since = Wall(1_000);
    let at = Wall(2_000);
    let state = |place: u32| match place {
        0 => JobState::Succeeded { at },
        1 => JobState::Dead { at },
        2 => JobState::Blocked { since },
        _ => JobState::Queued { since },
    };
    let jobs: Vec<Job> = (0..workflow.shape.size()).map(|place| member(place, state(place))).collect();
    let mut changes = Changes { workflows_put: vec![workflow.clone()], ..Changes::default() };
    changes.jobs.extend(jobs.iter().cloned().map(|job| JobChange::Insert(Box::new(job))));
    led.commit(&changes).await;
    let mut stored = workflow.clone();
    (stored.ends[0], stored.ends[1]) = (Some(ChildEnd::Succeeded), Some(ChildEnd::Dead));
    let live = |job: &&Job| !job.state.is_final();
    let expected = Durable {
        jobs: jobs.iter().filter(live).cloned().collect(),
        workflows: [(workflow.id, stored.clone())].into(),
        ..Durable::default()
    };
    assert_same(&led.reload().await, &expected, "a live workflow");
    let reader = led.store.reader().clone();
    assert_eq!(reader.get_workflow(workflow.id).await.unwrap(), Some(stored.clone()));
    assert_eq!(led.store.journal().prior_workflows(&[workflow.id]).await.unwrap(), [stored.clone()]);
    let members = reader.members(workflow.id).await.unwrap();
    let told: Vec<(u32, &str)> = members.iter().map(|member| (member.place, &*member.state)).collect();
    assert_eq!(told[..3], [(0, "succeeded"), (1, "dead"), (2, "blocked")]);
    let reason = members[1].reason.as_deref();
    assert_eq!(reason, Some(&*"ö".repeat(256)), "ten thousand whole reasons are too much");
    let counts = reader.member_counts(&[workflow.id]).await.unwrap();
    assert_eq!(counts[&workflow.id]["dead"], 1);
    let filter =
        |states: Vec<&'static str>| WorkflowFilter { states, producer: Some(workflow.producer.clone()) };
    let bare = [workflow.clone()];
    assert_eq!(reader.list_workflows(&filter(vec!["running", "dead"]), None, 10).await.unwrap(), bare);
    assert_eq!(reader.list_workflows(&filter(vec!["dead"]), None, 10).await.unwrap(), []);
    let after = Some(WorkflowCursor::after(&workflow));
    assert_eq!(reader.list_workflows(&filter(vec![]), after, 10).await.unwrap(), []);
    assert_eq!(reader.due_jobs(&[], at, 10).await.unwrap(), [], "a live workflow may read what they left");
    assert_eq!(reader.due_workflows(10).await.unwrap(), []);

    let ended = Workflow { state: WorkflowState::Dead { at }, version: 5, ..stored };
    let changes = Changes {
        workflows_put: vec![ended.clone()],
        jobs: jobs.iter().map(|job| JobChange::Delete(job.id)).collect(),
        ..Changes::default()
    };
    led.commit(&changes).await;
    let gone = Workflow { ends: vec![Some(ChildEnd::Missing); ended.ends.len()], ..ended };
    assert_eq!(led.store.reader().get_workflow(workflow.id).await.unwrap(), Some(gone.clone()));
    assert_eq!(led.store.journal().prior_workflows(&[workflow.id]).await.unwrap(), [gone]);
    assert_same(&led.reload().await, &Durable::default(), "a final workflow is not loaded");
    assert_eq!(led.store.reader().due_workflows(10).await.unwrap(), [workflow.id]);
    led.commit(&Changes { workflows_deleted: vec![workflow.id], ..Changes::default() }).await;
    assert_eq!(led.store.reader().get_workflow(workflow.id).await.unwrap(), None);
}

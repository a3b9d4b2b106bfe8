//! What readers list.

use tenure_scheduler::{
    Changes, DedupeKey, DueResult, FencingToken, Job, JobChange, JobId, JobState, KindName, MemberOf,
    NodeName, Outcome, Producer, ResultPut, Stage, Tenant, Wall, WorkflowId,
};
use tenure_store::{JobCursor, JobFilter, KindCutoff};

use crate::{
    samples::{attempt, id, job, keyed, lease, running, token},
    stores::{Led, TestStore},
};

fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

pub(crate) async fn pages_stay_stable_while_jobs_come_and_go<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    // Two jobs share each instant, so that ids break ties.
    let at = |n: u64| Wall(i64::try_from(n / 2).unwrap() * 10);
    let all: Vec<Job> = (0..10).map(|n| Job { created_at: at(n), ..job(n) }).collect();
    led.insert(&all.iter().collect::<Vec<_>>()).await;

    let filter = JobFilter::default();
    let mut after = None;
    let mut shown = Vec::new();
    for round in 0.. {
        let page = led.store.reader().list_jobs(&filter, after, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(JobCursor::after(last));
        shown.extend(ids(&page));
        // Meanwhile one comes (newer than all), one that was shown goes.
        let new = Job { created_at: Wall(1_000), ..job(100 + round) };
        led.commit(&Changes {
            jobs: vec![JobChange::Insert(Box::new(new)), JobChange::Delete(page[0].id)],
            ..Changes::default()
        })
        .await;
    }
    assert_eq!(shown, (0..10).rev().map(id).collect::<Vec<_>>());
}

pub(crate) async fn filters_are_anded<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let crawl = KindName::new("crawl");
    let plain = job(1);
    let other_kind = Job { kind: crawl.clone(), created_at: Wall(2_000), ..job(2) };
    let dead = Job { state: JobState::Dead { at: Wall(9) }, kind: crawl.clone(), ..keyed(3, "k") };
    let released = Job { state: JobState::Cancelled { at: Wall(9) }, dedupe_held: false, ..keyed(4, "k") };
    let child = Job { parent: Some(id(1)), tenant: Tenant::new("other"), ..job(5) };
    let away = running(&Job { parent: Some(id(1)), ..job(6) }, token(1));
    let theirs = Job { producer: Producer::new("someone"), ..job(7) };
    let of = |n: u64, place| Some(MemberOf { workflow: WorkflowId(id(n).0), place });
    let member = Job { workflow: of(20, 1), ..job(8) };
    let first = Job { workflow: of(20, 0), state: JobState::Dead { at: Wall(9) }, ..job(9) };
    let of_other = Job { workflow: of(21, 0), ..job(10) };
    led.insert(&[&plain, &other_kind, &dead, &released, &child, &away, &theirs, &member, &first, &of_other])
        .await;

    let all = JobFilter::default();
    let of_kind = JobFilter { kind: Some(crawl.clone()), ..all.clone() };
    let of_key = JobFilter { dedupe_key: Some(DedupeKey::new("k")), ..all.clone() };
    let of_workflow = JobFilter { workflow: Some(WorkflowId(id(20).0)), ..all.clone() };
    let of_parent = JobFilter { parent: Some(id(1)), ..all.clone() };
    let ends = |n: u64| {
        let id = id(n).to_string();
        id.get(id.len() - 12..).map(ToOwned::to_owned)
    };
    let begins = |n: u64| id(n).to_string().get(..35).map(ToOwned::to_owned);
    let cases: [(JobFilter, &[u64]); 22] = [
        (all.clone(), &[2, 10, 9, 8, 7, 6, 5, 4, 3, 1]),
        (of_workflow.clone(), &[9, 8]),
        (JobFilter { states: vec!["dead"], ..of_workflow.clone() }, &[9]),
        (JobFilter { kind: Some(crawl.clone()), ..of_workflow.clone() }, &[]),
        (JobFilter { parent: Some(id(1)), ..of_workflow }, &[]),
        (of_kind.clone(), &[2, 3]),
        (JobFilter { states: vec!["dead"], ..all.clone() }, &[9, 3]),
        (JobFilter { states: vec!["dead"], tenant: Some(Tenant::new("other")), ..all.clone() }, &[]),
        (JobFilter { states: vec!["dead", "cancelled"], ..all.clone() }, &[9, 4, 3]),
        (JobFilter { states: vec!["queued"], ..of_kind.clone() }, &[2]),
        (JobFilter { tenant: Some(Tenant::new("other")), ..all.clone() }, &[5]),
        (JobFilter { producer: Some(Producer::new("someone")), ..all.clone() }, &[7]),
        (JobFilter { producer: Some(Producer::new("nobody")), ..all.clone() }, &[]),
        (of_key.clone(), &[4, 3]),
        (JobFilter { kind: Some(crawl), ..of_key }, &[3]),
        (of_parent.clone(), &[6, 5]),
        (JobFilter { states: vec!["running"], ..of_parent }, &[6]),
        (JobFilter { node: Some(NodeName::new("mini-1")), ..all.clone() }, &[6]),
        (JobFilter { id_part: ends(5), ..all.clone() }, &[5]),
        (JobFilter { id_part: begins(5), ..all.clone() }, &[2, 10, 9, 8, 7, 6, 5, 4, 3, 1]),
        (JobFilter { id_part: ends(5), states: vec!["dead"], ..all.clone() }, &[]),
        (JobFilter { id_part: Some("ffff".to_owned()), ..all }, &[]),
    ];
    for (filter, expected) in cases {
        let listed = led.store.reader().list_jobs(&filter, None, 20).await.unwrap();
        assert_eq!(ids(&listed), expected.iter().copied().map(id).collect::<Vec<_>>(), "{filter:?}");
    }
}

pub(crate) async fn dead_jobs_are_counted_by_kind<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    assert!(led.store.reader().dead_by_kind().await.unwrap().is_empty());
    let crawl = KindName::new("crawl");
    let dead = |n| Job { state: JobState::Dead { at: Wall(9) }, ..job(n) };
    let of_crawl = |n| Job { kind: crawl.clone(), ..dead(n) };
    let cancelled = Job { state: JobState::Cancelled { at: Wall(9) }, ..job(5) };
    led.insert(&[&dead(1), &of_crawl(2), &of_crawl(3), &job(4), &cancelled]).await;
    let counts = led.store.reader().dead_by_kind().await.unwrap();
    assert_eq!(counts, [(job(1).kind, 1), (crawl, 2)].into());
}

pub(crate) async fn final_jobs_are_due_by_kind<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let ended = |n: u64, kind: &'static str, at: i64| Job {
        kind: KindName::new(kind),
        state: JobState::Succeeded { at: Wall(at) },
        last_outcome: Some(Outcome::Succeeded),
        token: token(n),
        ..job(n)
    };
    let all = [
        ended(1, "crawl", 10),
        ended(2, "crawl", 11),
        ended(3, "site.qa", 100),
        ended(4, "site.qa", 101),
        ended(5, "undeclared", 50),
        ended(6, "undeclared", 51),
        ended(7, "crawl", 1),
        job(8),
    ];
    led.insert(&all.iter().collect::<Vec<_>>()).await;
    // Job 7 is held by what could not be killed yet.
    led.commit(&Changes { leases_put: vec![lease(7, token(7), Stage::Unreaped)], ..Changes::default() })
        .await;

    let cutoff = |kind: &'static str, at| KindCutoff { kind: KindName::new(kind), finished_until: Wall(at) };
    let cutoffs = [cutoff("crawl", 10), cutoff("never.used", 1_000), cutoff("site.qa", 100)];
    let reader = led.store.reader();
    let mut due = reader.due_jobs(&cutoffs, Wall(50), 500).await.unwrap();
    due.sort_by_key(|job| job.id);
    assert_eq!(due, [all[0].clone(), all[2].clone(), all[4].clone()]);
    assert_eq!(reader.due_jobs(&cutoffs, Wall(50), 2).await.unwrap().len(), 2);
    assert_eq!(reader.due_jobs(&[], Wall(0), 500).await.unwrap(), []);
    assert_eq!(reader.due_jobs(&[], Wall(i64::MAX), 500).await.unwrap().len(), 6);
}

pub(crate) async fn results_are_due_the_oldest_first<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1), &job(2), &job(3)]).await;
    let put = |n, expires_at| ResultPut {
        job: id(n),
        token: token(n),
        of_wait: false,
        partial: false,
        created_at: Wall(1),
        expires_at: Wall(expires_at),
    };
    led.commit(&Changes { results_put: vec![put(1, 30), put(2, 10), put(3, 20)], ..Changes::default() })
        .await;
    let due = |n| DueResult { job: id(n), token: token(n), parent: None, workflow: None };
    let reader = led.store.reader();
    assert_eq!(reader.due_results(Wall(9), 10).await.unwrap(), []);
    assert_eq!(reader.due_results(Wall(20), 10).await.unwrap(), [due(2), due(3)]);
    assert_eq!(reader.due_results(Wall(99), 1).await.unwrap(), [due(2)]);
}

/// What final children left is due only once their parent, which may read it, is final or gone.
pub(crate) async fn what_a_live_parent_may_read_is_not_due<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let child = |n, parent| Job {
        parent: Some(id(parent)),
        state: JobState::Succeeded { at: Wall(5) },
        last_outcome: Some(Outcome::Succeeded),
        ..job(n)
    };
    let over = Job { state: JobState::Dead { at: Wall(90) }, ..job(2) };
    let children = [child(11, 1), child(12, 2), child(13, 3)];
    led.insert(&[&job(1), &over, &children[0], &children[1], &children[2]]).await;
    let put = |n| ResultPut {
        job: id(n),
        token: token(n),
        of_wait: false,
        partial: false,
        created_at: Wall(1),
        expires_at: Wall(2),
    };
    led.commit(&Changes { results_put: vec![put(11), put(12), put(13)], ..Changes::default() }).await;
    let reader = led.store.reader();
    let mut due = reader.due_jobs(&[], Wall(10), 500).await.unwrap();
    due.sort_by_key(|job| job.id);
    assert_eq!(due, children[1..]);
    let due = |n, parent| DueResult { job: id(n), token: token(n), parent: Some(id(parent)), workflow: None };
    assert_eq!(reader.due_results(Wall(9), 10).await.unwrap(), [due(12, 2), due(13, 3)]);
}

pub(crate) async fn attempts_come_in_pages<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1)]).await;
    let all: Vec<_> = (1..=5).map(|n| attempt(1, token(n), Outcome::Failed)).collect();
    led.commit(&Changes { attempts_put: all.iter().rev().cloned().collect(), ..Changes::default() }).await;
    let reader = led.store.reader();
    let mut shown = Vec::new();
    let mut after: Option<FencingToken> = None;
    loop {
        let page = reader.attempts(id(1), after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.token);
        shown.extend(page);
    }
    assert_eq!(shown, all);
}

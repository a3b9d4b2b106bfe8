//! What is set aside beside jobs: cron entries of which a firing, and workflows of which the removal cannot be stored.

use std::sync::Arc;

use tenure_scheduler::{
    Command, CronEntry, CronJob, CronName, CronPolicy, Enqueue, Fingerprint, Fleet, KindName, KindPolicy,
    MissedPolicy, Part, Producer, Reply, Selector, Shape, Submit, Tenant, WorkflowId,
};
use tenure_store::memory::Fault;
use tokio::time::timeout;

use super::{
    SOON,
    rig::{self, Rig, enqueue, job_id},
};
use crate::handle::SubmitError;

const POISON: Fault = Fault::Constraint("jobs_dedupe_held");

/// The kind `a`, and an entry that fires every second.
fn every_second() -> Fleet {
    let job = CronJob {
        payload: "".into(),
        content_type: "text/plain".into(),
        tenant: Tenant::new("default"),
        priority: None,
        labels: [].into(),
        needs: None,
        selector: Selector::default(),
        stale_after: None,
        hard_time_limit: None,
        concurrency_key: None,
    };
    let policy = CronPolicy {
        kind: KindName::new("a"),
        when: "* * * * * *".into(),
        zone: "UTC".into(),
        missed: MissedPolicy::Skip,
        jitter: std::time::Duration::ZERO,
        singleton: false,
        job,
    };
    Fleet {
        kinds: [(KindName::new("a"), KindPolicy::default())].into(),
        crons: [(CronName::new("often"), policy)].into(),
        ..Fleet::default()
    }
}

/// Waits until the only entry stands so.
async fn until_entry(rig: &Rig, level: impl Fn(&CronEntry) -> bool) -> CronEntry {
    let wait = async {
        loop {
            rig.leads().await;
            let entries = rig.handle.query(|state, _| state.crons().collect::<Vec<_>>()).await;
            if let Some(entry) = entries.ok().and_then(|entries| entries.into_iter().find(&level)) {
                return entry;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, wait).await.expect("the entry gets there in time")
}

/// Each try enqueues another job, so no job can be set aside in its place.
#[tokio::test]
async fn a_firing_that_cannot_be_stored_sets_its_entry_aside_until_it_is_resumed() {
    let rig = Rig::start().await;
    rig.store.fail_next_commit(POISON);
    assert!(matches!(rig.handle.submit(enqueue(1, "a")).await, Err(SubmitError::Broken)));
    let apply = Command::Apply { fleet: Box::new(every_second()), validate_only: false };
    rig.handle.submit(rig::bare(apply)).await.unwrap();
    rig.store.fail_next_commit(POISON);

    let aside = until_entry(&rig, |entry| entry.paused.is_some()).await;
    assert_eq!(&*aside.paused.unwrap().by, "the leader, since a firing could not be stored");
    assert_eq!(rig.handle.info().reloads, 2);
    let attention = rig.handle.query(|state, now| state.snapshot(now).attention).await.unwrap();
    assert!(attention.iter().any(|line| line.contains("often is paused by the leader")), "{attention:?}");
    rig.handle.submit(enqueue(2, "a")).await.unwrap();

    // What would free it meets a constraint too: it stays aside.
    let resume = || rig::bare(Command::ResumeCron { entry: CronName::new("often") });
    rig.store.fail_next_commit(POISON);
    assert!(matches!(rig.handle.submit(resume()).await, Err(SubmitError::Broken)));
    rig.until(|| rig.handle.info().reloads == 3).await;
    until_entry(&rig, |entry| entry.paused.is_some()).await;

    let Reply::Cron { entry, changed } = rig.handle.submit(resume()).await.unwrap() else { panic!() };
    assert!(changed && entry.paused.is_none());
    until_entry(&rig, |entry| entry.fired > aside.fired).await;
    assert_eq!(rig.handle.info().reloads, 3, "nothing keeps a leader reloading");
    rig.end().await;
}

#[tokio::test]
async fn a_workflow_that_cannot_be_removed_is_skipped() {
    let rig = Rig::start().await;
    let id = WorkflowId(job_id(1).0);
    let submit = Submit {
        id,
        producer: Producer::new("local"),
        name: None,
        fingerprint: Fingerprint([1; 32]),
        shape: Arc::new(Shape::of(Part::Chain(vec![Part::Job, Part::Job])).unwrap()),
        jobs: (0..2)
            .map(|n| Enqueue::new(id.member(n), KindName::new("a"), Tenant::new("default")))
            .collect(),
        validate_only: false,
        prior: None,
    };
    rig.handle.submit(rig::bare(Command::SubmitWorkflow(Box::new(submit)))).await.unwrap();
    let cancel = Command::CancelWorkflow { workflow: id, reason: None, prior: None };
    rig.handle.submit(rig::bare(cancel)).await.unwrap();
    let mut sweeper = rig.sweeper();
    assert_eq!(sweeper.sweep().await.unwrap(), 2, "its members");

    rig.store.fail_commits(POISON, 2);
    assert_eq!(sweeper.sweep().await.unwrap(), 0);
    rig.leads().await;
    let reloads = rig.handle.info().reloads;
    assert_eq!(reloads, 2, "with the others, and alone");
    assert_eq!(sweeper.sweep().await.unwrap(), 0, "it is not asked for again");
    assert_eq!(rig.handle.info().reloads, reloads);
    assert_eq!(rig.sweeper().sweep().await.unwrap(), 1, "the next term tries again");
    rig.end().await;
}

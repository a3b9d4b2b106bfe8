//! Terms that follow one another in one process, and what each of them leaves behind: nothing.

use std::{future::ready, path::Path};

use tenure_scheduler::{
    Changes, Command, Durable, Epoch, Fleet, Job, JobId, KindName, KindPolicy, Workflow, WorkflowId,
};
use tenure_store::{
    Beside, HeldKey, Reader, Taken,
    election::Trust,
    journal,
    memory::{Fault, Memory},
};

use super::*;
use crate::{
    Config, Stage, clock,
    handle::{Submission, SubmitError},
    leadership::Standing,
};

async fn stage(reader: Reader) -> Stage {
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let config =
        Config { listen: any, http: any, data: Path::new("in memory").to_owned(), ..Config::default() };
    let clock = Clock::new(clock::Options::default());
    let stage =
        Stage::set(&config, (reader, clock, Trust::always()), CancellationToken::new()).await.unwrap();
    stage.seed.standing.send_replace(Standing::Following { leader: None });
    stage
}

/// A command that changes a row each time.
fn declares(kind: &str) -> Submission {
    let kinds = [(KindName::new(kind), KindPolicy::default())].into();
    let fleet = Box::new(Fleet { kinds, ..Fleet::default() });
    Submission { command: Command::Apply { fleet, validate_only: false }, payload: None, more: Vec::new() }
}

#[tokio::test]
async fn a_server_leads_again_and_again_over_what_it_stored() {
    let store = Memory::new();
    let stage = stage(store.reader()).await;
    let handle = &stage.seed.handle;
    for n in 1..=20 {
        assert!(matches!(handle.submit(declares("early")).await, Err(SubmitError::NotLeader { .. })));
        let term = Term::begin(&stage.seed, store.journal()).await.unwrap();
        handle.submit(declares("kept")).await.unwrap();
        let kinds = handle.query(|state, _| state.kinds().count()).await.unwrap();
        assert_eq!((kinds, handle.info().terms, handle.info().leading), (1, n, true));
        assert!(crate::http::scrape(handle).snapshot_age.is_some());
        let ways = handle.ways().unwrap();
        assert!(term.run(ready(())).await.is_ok());
        assert!(ways.over.is_cancelled() && ways.tasks.tasks.is_empty() && ways.producers.is_closed());
        assert!(!handle.info().leading && handle.snapshot().snapshot.kinds.is_empty());
        assert_eq!(crate::http::scrape(handle).snapshot_age, None, "nothing is published");
    }
}

#[tokio::test]
async fn a_session_that_waits_for_ever_ends_with_its_term() {
    let store = Memory::new();
    let stage = stage(store.reader()).await;
    let term = Term::begin(&stage.seed, store.journal()).await.unwrap();
    let ways = stage.seed.handle.ways().unwrap();
    ways.tasks.start(std::future::pending());
    let begun = stage.seed.clock.steady();
    assert!(term.run(ready(())).await.is_ok());
    assert!(ways.tasks.tasks.is_empty());
    assert!(stage.seed.clock.steady() - begun >= ENDS_WITHIN, "it had a moment to end by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_holds_its_thread_is_told() {
    let store = Memory::new();
    let stage = stage(store.reader()).await;
    let term = Term::begin(&stage.seed, store.journal()).await.unwrap();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    stage.seed.handle.ways().unwrap().tasks.start(async {
        begun.send(()).unwrap();
        std::thread::sleep(Duration::from_secs(3)); // longer than a term may take to end
    });
    has_begun.await.unwrap();
    assert!(matches!(term.run(ready(())).await, Err(Overdue)));
}

#[tokio::test]
async fn a_term_ends_when_its_driver_is_deposed() {
    let store = Memory::new();
    let stage = stage(store.reader()).await;
    let term = Term::begin(&stage.seed, store.journal()).await.unwrap();
    store.fail_next_commit(Fault::Deposed);
    let (ended, answer) =
        tokio::join!(term.run(std::future::pending()), stage.seed.handle.submit(declares("lost")));
    assert!(matches!(ended, Ok(Err(tasks::Error::Failed { task: "driver", .. }))), "{ended:?}");
    assert!(matches!(answer, Err(SubmitError::StoreUnavailable { .. })), "{answer:?}");
    assert!(matches!(stage.seed.handle.ways(), Err(SubmitError::NotLeader { leader: None })));
}

/// A journal that panics at its first commit.
struct Panics;

impl Journal for Panics {
    async fn takeover(&mut self, _: Epoch) -> Result<Taken, journal::Error> {
        Ok(Taken { epoch: Epoch(1), durable: Durable::default() })
    }

    async fn prior(&mut self, _: &[JobId], _: &[HeldKey]) -> Result<Vec<Job>, journal::Error> {
        Ok(Vec::new())
    }

    async fn prior_workflows(&mut self, _: &[WorkflowId]) -> Result<Vec<Workflow>, journal::Error> {
        Ok(Vec::new())
    }

    async fn commit(&mut self, _: Epoch, _: &Changes, _: &Beside) -> Result<(), journal::Error> {
        panic!("told by a test")
    }

    async fn close(self) {}
}

#[tokio::test]
async fn a_panic_of_the_driver_ends_its_term_and_the_next_one_works() {
    let store = Memory::new();
    let stage = stage(store.reader()).await;
    let handle = &stage.seed.handle;
    let term = Term::begin(&stage.seed, Panics).await.unwrap();
    let (ended, answer) = tokio::join!(term.run(std::future::pending()), handle.submit(declares("kept")));
    assert!(matches!(ended, Ok(Err(tasks::Error::Panicked(_)))), "{ended:?}");
    assert!(matches!(answer, Err(SubmitError::StoreUnavailable { .. })), "{answer:?}");
    let term = Term::begin(&stage.seed, store.journal()).await.unwrap();
    handle.submit(declares("kept")).await.unwrap();
    assert!(term.run(ready(())).await.is_ok());
}

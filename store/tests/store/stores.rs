//! The stores under test, behind one trait.

use std::{collections::BTreeMap, fmt::Debug};

use tempfile::TempDir;
use tenure_scheduler::{Changes, Durable, Epoch, Job, JobChange, JobId};
use tenure_store::{Beside, Journal, Payload, Reader, ResultBytes, Taken, journal, memory, postgres, sqlite};

/// A store under test. It is empty at first, and gone when it is dropped.
pub(crate) trait TestStore: Sized {
    type Journal: Journal;

    async fn new() -> Self;
    fn journal(&mut self) -> &mut Self::Journal;
    fn reader(&self) -> &Reader;
}

/// A store in memory.
pub(crate) struct MemoryStore {
    journal: memory::MemoryJournal,
    reader: Reader,
}

impl TestStore for MemoryStore {
    type Journal = memory::MemoryJournal;

    async fn new() -> Self {
        let store = memory::Memory::new();
        Self { journal: store.journal(), reader: store.reader() }
    }

    fn journal(&mut self) -> &mut Self::Journal {
        &mut self.journal
    }

    fn reader(&self) -> &Reader {
        &self.reader
    }
}

/// A store in a SQLite file.
pub(crate) struct SqliteStore {
    journal: sqlite::SqliteJournal,
    reader: Reader,
    _directory: TempDir,
}

impl TestStore for SqliteStore {
    type Journal = sqlite::SqliteJournal;

    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let (journal, reader) = sqlite::open(&sqlite::Options::new(directory.path())).await.unwrap();
        Self { journal, reader, _directory: directory }
    }

    fn journal(&mut self) -> &mut Self::Journal {
        &mut self.journal
    }

    fn reader(&self) -> &Reader {
        &self.reader
    }
}

/// A store in a Postgres database.
pub(crate) struct PostgresStore {
    journal: postgres::PostgresJournal,
    reader: Reader,
}

impl TestStore for PostgresStore {
    type Journal = postgres::PostgresJournal;

    async fn new() -> Self {
        let url = tenure_test_postgres::shared().unwrap().database().unwrap();
        let options = postgres::Options { migrate: true, ..postgres::Options::new(url.parse().unwrap()) };
        let (journal, reader) = postgres::open(&options).await.unwrap();
        Self { journal, reader }
    }

    fn journal(&mut self) -> &mut Self::Journal {
        &mut self.journal
    }

    fn reader(&self) -> &Reader {
        &self.reader
    }
}

/// A store with a leader: what most cases want.
pub(crate) struct Led<S> {
    pub(crate) store: S,
    pub(crate) epoch: Epoch,
}

impl<S: TestStore> Led<S> {
    pub(crate) async fn new() -> Self {
        let mut store = S::new().await;
        let Taken { epoch, .. } = store.journal().takeover(Epoch(0)).await.unwrap();
        Self { store, epoch }
    }

    /// Commits, with a payload and a result for everything that wants one.
    pub(crate) async fn try_commit(&mut self, changes: &Changes) -> Result<(), journal::Error> {
        self.store.journal().commit(self.epoch, changes, &bytes_for(changes)).await
    }

    pub(crate) async fn commit(&mut self, changes: &Changes) {
        self.try_commit(changes).await.unwrap();
    }

    /// Inserts jobs in one turn.
    pub(crate) async fn insert(&mut self, jobs: &[&Job]) {
        let jobs = jobs.iter().map(|job| JobChange::Insert(Box::new((*job).clone()))).collect();
        self.commit(&Changes { jobs, ..Changes::default() }).await;
    }

    /// Takes over from itself.
    pub(crate) async fn reload(&mut self) -> Durable {
        let taken = self.store.journal().takeover(Epoch(0)).await.unwrap();
        assert_eq!(taken.epoch, Epoch(self.epoch.0 + 1));
        self.epoch = taken.epoch;
        taken.durable
    }

    pub(crate) async fn read(&self, id: JobId) -> Option<Job> {
        self.store.reader().get_job(id).await.unwrap()
    }

    /// No second wall may be breached at the end of a case.
    pub(crate) async fn assert_sound(&self) {
        assert_eq!(self.store.reader().violations().await.unwrap(), []);
    }
}

/// Payloads and results for everything in a turn that wants them.
pub(crate) fn bytes_for(changes: &Changes) -> Beside {
    let mut beside = Beside::default();
    for change in &changes.jobs {
        if let JobChange::Insert(job) = change {
            beside.payloads.insert(job.id, payload_of(job));
        }
    }
    for put in &changes.results_put {
        let data = format!("result of {} {}", put.job, put.token).into();
        beside.results.insert(
            (put.job, put.token),
            ResultBytes { data, content_type: "text/plain".into(), object: None },
        );
    }
    for put in &changes.checkpoints_put {
        let data = format!("checkpoint of {} {}", put.job, put.token).into();
        beside.checkpoints.insert((put.job, put.token), data);
    }
    for new in &changes.deliveries_new {
        let body = format!("{{\"of\":\"{} 'ü' \\u0000\"}}", new.delivery.id);
        beside.bodies.insert(new.delivery.id, body.into());
    }
    beside
}

pub(crate) fn payload_of(job: &Job) -> Payload {
    let byte = job.id.0.as_bytes().last().copied().unwrap();
    let data = vec![byte; usize::try_from(job.payload_size).unwrap()].into();
    Payload { data, content_type: "application/octet-stream".into() }
}

/// Compares what is stored, and shows only what differs.
pub(crate) fn assert_same(loaded: &Durable, expected: &Durable, context: &str) {
    differ("kinds", &loaded.kinds, &expected.kinds, context);
    differ("slots", &loaded.slots, &expected.slots, context);
    differ("nodes", &loaded.nodes, &expected.nodes, context);
    for id in loaded.jobs.keys().chain(expected.jobs.keys()) {
        assert_eq!(loaded.jobs.get(id), expected.jobs.get(id), "{context}: jobs {id:?}");
    }
    differ("webhooks", &loaded.webhooks, &expected.webhooks, context);
    differ("deliveries", &loaded.deliveries, &expected.deliveries, context);
    differ("leases", &loaded.leases, &expected.leases, context);
    differ("workflows", &loaded.workflows, &expected.workflows, context);
    differ("classes", &loaded.classes, &expected.classes, context);
}

fn differ<K: Ord + Debug, V: PartialEq + Debug>(
    table: &str,
    loaded: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
    context: &str,
) {
    for key in loaded.keys().chain(expected.keys()) {
        assert_eq!(loaded.get(key), expected.get(key), "{context}: {table} {key:?}");
    }
}

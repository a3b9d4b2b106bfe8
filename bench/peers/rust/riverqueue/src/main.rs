//! River's client for Rust.

use std::sync::Mutex;
use std::time::Duration;

use measure::{About, CONNECTIONS, Peer, WORKER_CONNECTIONS, Work};
use riverqueue::migrate::PostgresMigrator;
use riverqueue::sqlx::PgPool;
use riverqueue::sqlx::postgres::PgPoolOptions;
use riverqueue::{
    BoxError, Client, FETCH_COOLDOWN_MIN, Job, JobArgs, QueueConfig, WorkContext, WorkOutcome, Workers,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "bench")]
struct Bench {
    work: Work,
}

async fn bench(_: WorkContext, job: Job<Bench>) -> Result<WorkOutcome, BoxError> {
    measure::ended(&job.args.work);
    Ok(WorkOutcome::Complete)
}

struct River {
    pool: PgPool,
    producer: Client,
    running: Mutex<Option<riverqueue::RunHandle>>,
}

impl Peer for River {
    async fn enqueue(&self, work: Work) -> anyhow::Result<()> {
        self.producer.insert(Bench { work }).await?;
        Ok(())
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> anyhow::Result<()> {
        self.producer.insert_many(work.into_iter().map(|work| Bench { work })).await?;
        Ok(())
    }

    async fn waits(&self) -> anyhow::Result<bool> {
        const WAITS: &str =
            "select exists (select 1 from river_job where state in ('available', 'running', 'retryable'))";
        Ok(riverqueue::sqlx::query_scalar(WAITS).fetch_one(&self.pool).await?)
    }

    async fn clear(&self) -> anyhow::Result<()> {
        riverqueue::sqlx::query("truncate river_job").execute(&self.pool).await?;
        Ok(())
    }

    async fn start(&self) -> anyhow::Result<()> {
        let mut workers = Workers::new();
        workers.add_fn(bench)?;
        let pool = PgPoolOptions::new().max_connections(WORKER_CONNECTIONS).connect(&measure::url()?).await?;
        let queue = QueueConfig::new(1000).with_fetch_cooldown(FETCH_COOLDOWN_MIN);
        let client = Client::builder(pool).workers(workers).queue("default", queue).build()?;
        let running = client.start()?;
        if let Ok(mut kept) = self.running.lock() {
            *kept = Some(running);
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(Duration::from_secs(60))
        .connect(&measure::url()?)
        .await?;
    PostgresMigrator::new(pool.clone()).migrate_up().await?;
    let producer = Client::builder(pool.clone()).build()?;
    let about = About {
        peer: "riverqueue 0.5.0",
        about: "1,000 workers, fetched again after 1 ms; history kept; an end needs the state running",
        fenced: false,
        most: None,
    };
    measure::run(River { pool, producer, running: Mutex::new(None) }, about).await
}

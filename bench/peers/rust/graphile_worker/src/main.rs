//! graphile_worker, the one in Rust.

use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, WorkerContext, WorkerOptions, WorkerUtils,
};
use graphile_worker_task_handler::TaskHandler;
use measure::{About, CONNECTIONS, Peer, WORKER_CONNECTIONS, Work};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

/// Jobs at once.
const CONCURRENCY: usize = 24;
/// Jobs that the worker takes at once.
const LOCAL: usize = 500;
/// How long ends are gathered.
const GATHER: Duration = Duration::from_millis(1);

#[derive(Clone, Serialize, Deserialize)]
struct Bench {
    work: Work,
}

impl TaskHandler for Bench {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        measure::ended(&self.work);
        Ok::<(), String>(())
    }
}

struct Graphile {
    pool: PgPool,
    utils: WorkerUtils,
}

impl Peer for Graphile {
    async fn enqueue(&self, work: Work) -> anyhow::Result<()> {
        self.utils.add_job(Bench { work }, JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> anyhow::Result<()> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = work.into_iter().map(|work| (Bench { work }, &spec)).collect();
        self.utils.add_jobs::<Bench>(&jobs).await?;
        Ok(())
    }

    async fn waits(&self) -> anyhow::Result<bool> {
        const WAITS: &str = "select exists (select 1 from graphile_worker._private_jobs)";
        Ok(sqlx::query_scalar(WAITS).fetch_one(&self.pool).await?)
    }

    async fn clear(&self) -> anyhow::Result<()> {
        sqlx::query("delete from graphile_worker._private_jobs").execute(&self.pool).await?;
        Ok(())
    }

    async fn start(&self) -> anyhow::Result<()> {
        let pool = PgPoolOptions::new().max_connections(WORKER_CONNECTIONS).connect(&measure::url()?).await?;
        let worker = options(pool)
            .concurrency(CONCURRENCY)
            .local_queue(LocalQueueConfig::default().with_size(LOCAL))
            .complete_job_batch_delay(GATHER)
            .init()
            .await?;
        tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("the worker ended: {error}");
            }
        });
        Ok(())
    }
}

fn options(pool: PgPool) -> WorkerOptions {
    WorkerOptions::default().schema("graphile_worker").define_job::<Bench>().pg_pool(pool)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&measure::url()?).await?;
    let utils = options(pool.clone()).init().await?.create_utils();
    let about = About {
        peer: "graphile_worker 0.14.1",
        about: "local queue 500, 24 jobs at once, ends gathered for 1 ms; ended jobs are deleted",
        fenced: false,
        most: None,
    };
    measure::run(Graphile { pool, utils }, about).await
}

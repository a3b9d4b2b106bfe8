//! awa.

use std::sync::Mutex;
use std::time::Duration;

use awa::model::insert::params_with;
use awa::{Client, InsertOpts, JobArgs, JobResult, JobState, QueueConfig};
use measure::{About, CONNECTIONS, Peer, WORKER_CONNECTIONS, Work};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::runtime::Handle;

const QUEUE: &str = "bench";
/// Between two looks of the worker, if nobody told it.
const POLL: Duration = Duration::from_millis(10);

#[derive(Serialize, Deserialize, JobArgs)]
struct Bench {
    work: Work,
}

struct Awa {
    pool: PgPool,
    running: Mutex<Option<Client>>,
}

fn options() -> InsertOpts {
    InsertOpts { queue: QUEUE.into(), ..InsertOpts::default() }
}

impl Peer for Awa {
    async fn enqueue(&self, work: Work) -> anyhow::Result<()> {
        awa::insert_with(&self.pool, &Bench { work }, options()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> anyhow::Result<()> {
        let jobs: Result<Vec<_>, _> =
            work.into_iter().map(|work| params_with(&Bench { work }, options())).collect();
        awa::insert_many_copy_from_pool(&self.pool, &jobs?).await?;
        Ok(())
    }

    async fn waits(&self) -> anyhow::Result<bool> {
        let counts = awa::admin::state_counts(&self.pool).await?;
        let live = [JobState::Available, JobState::Running, JobState::Retryable, JobState::Scheduled];
        Ok(live.iter().any(|state| counts.get(state).is_some_and(|count| *count > 0)))
    }

    async fn clear(&self) -> anyhow::Result<()> {
        // Its storage has no single table to empty.
        sqlx::query("drop schema awa cascade").execute(&self.pool).await?;
        // Its future stays on one thread.
        let (runtime, pool) = (Handle::current(), self.pool.clone());
        tokio::task::spawn_blocking(move || runtime.block_on(awa::migrations::run(&pool))).await??;
        Ok(())
    }

    async fn start(&self) -> anyhow::Result<()> {
        let pool = PgPoolOptions::new().max_connections(WORKER_CONNECTIONS).connect(&measure::url()?).await?;
        let queue = QueueConfig { max_workers: 500, poll_interval: POLL, ..QueueConfig::default() };
        let client = Client::builder(pool)
            .queue(QUEUE, queue)
            .register::<Bench, _, _>(|args, _| async move {
                measure::ended(&args.work);
                Ok(JobResult::Completed)
            })
            .build()?;
        client.start().await?;
        if let Ok(mut kept) = self.running.lock() {
            *kept = Some(client);
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&measure::url()?).await?;
    awa::migrations::run(&pool).await?;
    let about = About {
        peer: "awa 0.6.9",
        about: "500 workers, batches by COPY; an end needs the run of its lease",
        fenced: true,
        most: None,
    };
    measure::run(Awa { pool, running: Mutex::new(None) }, about).await
}

//! underway.

use std::sync::Arc;

use measure::{About, CONNECTIONS, Peer, WORKER_CONNECTIONS, Work};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres, Transaction};
use underway::{Queue, Task, Worker};

/// Jobs at once: no more than it has connections.
const AT_ONCE: usize = 12;
/// It ends a few dozen jobs a second.
const MOST: u64 = 500;

struct Bench;

impl Task for Bench {
    type Input = Work;
    type Output = ();

    async fn execute(&self, _: Transaction<'_, Postgres>, work: Work) -> underway::task::Result<()> {
        measure::ended(&work);
        Ok(())
    }
}

struct Underway {
    pool: PgPool,
    queue: Queue<Bench>,
}

async fn queue(pool: &PgPool) -> anyhow::Result<Queue<Bench>> {
    Ok(Queue::builder().name("bench").pool(pool.clone()).build().await?)
}

impl Peer for Underway {
    async fn enqueue(&self, work: Work) -> anyhow::Result<()> {
        self.queue.enqueue(&self.pool, &Bench, &work).await?;
        Ok(())
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> anyhow::Result<()> {
        self.queue.enqueue_multi(&self.pool, &Bench, &work).await?;
        Ok(())
    }

    async fn waits(&self) -> anyhow::Result<bool> {
        const WAITS: &str =
            "select exists (select 1 from underway.task where state in ('pending', 'in_progress'))";
        Ok(sqlx::query_scalar(WAITS).fetch_one(&self.pool).await?)
    }

    async fn clear(&self) -> anyhow::Result<()> {
        sqlx::query("truncate underway.task cascade").execute(&self.pool).await?;
        Ok(())
    }

    async fn start(&self) -> anyhow::Result<()> {
        let pool = PgPoolOptions::new().max_connections(WORKER_CONNECTIONS).connect(&measure::url()?).await?;
        let mut worker = Worker::new(Arc::new(queue(&pool).await?), Bench);
        worker.set_concurrency_limit(AT_ONCE);
        tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("the worker ended: {error}");
            }
        });
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&measure::url()?).await?;
    underway::run_migrations(&pool).await?;
    let queue = queue(&pool).await?;
    let about = About {
        peer: "underway 0.2.0",
        about: "12 jobs at once; history kept; an advisory lock for each job that runs",
        fenced: true,
        most: Some(MOST),
    };
    measure::run(Underway { pool, queue }, about).await
}

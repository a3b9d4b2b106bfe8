//! `pinned`: somebody holds a snapshot open for minutes, so that no row that died since can be cleared away; Postgres only.
//!
//! Two databases live through the same number of jobs first, one of them under the snapshot; then both are measured in turn.

use anyhow::{Context as _, ensure};
use sqlx::{Connection as _, PgConnection, Row as _};
use tenure_tests::clock::Moment;

use super::Found;
use super::lifecycle::BATCHES;
use super::sides::{self, Side, Words};
use crate::agents::Fleet;
use crate::args::{Amount, Args, Store};
use crate::bed::{Bed, Place};
use crate::figure::Figure;
use crate::producers::Load;
use crate::report::say;
use crate::rig::Rig;

/// Jobs between two looks at the clock.
const STRIDE: u64 = 5_000;
/// Of the warm-up, that there is something to see in the snapshot.
const SNAPSHOT: &str = "
begin isolation level repeatable read;
select count(*) from (select 1 from jobs limit 1) as seen";
/// Whether it still holds back what may be cleared away: how many transactions began after it.
const AGE: &str = "select age(backend_xmin)::bigint from pg_stat_activity where pid = pg_backend_pid()";
/// Dead rows that are still there.
const DEAD: &str = "select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables";

pub(super) async fn measure(bed: &Bed, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let (callers, batch) = BATCHES;
    let load = Load::new(callers, batch, args)?;
    let fleet = Fleet::of(args.agents);
    let store = Store::Postgres;
    let mut free = Side::new(Rig::start(bed, store).await?, &fleet, load).await?;
    let mut pinned = Side::new(Rig::start(bed, store).await?, &fleet, load).await?;
    pinned.live(args.warm_up()).await?;
    free.live(Amount::Jobs(pinned.all.jobs)).await?;
    let Place::Postgres(url) = pinned.rig.place().clone() else { anyhow::bail!("no Postgres") };
    let mut snapshot = PgConnection::connect(&url).await.context("no connection for the snapshot")?;
    sqlx::raw_sql(SNAPSHOT).execute(&mut snapshot).await?;
    let held = Moment::now();
    say(&format!("a snapshot, held for {} s …", args.pinned));
    let stride = match args.amount() {
        Amount::Jobs(jobs) => jobs,
        Amount::For(_) => STRIDE,
    };
    while held.elapsed().as_secs() < args.pinned {
        // Both age alike: so many jobs under the snapshot, as many without one.
        pinned.live(Amount::Jobs(stride)).await?;
        free.live(Amount::Jobs(stride)).await?;
    }
    let words = Words {
        scenario: "pinned",
        free: "lifecycle, no snapshot",
        burdened: "lifecycle under a snapshot",
        least: 0.8,
        text: "≥ 80 % of no snapshot",
    };
    Box::pin(sides::compare(&mut free, &mut pinned, args, words, found)).await?;
    let age: i64 = sqlx::query(AGE).fetch_one(&mut snapshot).await?.try_get(0)?;
    ensure!(age > 0, "the snapshot held nothing back");
    let length = held.elapsed().as_secs_f64();
    sqlx::raw_sql("rollback").execute(&mut snapshot).await?;
    let dead: i64 = sqlx::query(DEAD).fetch_one(&mut snapshot).await?.try_get(0)?;
    snapshot.close().await?;
    let figure = |name: &str, unit, value| Figure::new("pinned", Some(store), name, unit, vec![value]);
    #[expect(clippy::cast_precision_loss, reason = "a count of rows is far below 2^52")]
    let dead = dead as f64;
    found.figures.push(figure("the snapshot was held for", "s", length));
    found.figures.push(figure("dead rows behind it at its end", "rows", dead));
    found.checked(free.finish("pinned", 0).await?);
    found.checked(pinned.finish("pinned", 0).await?);
    Ok(())
}

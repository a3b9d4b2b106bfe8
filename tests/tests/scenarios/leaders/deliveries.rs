//! A leader that dies or freezes with deliveries of a webhook under way: the next one makes them.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tenure_client::NewJob;
use tenure_tests::scenario;
use tenure_tests::wait::{PATIENCE, level, until};

use super::{Pair, TAKEOVER, plan};
use crate::webhooks::receiver::{Receiver, Told};
use crate::webhooks::{SECRET, all_arrived, told};

/// Each ends without having run, so that nothing but its webhook is left of it.
const JOBS: usize = 6;

/// Commits ends, lets their deliveries begin, sends the leader a signal, and looks at what arrives.
async fn the_next_leader_delivers(signal: Signal) -> anyhow::Result<()> {
    let kept = tempfile::tempdir()?;
    let receiver = Receiver::start(kept.path()).await?;
    let plan = plan().server_file(&receiver.server_file(true, &[("ci", SECRET)])?);
    scenario(plan, async |fleet| {
        let mut pair = Pair::start(fleet).await?;
        let file = format!("{}\n{}", fleet.plan().fleet_file(), receiver.webhook("ci", "/hangs", ""));
        pair.client.apply(&file, false).await?;
        let mut jobs = BTreeSet::new();
        pair.client.cordon("n1").await?;
        for _ in 0..JOBS {
            let job = pair.client.enqueue(&NewJob::new("shell.task")).await?.job.id;
            pair.client.cancel(&job, "").await?;
            jobs.insert(job);
        }
        // They are committed, the receiver has been told of one at least, and has answered none.
        let before = told(&receiver, "/hangs", 1).await?;
        let epoch = pair.leader.info().await.map_err(anyhow::Error::msg)?.epoch;
        pair.leader.process.signal(signal)?;
        receiver.mend();
        pair.other.leads(TAKEOVER * 2).await?;
        pair.swap();
        let info = pair.leader.info().await.map_err(anyhow::Error::msg)?;
        ensure!(info.epoch > epoch, "{info:?}");
        all_arrived(&pair.client).await?;

        // It comes back while all of them have arrived, or another one does.
        if signal == Signal::STOP {
            pair.other.process.signal(Signal::CONT)?;
        } else {
            pair.other.process.ended(PATIENCE).await?;
            pair.other = pair.next(fleet).await?;
        }
        pair.other.follows(&pair.leader).await?;
        all_arrived(&pair.client).await?;

        let all = receiver.told("/hangs");
        let ids = |told: &[Told]| told.iter().map(|told| told.id().to_owned()).collect::<BTreeSet<_>>();
        ensure!(ids(&all).len() == JOBS, "each has one id over all tries: {:?}", ids(&all));
        ensure!(ids(&before).is_subset(&ids(&all)), "{before:?}");
        let under_way = ids(&before);
        for told in &all {
            ensure!(told.is_signed_by(SECRET), "{told:?}");
            let again: Vec<&Told> = all.iter().filter(|other| other.id() == told.id()).collect();
            ensure!(again.iter().all(|other| other.body == told.body), "{again:?}");
            // What nobody has answered is told again, by the next leader.
            ensure!(again.len() > 1 || !under_way.contains(told.id()), "{again:?}");
        }
        let of: BTreeSet<String> =
            ids(&all).iter().filter_map(|id| id.split('_').next()).map(str::to_owned).collect();
        ensure!(of == jobs, "{of:?}");
        let webhook = pair.client.webhooks().await?.pop().context("a webhook")?;
        ensure!(webhook.waiting == 0, "{webhook:?}");
        pair.client.uncordon("n1").await?;
        until("the agent is there", PATIENCE, async || {
            let info = pair.leader.info().await?;
            level(info.sessions == 1, || format!("{info:?}"))
        })
        .await?;
        pair.finish(fleet).await
    })
    .await
}

#[tokio::test]
async fn what_is_under_way_to_a_webhook_when_its_leader_is_killed_arrives_under_the_same_id()
-> anyhow::Result<()> {
    the_next_leader_delivers(Signal::KILL).await
}

#[tokio::test]
async fn what_is_under_way_to_a_webhook_when_its_leader_freezes_arrives_under_the_same_id()
-> anyhow::Result<()> {
    the_next_leader_delivers(Signal::STOP).await
}

//! Webhooks: a receiver is told of every end that it wants to hear of, whoever fails meanwhile, and nobody else is reached.

pub(crate) mod receiver;

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{Delivery, DeliveryState, Webhook};
use tenure_client::{Client, NewJob};
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};

use self::receiver::{Receiver, Told};

/// What signs; a receiver has the same.
const SECRET: &[u8] = b"32 bytes that nobody else knows!";

fn plan(server_file: &str) -> Plan {
    Plan::new().kind(KindPlan::new("docs")).kind(KindPlan::new("other")).server_file(server_file)
}

/// Applies the plan's fleet file with these webhooks.
async fn declare(fleet: &Fleet, webhooks: &str) -> anyhow::Result<()> {
    let text = format!("{}\n{webhooks}", fleet.plan().fleet_file());
    fleet.client().apply(&text, false).await?;
    Ok(())
}

/// A job that ends without a node.
async fn end_one(client: &Client, kind: &str) -> anyhow::Result<String> {
    let enqueued = client.enqueue(&NewJob::new(kind)).await?;
    client.cancel(&enqueued.job.id, "").await?;
    Ok(enqueued.job.id)
}

/// Waits until a path was told so much.
async fn told(receiver: &Receiver, path: &str, times: usize) -> anyhow::Result<Vec<Told>> {
    until(&format!("{path} is told {times} times"), PATIENCE * 2, async || {
        let told = receiver.told(path);
        let count = told.len();
        if count >= times { Ok(told) } else { Err(format!("{count} times")) }
    })
    .await
}

/// Waits until nothing waits for any webhook.
async fn all_arrived(client: &Client) -> anyhow::Result<()> {
    until("everything arrives", PATIENCE, async || {
        let left = deliveries(client).await?;
        level(left.is_empty(), || format!("{left:?}"))
    })
    .await
}

async fn deliveries(client: &Client) -> Result<Vec<Delivery>, String> {
    let left = client.deliveries(None, DeliveryState::Unspecified, 1000).await;
    left.map_err(|error| error.to_string())
}

async fn webhook(client: &Client, name: &str) -> anyhow::Result<Webhook> {
    let mut all = client.webhooks().await?.into_iter();
    all.find(|webhook| webhook.name == name).context("a declared webhook")
}

#[tokio::test]
async fn a_receiver_that_fails_three_times_is_told_the_same_at_the_fourth() -> anyhow::Result<()> {
    let kept = tempfile::tempdir()?;
    let receiver = Receiver::start(kept.path()).await?;
    let plan = plan(&receiver.server_file(true, &[("ci", SECRET)])?).node(NodePlan::new("n1"));
    scenario(plan, async |fleet| {
        declare(fleet, &receiver.webhook("ci", "/fails-thrice", "kinds = [\"docs\"]")).await?;
        // Of this one nobody wants to hear.
        let other = fleet.enqueue("other", &Script::new()).await?;
        let job = fleet.enqueue("docs", &Script::new()).await?;
        fleet.all_succeed(&[other.clone(), job.clone()], PATIENCE).await?;
        let told = told(&receiver, "/fails-thrice", 4).await?;
        all_arrived(fleet.client()).await?;
        let first = told.first().context("one")?;
        for told in &told {
            ensure!(told.id() == first.id() && told.body == first.body, "a try differs: {told:?}");
            ensure!(told.is_signed_by(SECRET), "{told:?}");
            ensure!(!told.is_signed_by(b"another secret of that length..."), "anything would do");
        }
        ensure!(first.id().starts_with(&job), "{first:?}");
        let body: serde_json::Value = serde_json::from_str(&first.body)?;
        let fields = [&body["type"], &body["data"]["id"], &body["data"]["state"], &body["data"]["kind"]];
        let wanted = ["job.succeeded", &job, "JOB_STATE_SUCCEEDED", "docs"];
        ensure!(fields.iter().zip(wanted).all(|(field, want)| field.as_str() == Some(want)), "{body}");
        ensure!(body["data"].get("payload").is_none() && body["data"].get("result").is_none(), "{body}");
        ensure!(!receiver.told("/fails-thrice").iter().any(|told| told.body.contains(&other)), "unasked");
        let labels = "outcome=\"delivered\",webhook=\"ci\"";
        let arrived = fleet.metric("tenure_webhook_deliveries_total", labels).await?;
        ensure!(arrived == 1.0, "{arrived} arrived");
        // Neither what is sent nor where to is in the log, nor what the receiver answered.
        let log = fleet.server()?.log();
        ensure!(!log.contains("fails-thrice") && !log.contains("whsec_"), "the log tells too much");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_was_committed_before_a_kill_is_delivered_after_it_under_the_same_id() -> anyhow::Result<()> {
    let kept = tempfile::tempdir()?;
    let receiver = Receiver::start(kept.path()).await?;
    scenario(plan(&receiver.server_file(true, &[("ci", SECRET)])?), async |fleet| {
        declare(fleet, &receiver.webhook("ci", "/hangs", "")).await?;
        let mut jobs = BTreeSet::new();
        for _ in 0..6 {
            jobs.insert(end_one(fleet.client(), "docs").await?);
        }
        // It is committed, is on its way, and has not arrived: nobody has answered.
        let before = told(&receiver, "/hangs", 1).await?;
        fleet.kill_server().await?;
        receiver.mend();
        fleet.start_server().await?;
        all_arrived(fleet.client()).await?;
        let after = receiver.told("/hangs");
        let ids = |told: &[Told]| told.iter().map(|told| told.id().to_owned()).collect::<BTreeSet<_>>();
        ensure!(ids(&after).len() == jobs.len(), "each has one id over all tries: {:?}", ids(&after));
        ensure!(ids(&before).is_subset(&ids(&after)), "{before:?}");
        for told in &after {
            let again: Vec<&Told> = after.iter().filter(|other| other.id() == told.id()).collect();
            ensure!(again.iter().all(|other| other.body == told.body), "{again:?}");
        }
        let of: BTreeSet<String> =
            ids(&after).iter().filter_map(|id| id.split('_').next()).map(str::to_owned).collect();
        ensure!(of == jobs, "{of:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_receiver_that_hangs_delays_no_other() -> anyhow::Result<()> {
    let kept = tempfile::tempdir()?;
    let receiver = Receiver::start(kept.path()).await?;
    let secrets: [(&str, &[u8]); 2] = [("slow", SECRET), ("quick", SECRET)];
    scenario(plan(&receiver.server_file(true, &secrets)?), async |fleet| {
        let webhooks = receiver.webhook("slow", "/hangs", "") + &receiver.webhook("quick", "/quick", "");
        declare(fleet, &webhooks).await?;
        for _ in 0..20 {
            end_one(fleet.client(), "docs").await?;
        }
        // Were they one behind the other, this would take five times ten seconds.
        told(&receiver, "/quick", 20).await?;
        let slow = webhook(fleet.client(), "slow").await?;
        ensure!(slow.waiting == 20, "none of them has arrived: {slow:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_address_that_is_not_opened_is_never_reached() -> anyhow::Result<()> {
    let kept = tempfile::tempdir()?;
    let receiver = Receiver::start(kept.path()).await?;
    let secrets: [(&str, &[u8]); 3] = [("name", SECRET), ("address", SECRET), ("mapped", SECRET)];
    scenario(plan(&receiver.server_file(false, &secrets)?), async |fleet| {
        let port = receiver.port;
        let to = |name: &str, host: &str| format!("[webhooks.{name}]\nurl = \"https://{host}:{port}/\"\n");
        let webhooks =
            to("name", "localhost") + &to("address", "127.1") + &to("mapped", "[::ffff:127.0.0.1]");
        declare(fleet, &webhooks).await?;
        end_one(fleet.client(), "docs").await?;
        let left = until("each is tried", PATIENCE, async || {
            let left = deliveries(fleet.client()).await?;
            let tried = left.iter().filter(|delivery| delivery.tries > 0).count();
            if tried == 3 { Ok(left) } else { Err(format!("{left:?}")) }
        });
        for delivery in left.await? {
            let closed = ["loopback", "in disguise"].iter().any(|why| delivery.error.contains(why));
            ensure!(closed, "{delivery:?}");
        }
        ensure!(receiver.connections() == 0, "somebody connected");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn operators_see_what_has_not_arrived_and_try_again() -> anyhow::Result<()> {
    let kept = tempfile::tempdir()?;
    let receiver = Receiver::start(kept.path()).await?;
    let secrets: [(&str, &[u8]); 2] = [("gone", SECRET), ("moved", SECRET)];
    scenario(plan(&receiver.server_file(true, &secrets)?), async |fleet| {
        let webhooks = receiver.webhook("gone", "/gone", "") + &receiver.webhook("moved", "/moved", "");
        declare(fleet, &webhooks).await?;
        let job = end_one(fleet.client(), "docs").await?;
        until("the receiver says that it is gone", PATIENCE, async || {
            let gone = webhook(fleet.client(), "gone").await.map_err(|error| error.to_string())?;
            level(gone.gone_time.is_some(), || format!("{gone:?}"))
        })
        .await?;
        let list = fleet.cli(&["webhook", "list"]).await?;
        ensure!(list.stdout.contains("gone (410)"), "{list:?}");
        let left = deliveries(fleet.client()).await.map_err(anyhow::Error::msg)?;
        let moved = left.iter().find(|delivery| delivery.webhook == "moved").context("one waits")?.id.clone();
        told(&receiver, "/moved", 1).await?;
        let table = until("the first try has ended", PATIENCE, async || {
            let table = fleet.cli(&["webhook", "deliveries", "moved"]).await.map_err(|e| e.to_string())?;
            if table.stdout.contains("status 302") { Ok(table) } else { Err(format!("{table:?}")) }
        });
        ensure!(table.await?.stdout.contains(&moved), "the id that the receiver gets");
        ensure!(receiver.told("/elsewhere").is_empty(), "a redirect was followed");
        let shown = fleet.cli(&["webhook", "show", &moved]).await?;
        ensure!(shown.stdout.contains(&job) && shown.stdout.contains("job.cancelled"), "{shown:?}");
        let unknown = fleet.cli(&["webhook", "show", "test_1"]).await?;
        ensure!(unknown.code == 3, "{unknown:?}");
        receiver.mend();
        for verb in
            [["webhook", "redeliver", &moved], ["webhook", "resume", "gone"], ["webhook", "test", "moved"]]
        {
            let done = fleet.cli(&verb).await?;
            ensure!(done.code == 0, "{done:?}");
        }
        all_arrived(fleet.client()).await?;
        let test = receiver.told("/moved").into_iter().any(|told| told.body.contains("webhook.test"));
        ensure!(test, "{:?}", receiver.told("/moved"));
        Ok(())
    })
    .await
}

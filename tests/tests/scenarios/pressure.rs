//! A node under pressure takes nothing new, says why, and is asked again only when it has recovered.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{Job, JobState, Outcome};
use tenure_client::wire;
use tenure_tests::clock::Moment;
use tenure_tests::proxy::Direction;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario, tag};
use tokio::sync::Mutex;

/// How long the reading must be low before the rule opens. Together with the least time that a rule stays closed.
const OPEN_FOR: Duration = Duration::from_secs(3);
/// A rule that closed stays closed for at least this long.
const CLOSED_AT_LEAST: Duration = Duration::from_secs(10);
/// From the opening to the start of the job that waited.
const START_WITHIN: Duration = Duration::from_secs(2);
/// Processes that push the node over its rule, and how far below them the rule closes and opens.
const CROWD: usize = 120;

/// Both scenarios count the same user's processes: one at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Whose processes the rule counts. As root the node gets a user that nobody else is, so that no other process matters.
fn node_uid() -> Option<u32> {
    rustix::process::geteuid().is_root().then(|| 61_000 + std::process::id() % 4_000)
}

/// Processes of a user, as the rule counts them.
fn count_of(uid: u32) -> usize {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let owned = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let uids = entries.filter_map(|entry| owned(&std::fs::read_to_string(entry.path().join("status")).ok()?));
    uids.filter(|&found: &u32| found == uid).count()
}

fn plan() -> Plan {
    let uid = node_uid().unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let base = count_of(uid);
    let rules = format!(
        "[[pressure.rule]]\nid = \"uid_procs\"\n\
         close = {{ any = [{{ signal = \"procs.used\", above = {} }}] }}\n\
         open = {{ all = [{{ signal = \"procs.used\", below = {} }}], for = \"{}s\" }}\n\
         effect = {{ refuse = \"*\" }}\n",
        base + CROWD * 2 / 3,
        base + CROWD / 2,
        OPEN_FOR.as_secs(),
    );
    let mut first = NodePlan::new("n1").slot("shell", 4).label("home", "n1").proxied().tables(&rules);
    if let Some(uid) = node_uid() {
        first = first.uid(uid);
    }
    Plan::new()
        // A quarter of it is the heartbeat: the node may be held for longer before it is suspect.
        .kind(KindPlan::new("shell.task").need("shell", 1).lease("20s"))
        .node(first)
        .node(NodePlan::new("n2").slot("shell", 4).label("home", "n2"))
}

/// Real processes of the node's user. Dropped, they end.
struct Crowd(Vec<Child>);

impl Crowd {
    fn gather(fleet: &Fleet) -> anyhow::Result<Self> {
        let mut crowd = Self(Vec::new());
        for _ in 0..CROWD {
            let mut command = Command::new("sleep");
            command.arg("300").stdin(Stdio::null()).env(tag::VARIABLE, fleet.mark());
            if let Some(uid) = node_uid() {
                command.uid(uid).gid(uid);
            }
            crowd.0.push(command.spawn().context("no more processes?")?);
        }
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if child.kill().and_then(|()| child.wait()).is_err() {
                eprintln!("a process of the crowd is not to be ended");
            }
        }
    }
}

/// Waits until the server knows that the node is closed, or open.
async fn node_is(fleet: &Fleet, closed: bool) -> anyhow::Result<Moment> {
    until(&format!("n1 is closed: {closed}"), PATIENCE, async || {
        let node = fleet.client().node("n1").await.map_err(|error| error.to_string())?;
        let found = node.closed_groups.iter().any(|group| group.rule == "uid_procs" && group.refuse == "*");
        level(found == closed, || format!("{node:?}")).map(|()| Moment::now())
    })
    .await
}

/// A job that only the first node may run.
fn at_home(script: &Script) -> tenure_client::NewJob {
    Fleet::job("shell.task", script).selector("home", "n1")
}

fn deferred(job: &Job, reason: &str) -> bool {
    job.deferral.as_ref().is_some_and(|deferral| deferral.reason == reason)
}

#[tokio::test]
async fn a_node_over_its_rule_takes_nothing_until_it_has_recovered_and_its_jobs_say_why() -> anyhow::Result<()>
{
    let _alone = ALONE.lock().await;
    scenario(plan(), async |fleet| {
        let warm = fleet.client().enqueue(&at_home(&Script::new())).await?.job.id;
        fleet.all_succeed(&[warm], PATIENCE).await?;
        let crowd = Crowd::gather(fleet)?;
        let closed = node_is(fleet, true).await?;

        let at_home = fleet.client().enqueue(&at_home(&Script::new())).await?.job.id;
        let mut others = Vec::new();
        for _ in 0..6 {
            others.push(fleet.enqueue("shell.task", &Script::new()).await?);
        }
        fleet.all_succeed(&others, PATIENCE).await?;
        let log = fleet.log()?;
        for other in &others {
            ensure!(log.of(other).all(|run| run.start.node == "n2"), "the other node takes what it can");
        }

        let job =
            fleet.job_when(&at_home, "deferred", PATIENCE, |job| deferred(job, "node_pressure")).await?;
        let deferral = job.deferral.context("it waits")?;
        let figure = |name: &str| deferral.parameters.get(name).and_then(|value| value.parse::<f64>().ok());
        ensure!(
            deferral.parameters["node"] == "n1" && deferral.parameters["rule"] == "uid_procs",
            "{deferral:?}"
        );
        let (observed, threshold) =
            (figure("observed").context("observed")?, figure("threshold").context("threshold")?);
        ensure!(observed > threshold && threshold > 0.0, "{deferral:?}");
        ensure!(deferral.count >= 1 && deferral.since.is_some(), "{deferral:?}");
        let since = wire::system_time(deferral.since.as_ref().context("since when")?);
        let told = fleet.cli(&["job", "explain", &at_home]).await?;
        ensure!(told.code == 0 && told.stdout.contains("uid_procs"), "{told:?}");
        let health = fleet.client().queue_health(None).await?;
        ensure!(health.pressure.iter().any(|node| node.node == "n1"), "{health:?}");

        drop(crowd);
        let relieved = Moment::now();
        let open = node_is(fleet, false).await?;
        ensure!(
            open.since(closed) + Duration::from_secs(1) >= CLOSED_AT_LEAST,
            "it opened after {:?}",
            open.since(closed)
        );
        ensure!(open.since(relieved) + Duration::from_secs(1) >= OPEN_FOR, "it opened at once");
        let run = fleet.started(&at_home, 1, PATIENCE).await?;
        ensure!(run.start.node == "n1", "{run:?}");
        ensure!(run.start.at.since(open) <= START_WITHIN, "it started {:?} after", run.start.at.since(open));
        ensure!(log.of(&at_home).count() == 0, "nothing started there while it was closed");

        // What it went through is still told.
        let done = fleet.state(&at_home, JobState::Succeeded, PATIENCE).await?;
        let share = done.waits.iter().find(|share| share.reason == "node_pressure");
        let share = share.with_context(|| format!("the history is forgotten: {done:?}"))?;
        ensure!(share.count >= 1 && share.message.contains("uid_procs"), "{share:?}");
        let lasted = share.duration.as_ref().map(wire::std_duration).unwrap_or_default();
        ensure!(lasted >= Duration::from_secs(5), "since {since:?}: {share:?}");
        ensure!((done.failures, done.losses) == (0, 0), "it was charged nothing");
        let told = fleet.cli(&["job", "explain", &at_home]).await?;
        ensure!(told.stdout.contains("uid_procs"), "{told:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_job_granted_in_the_instant_of_closing_is_returned_uncharged_and_not_offered_again()
-> anyhow::Result<()> {
    let _alone = ALONE.lock().await;
    scenario(plan(), async |fleet| {
        // The node's words are held, so the server grants in good faith while the rule is closed already.
        let proxy = fleet.proxy("n1")?;
        proxy.hold(Direction::Up);
        let crowd = Crowd::gather(fleet)?;
        until("the agent has closed", Duration::from_secs(8), async || {
            let log = fleet.agent("n1").map_err(|error| error.to_string())?.log();
            level(log.contains("uid_procs"), || log)
        })
        .await?;
        let job = fleet.client().enqueue(&at_home(&Script::new())).await?.job.id;
        let granted = fleet.state(&job, JobState::Running, PATIENCE).await?;
        proxy.release(Direction::Up);

        let returned = fleet.job_when(&job, "back in its queue", PATIENCE, |job| job.returns == 1).await?;
        ensure!((returned.failures, returned.losses, returned.attempt) == (0, 0, 1), "{returned:?}");
        let attempts = fleet.client().attempts(&job).await?;
        ensure!(attempts.len() == 1 && attempts[0].outcome() == Outcome::Returned, "{attempts:?}");
        ensure!(attempts[0].token == granted.token && !attempts[0].started, "{attempts:?}");
        ensure!(attempts[0].cause == "uid_procs", "{attempts:?}");
        fleet.job_when(&job, "deferred", PATIENCE, |job| deferred(job, "node_pressure")).await?;

        drop(crowd);
        node_is(fleet, false).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        let done = fleet.state(&job, JobState::Succeeded, PATIENCE).await?;
        ensure!(done.returns == 1 && run.start.token == done.token, "it was offered once more: {done:?}");
        ensure!(run.start.token > granted.token, "{run:?}");
        Ok(())
    })
    .await
}

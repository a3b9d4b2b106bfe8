//! Wall clocks that are stepped by years under running processes: what is measured goes on as if nothing had happened.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::JobState;
use tenure_client::wire;
use tenure_tests::clock::Moment;
use tenure_tests::intervals::Run;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

const HOUR: i64 = 3_600;
const YEAR: i64 = 365 * 86_400;
/// How far off the clocks are, one after the other.
const STEPS: [i64; 7] = [HOUR, -HOUR, YEAR, -YEAR, 10 * YEAR, -10 * YEAR, 0];
/// The lease of `brief`, and after how long a silence of its node the server may grant it again.
const LEASE: Duration = Duration::from_secs(10);
const EXPIRY: Duration = Duration::from_millis(12_500);
/// Between two heartbeats, at most.
const HEARTBEAT: Duration = Duration::from_millis(2_500);
/// What a grant, a commit and the start of a process may take on a busy machine.
const SLACK: Duration = Duration::from_secs(4);

/// `held` takes every slot of its own. No job here has a date: those go by the calendar.
fn plan() -> Plan {
    let held = KindPlan::new("held").need("shell", 1).lease("30s");
    Plan::new()
        .own_wall_clocks()
        .kind(held.line("hard_time_limit = \"30m\"").line("progress_timeout = \"20m\""))
        .kind(KindPlan::new("brief").need("desk", 1).lease("10s"))
        .kind(KindPlan::new("failing").need("desk", 1).line("retry = { intervals = [\"45m\"] }"))
        .node(NodePlan::new("n1").slot("shell", 2).slot("desk", 1))
        .node(NodePlan::new("n2").slot("shell", 2).slot("desk", 1))
}

/// What goes on while the clocks are stepped.
struct Waiting {
    /// Each runs, in its first execution.
    held: Vec<(String, Run)>,
    /// Has no slot.
    queued: String,
    /// Failed once, and is to be tried again in 45 min.
    failed: String,
    begun: Moment,
    /// What the server took for the present at that moment, in seconds since 1970.
    then: i64,
}

impl Waiting {
    async fn start(fleet: &Fleet) -> anyhow::Result<Self> {
        let mut held = Vec::new();
        for _ in 0..4 {
            let script = Script::new().wait("go").then(Step::Result("held".to_owned()));
            let job = fleet.enqueue("held", &script).await?;
            let run = fleet.started(&job, 1, PATIENCE).await?;
            held.push((job, run));
        }
        let failed = fleet.enqueue("failing", &Script::new().fail_first(1)).await?;
        fleet.job_when(&failed, "to be tried again", PATIENCE, |job| job.failures == 1).await?;
        let begun = Moment::now();
        let queued = fleet.client().enqueue(&Fleet::job("held", &Script::new())).await?.job;
        let then = queued.create_time.context("an instant")?.seconds;
        Ok(Self { held, queued: queued.id, failed, begun, then })
    }

    /// The server's clock is this much off, and nobody but the calendar has noticed.
    async fn unmoved(&self, fleet: &Fleet, seconds: i64) -> anyhow::Result<()> {
        let brief = fleet.client().enqueue(&Fleet::job("brief", &Script::new())).await?.job;
        let told = brief.create_time.context("an instant")?.seconds - self.then;
        let off = told - i64::try_from(self.begun.elapsed().as_secs())?;
        ensure!((off - seconds).abs() < 60, "the step did not arrive: {off} s off");
        fleet.all_succeed(&[brief.id], PATIENCE).await?;
        for (job, run) in &self.held {
            let found = fleet.client().get(job).await?;
            ensure!(found.state() == JobState::Running && found.token == run.start.token, "{found:?}");
            ensure!((found.failures, found.losses, found.returns) == (0, 0, 0), "{found:?}");
        }
        let failed = fleet.client().get(&self.failed).await?;
        ensure!(failed.state() == JobState::Scheduled && failed.failures == 1, "{failed:?}");
        let queued = fleet.client().get(&self.queued).await?;
        let history = queued.deferral.as_ref().map_or(&[][..], |deferral| &deferral.history);
        ensure!(queued.state() == JobState::Queued && !history.is_empty(), "{queued:?}");
        let waited = self.begun.elapsed() + Duration::from_secs(1);
        for share in history {
            let told = share.duration.context("a length")?;
            ensure!(told.seconds >= 0 && told.nanos >= 0, "{share:?}");
            ensure!(wire::std_duration(&told) <= waited, "{share:?} within {waited:?}");
        }
        for node in ["n1", "n2"] {
            let silent = fleet.client().node(node).await?.silent_for.unwrap_or_default();
            ensure!((0..30).contains(&silent.seconds) && silent.nanos >= 0, "{node} for {silent:?}");
        }
        self.figures(fleet).await
    }

    /// No length of `/metrics` is negative, and none is longer than this has gone on.
    async fn figures(&self, fleet: &Fleet) -> anyhow::Result<()> {
        let most = self.begun.elapsed().as_secs_f64() + 60.0;
        let text = fleet.http("/metrics").await?;
        let mut seen = 0;
        for line in text.lines().filter(|line| line.starts_with("tenure_")) {
            let (key, value) = line.rsplit_once(' ').context("a sample")?;
            let value: f64 = value.parse().with_context(|| line.to_owned())?;
            ensure!(value >= 0.0, "{line}");
            let name = key.split('{').next().unwrap_or_default();
            // An age since a stored instant goes by the calendar: that of another leader's time is known in no other way.
            let length =
                (name.ends_with("_seconds") || name.ends_with("_seconds_sum")) && !name.contains("oldest");
            // Nothing here counted more than a thousand of anything.
            let bound = if name.ends_with("_sum") { most * 1_000.0 } else { most };
            ensure!(!length || value <= bound, "{line}");
            seen += usize::from(length);
        }
        ensure!(seen > 5, "{text}");
        Ok(())
    }
}

#[tokio::test]
async fn clocks_that_are_stepped_by_years_end_nothing_early_and_nothing_late() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let waiting = Waiting::start(fleet).await?;
        for seconds in STEPS {
            // First they differ, then they agree.
            fleet.step_wall_clock("server", seconds)?;
            waiting.unmoved(fleet, seconds).await?;
            for node in ["n1", "n2"] {
                fleet.step_wall_clock(node, seconds)?;
            }
            waiting.unmoved(fleet, seconds).await?;
            if seconds == 10 * YEAR {
                adopted_in_another_year(fleet, &waiting).await?;
                lost_in_another_year(fleet, &waiting).await?;
                fleet.step_wall_clock("server", seconds)?;
                waiting.unmoved(fleet, seconds).await?;
            }
            if seconds == -10 * YEAR {
                fleet.kill_server().await?;
                fleet.start_server().await?;
                fleet.node_live("n1").await?;
                fleet.node_live("n2").await?;
                waiting.unmoved(fleet, seconds).await?;
            }
        }
        fleet.open("go")?;
        let mut jobs: Vec<String> = waiting.held.iter().map(|(job, _)| job.clone()).collect();
        jobs.push(waiting.queued);
        fleet.all_succeed(&jobs, PATIENCE).await?;
        let log = fleet.log()?;
        for job in &jobs {
            ensure!(log.of(job).count() == 1, "{job} ran {} times", log.of(job).count());
        }
        ensure!(log.of(&waiting.failed).count() == 1, "it was not tried again early");
        Ok(())
    })
    .await
}

/// The agent of `n1` is killed, and the next one takes over what runs, in what it takes for another year.
async fn adopted_in_another_year(fleet: &mut Fleet, waiting: &Waiting) -> anyhow::Result<()> {
    fleet.kill_agent("n1").await?;
    fleet.start_agent("n1")?;
    fleet.node_live("n1").await?;
    let year = 1970 + (waiting.then + 10 * YEAR) / (YEAR + YEAR / 1461);
    // The server may have taken the session of the killed one for that of a live node.
    until("the next agent goes by another year", PATIENCE, async || {
        let log = fleet.agent("n1").map_err(|error| error.to_string())?.log();
        let told = (year - 1..=year + 1).any(|year| log.contains(&format!("\"timestamp\":\"{year}-")));
        level(told, || format!("not {year}: {log}"))
    })
    .await
}

/// A node falls silent, and its server's clock goes back by twenty years: its lease ends when it would have ended anyway.
async fn lost_in_another_year(fleet: &mut Fleet, waiting: &Waiting) -> anyhow::Result<()> {
    let job = fleet.enqueue("brief", &Script::new().wait("late")).await?;
    let first = fleet.started(&job, 1, PATIENCE).await?;
    let node = first.start.node.clone();
    fleet.kill_agent(&node).await?;
    let silent = Moment::now();
    fleet.step_wall_clock("server", -10 * YEAR)?;
    let gone = fleet.gone(first.start.token, LEASE).await?;
    ensure!(gone.since(silent) <= LEASE.mul_f64(0.95), "it lived for {:?}", gone.since(silent));
    let second = fleet.started(&job, 2, EXPIRY + HEARTBEAT + SLACK).await?;
    let after = second.start.at.since(silent);
    ensure!(second.start.at > gone && second.start.node != node, "{second:?}");
    ensure!(after + HEARTBEAT >= EXPIRY && after <= EXPIRY + SLACK, "granted again after {after:?}");
    fleet.open("late")?;
    fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
    let found = fleet.client().get(&job).await?;
    ensure!((found.failures, found.losses, found.returns) == (0, 1, 0), "{found:?}");
    // In time for what else it ran, under a lease of 30 s.
    fleet.start_agent(&node)?;
    fleet.node_live(&node).await?;
    ensure!(waiting.held.len() == 4, "all run on");
    Ok(())
}

//! What a command says of itself through the socket of its attempt, and who may speak there.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{JobState, Outcome};
use tenure_proto::node::v1::GetAttemptRequest;
use tenure_proto::node::v1::attempt_service_client::AttemptServiceClient;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, binary, scenario};
use tonic::transport::Endpoint;

fn kind(name: &str) -> KindPlan {
    KindPlan::new(name).node_line("env_from = [\"TEST_TENURE\"]")
}

fn plan() -> anyhow::Result<Plan> {
    Ok(Plan::new()
        .variable("TEST_TENURE", &binary::tenure()?.to_string_lossy())
        .fleet_slot("api", 4)
        .kind(kind("job").line("retry = { intervals = [\"1s\"] }"))
        .kind(kind("call").need("api", 1).line("retry = { intervals = [\"1s\"] }"))
        .node(NodePlan::new("n1")))
}

fn says(words: &str) -> Step {
    Step::Attempt(words.to_owned())
}

fn socket(fleet: &Fleet, token: u64) -> PathBuf {
    fleet.directory().join(format!("nodes/n1/attempts/{token}/socket"))
}

#[tokio::test]
async fn progress_and_usage_are_shown_and_kept() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let script = Script::new()
            .then(says("usage tokens=1200 calls=1"))
            .then(says("usage tokens=34"))
            .then(says("progress 40 four_of_ten"))
            .then(says("check-lease"))
            .wait("go")
            .exit(3);
        let job = fleet.enqueue("job", &script).await?;
        let shown = fleet.job_when(&job, "it gets on", PATIENCE, |job| job.progress.is_some()).await?;
        let progress = shown.progress.context("progress")?;
        ensure!((progress.percent, progress.message.as_str()) == (40, "four_of_ten"), "{progress:?}");
        fleet.kill_agent("n1").await?;
        fleet.start_agent("n1")?;
        fleet.node_live("n1").await?;
        fleet.open("go")?;
        fleet.job_when(&job, "it has failed", PATIENCE, |job| job.failures > 0).await?;
        let attempts = fleet.client().attempts(&job).await?;
        let used = &attempts.first().context("an attempt")?.usage;
        ensure!(used.get("tokens") == Some(&1234) && used.get("calls") == Some(&1), "{used:?}");
        fleet.client().cancel(&job, "enough").await?;
        Ok(())
    })
    .await
}

/// What adds up is added once: whoever is cut off in the midst of it says it again.
#[tokio::test]
async fn usage_that_is_in_flight_when_its_agent_is_killed_is_counted_once() -> anyhow::Result<()> {
    const WORDS: usize = 60;
    // After one more the agent takes the job for what kills it.
    const KILLS: usize = 4;
    scenario(plan()?, async |fleet| {
        let mut script = Script::new();
        for _ in 0..WORDS {
            script = script.then(says("usage tokens=7 calls=1"));
        }
        let job = fleet.enqueue("job", &script.then(says("progress 100 told")).wait("go")).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        let said = fleet.directory().join(format!("nodes/n1/attempts/{}/said.json", run.start.token));
        let calls = || -> Result<u64, String> {
            let text = std::fs::read_to_string(&said).map_err(|error| error.to_string())?;
            let said: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            said["usage"]["calls"].as_u64().ok_or(text)
        };
        for kill in 1..=KILLS {
            // It speaks without a pause: wherever the kill falls, it falls beside a word or into one.
            let least = u64::try_from(kill * WORDS / (KILLS + 2))?;
            until("it has said more", PATIENCE, async || {
                let calls = calls()?;
                level(calls >= least, || format!("{calls} of {least}"))
            })
            .await?;
            fleet.kill_agent("n1").await?;
            fleet.start_agent("n1")?;
            fleet.node_live("n1").await?;
        }
        fleet.job_when(&job, "all is told", PATIENCE * 2, |job| job.progress.is_some()).await?;
        fleet.open("go")?;
        fleet.state(&job, JobState::Succeeded, PATIENCE).await?;
        let words = u64::try_from(WORDS)?;
        let attempts = fleet.client().attempts(&job).await?;
        let used = &attempts.first().context("an attempt")?.usage;
        ensure!(used.get("tokens") == Some(&(7 * words)) && used.get("calls") == Some(&words), "{used:?}");
        Ok(())
    })
    .await
}

/// A malformed payload fails permanently: one attempt, dead letter.
#[tokio::test]
async fn a_malformed_payload_is_a_dead_letter_after_one_attempt() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let script = Script::new().then(says("fail --permanent malformed_payload")).exit(1);
        let job = fleet.enqueue("job", &script).await?;
        let dead = fleet.state(&job, JobState::Dead, PATIENCE).await?;
        ensure!(dead.failures == 1 && dead.reason == "malformed_payload", "{dead:?}");
        let attempts = fleet.client().attempts(&job).await?;
        ensure!(attempts.len() == 1 && attempts[0].cause == "said", "{attempts:?}");
        ensure!(attempts[0].outcome() == Outcome::FailedPermanent);
        // An exit with 0 says more than words before it.
        let fine = fleet.enqueue("job", &Script::new().then(says("fail --permanent no"))).await?;
        fleet.state(&fine, JobState::Succeeded, PATIENCE).await?;
        Ok(())
    })
    .await
}

/// A 429 with `retry_after` waits that long and pauses the slot for everyone. Three instant retries never happen.
#[tokio::test]
async fn a_429_waits_as_long_as_it_says_and_pauses_the_slot_for_everyone() -> anyhow::Result<()> {
    const ASKED: Duration = Duration::from_secs(4);
    scenario(plan()?, async |fleet| {
        let script = Script::new().then(says("fail --retry-after 4s --throttled api 429")).fail_first(1);
        let job = fleet.enqueue("call", &script).await?;
        fleet.job_when(&job, "it has failed", PATIENCE, |job| job.failures == 1).await?;
        let other = fleet.enqueue("call", &Script::new()).await?;
        fleet.all_succeed(&[job.clone(), other.clone()], PATIENCE).await?;
        let log = fleet.log()?;
        let runs: Vec<_> = log.of(&job).collect();
        ensure!(runs.len() == 2, "{} attempts", runs.len());
        let ended = runs[0].end.context("its end")?;
        for (whose, start) in
            [("its retry", runs[1].start.at), ("another", log.of(&other).next().context("a run")?.start.at)]
        {
            let waited = start.since(ended);
            ensure!(waited >= ASKED - Duration::from_millis(100), "{whose} waited {waited:?} only");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_checkpoint_reaches_the_attempt_that_follows() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let blob = fleet.directory().join("blob");
        std::fs::write(&blob, "eight of twelve")?;
        let saves = says(&format!("checkpoint {}", blob.display()));
        let script = Script::new().then(Step::Show("TENURE_CHECKPOINT".to_owned())).then(saves).fail_first(1);
        let job = fleet.enqueue("job", &script).await?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        let found = fleet.client().result(&job).await?.data;
        ensure!(&found[..] == b"eight of twelve", "{found:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn nobody_but_the_user_of_the_job_speaks_as_it_and_nobody_once_it_has_ended() -> anyhow::Result<()> {
    let other = rustix::process::geteuid().is_root();
    let plan = if other { plan()?.kind(kind("guest").uid(65_534)) } else { plan()?.kind(kind("guest")) };
    scenario(plan, async |fleet| {
        let job = fleet.enqueue("guest", &Script::new().wait("go")).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        let path = socket(fleet, run.start.token);
        let endpoint = Endpoint::from_shared(format!("unix:{}", path.display()))?;
        let asked = async {
            let channel = endpoint.connect().await?;
            let attempt = AttemptServiceClient::new(channel).get_attempt(GetAttemptRequest {}).await?;
            anyhow::Ok(attempt.into_inner())
        };
        let asked = asked.await;
        if other {
            // Even who may open every file is another user than the one of the job.
            ensure!(asked.is_err(), "another user was taken for the attempt: {asked:?}");
        } else {
            let attempt = asked?;
            ensure!(attempt.job_id == job && attempt.token == run.start.token, "{attempt:?}");
        }
        let facts = std::fs::metadata(&path)?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&facts.permissions()) & 0o777;
        let owner = std::os::unix::fs::MetadataExt::uid(&facts);
        ensure!(mode == 0o600, "{mode:o}");
        ensure!(!other || owner == 65_534, "{owner}");
        fleet.open("go")?;
        fleet.state(&job, JobState::Succeeded, PATIENCE).await?;
        until("the socket is gone", PATIENCE, async || level(!path.exists(), || "it is there".to_owned()))
            .await
    })
    .await
}

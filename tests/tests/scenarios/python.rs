//! The Python package on a fleet whose server and agents are killed, and over mutual TLS. (Its page is typed in with the
//! others, and what it does about bad answers is in its own tests.)

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_tests::{KindPlan, NodePlan, Plan, Script, Step, python, scenario};
use tokio::process::Command;
use tokio::task::JoinSet;

/// Nothing here takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);

fn plan() -> Plan {
    Plan::new().kind(KindPlan::new("shell.task").need("shell", 1)).node(NodePlan::new("n1").slot("shell", 2))
}

/// A program of a producer.
async fn program(text: &str, endpoint: &str, args: &[&str]) -> anyhow::Result<Command> {
    let environment = python::environment().await?;
    let mut command = Command::new(environment.join("bin/python"));
    command.args(["-c", text]).args(args).env("TENURE_SERVER", endpoint);
    Ok(command)
}

#[tokio::test]
async fn a_watch_and_a_wait_of_python_outlive_the_server() -> anyhow::Result<()> {
    const FOLLOW: &str = r#"
import sys, threading, tenure
retry = tenure.RetryPolicy(give_up_after=30)
job_id, seen = sys.argv[1], sys.argv[2]
with tenure.Client(retry=retry) as client:
    states = []
    def watch():
        for job in client.watch(job_id):
            states.append((job.version, job.state.value))
            open(seen, "a").write(job.state.value + "\n")
    watching = threading.Thread(target=watch)
    watching.start()
    job = client.wait(job_id, timeout=60)
    watching.join()
    assert job.state is tenure.JobState.SUCCEEDED, job
    assert [version for version, _ in states] == sorted({version for version, _ in states}), states
    assert states[-1] == (job.version, "succeeded"), states
    assert [state for _, state in states].count("succeeded") == 1, states
    assert client.cancel.__doc__ and client.attempts(job_id)[0].outcome == 1
    print(client.result(job_id).text())
"#;
    scenario(plan(), async |fleet| {
        let job = fleet
            .enqueue("shell.task", &Script::new().wait("go").then(Step::Result("done".to_owned())))
            .await?;
        let seen = fleet.directory().join("seen");
        let place = seen.to_str().context("a path that is no UTF-8")?;
        let mut follower = program(FOLLOW, &fleet.endpoint(), &[&job, place]).await?;
        let mut following = JoinSet::new();
        following.spawn(async move { python::run(&mut follower, PATIENCE).await });
        fleet.started(&job, 1, PATIENCE).await?;
        written(&seen, "running").await?;
        fleet.kill_server().await?;
        fleet.start_server().await?;
        fleet.open("go")?;
        let said = following.join_next().await.context("the follower")???;
        ensure!(said == "done\n", "{said}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn python_speaks_mutual_tls_and_is_told_what_it_may_not() -> anyhow::Result<()> {
    const OPERATOR: &str = r#"
import sys, tenure
ca, cert, key = sys.argv[1:]
with tenure.Client(tls=tenure.Tls(ca, cert, key)) as client:
    job = tenure.NewJob("shell.task", "result by-tls")
    assert not client.enqueue(job).deduplicated
    assert client.enqueue(job).deduplicated
    assert client.wait(job.id, timeout=60).state.is_final
    print(client.result(job.id).text())
    try:
        client.enqueue("shell.tsak")
    except tenure.KindNotFound as no:
        print(no.reason, sorted(no.metadata.values()))
brief = tenure.RetryPolicy(give_up_after=1)
for wrong in [tenure.Tls(ca), tenure.Tls(cert, cert, key)]:
    with tenure.Client(tls=wrong, retry=brief) as stranger:
        try:
            stranger.enqueue("shell.task")
            print("a stranger was let in")
        except (tenure.Unavailable, tenure.NotAllowed) as no:
            print("refused")
"#;
    scenario(plan().hosts(), async |fleet| {
        let file = |name: &str| fleet.directory().join("certs").join(name).display().to_string();
        let (ca, cert, key) = (file("ca.pem"), file("admin-tests.pem"), file("admin-tests-key.pem"));
        let mut operator = program(OPERATOR, &fleet.endpoint(), &[&ca, &cert, &key]).await?;
        let said = python::run(&mut operator, PATIENCE).await?;
        let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with(['E', 'I', 'W'])).collect();
        let told = lines
            .get(1)
            .is_some_and(|line| line.starts_with("KIND_NOT_FOUND [") && line.contains("shell.task"));
        ensure!(lines.first() == Some(&"by-tls") && told, "{said}");
        ensure!(lines.get(2..) == Some(&["refused", "refused"]), "{said}");
        Ok(())
    })
    .await
}

/// Waits until a line stands in a file.
async fn written(file: &Path, line: &str) -> anyhow::Result<()> {
    tenure_tests::wait::until(&format!("{line} is seen"), PATIENCE, async || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        tenure_tests::wait::level(text.lines().any(|seen| seen == line), || text.clone())
    })
    .await
}

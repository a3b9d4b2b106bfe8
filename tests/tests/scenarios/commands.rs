//! The exit codes that scripts rely on, each provoked for real.

use anyhow::ensure;
use tenure_client::new_job_id;
use tenure_tests::wait::PATIENCE;
use tenure_tests::{KindPlan, NodePlan, Plan, Script, scenario};

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1).line("max_failures = 1").line("queue_cap = 1"))
        .node(NodePlan::new("n1").slot("shell", 1))
}

#[tokio::test]
async fn every_exit_code_means_what_it_says() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let unknown = new_job_id();
        let nobody = ["--server", "http://127.0.0.1:1", "--retry-for", "0s", "health"];
        let success = ["enqueue", "shell.task", "--payload", "result done", "--wait", "--timeout", "20s"];
        for (code, args) in [
            (0, &success[..]),
            (0, &["doctor"]),
            (1, &["enqueue", "shell.task", "--payload", "exit 5", "--wait", "--timeout", "20s"]),
            (2, &["enqueue"]),
            (2, &["dead", "purge", "--yes"]),
            (3, &["job", "get", &unknown]),
            (3, &["enqueue", "shell.tsak"]),
            (3, &["node", "cordon", "nobody"]),
            (3, &["slot", "pause", "nothing"]),
            (64, &["enqueue", "shell.task", "--id", "not-a-uuid"]),
            (64, &["job", "get", "not-a-uuid"]),
            (69, &nobody),
        ] {
            let ran = fleet.cli(args).await?;
            ensure!(ran.code == code, "{args:?} should exit {code}: {ran:#?}");
        }
        let near = fleet.cli(&["enqueue", "shell.tsak"]).await?;
        ensure!(near.stderr.contains("shell.task"), "the nearest name is suggested: {near:?}");

        let held = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        fleet.started(&held, 1, PATIENCE).await?;
        let queued = fleet.enqueue("shell.task", &Script::new()).await?;
        let full = fleet.cli(&["enqueue", "shell.task"]).await?;
        ensure!(full.code == 75 && full.stdout.is_empty() && full.stderr.contains("QUEUE_FULL"), "{full:?}");
        let late = fleet.cli(&["job", "wait", &queued, "--timeout", "1s"]).await?;
        ensure!(late.code == 124, "{late:?}");
        fleet.open("go")?;
        let waited = fleet.cli(&["job", "wait", &queued, "--timeout", "20s"]).await?;
        ensure!(waited.code == 0, "{waited:?}");
        let result = fleet.cli(&["job", "result", &queued]).await?;
        ensure!(result.code == 3, "it wrote none: {result:?}");
        for args in [["node", "cordon", "n1"], ["node", "uncordon", "n1"], ["kind", "pause", "shell.task"]] {
            for _ in 0..2 {
                let ran = fleet.cli(&args).await?;
                ensure!(ran.code == 0, "repeating {args:?} is harmless: {ran:?}");
            }
        }
        Ok(())
    })
    .await
}

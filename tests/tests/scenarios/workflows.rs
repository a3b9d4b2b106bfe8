//! Workflows on real processes: what each policy promises, and that nothing is lost, doubled or out of order when
//! servers and agents are killed.

mod fifty;
mod tree;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{GetWorkflowResponse, JobState, Workflow, WorkflowState};
use tenure_client::{Chord, NewWorkflow, Part};
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("shell.task").line("max_failures = 1"))
        .kind(KindPlan::new("steady"))
        .node(NodePlan::new("n1"))
}

fn part(script: &Script) -> Part {
    Part::job(Fleet::job("shell.task", script))
}

fn says(text: &str) -> Script {
    Script::new().then(Step::Result(text.to_owned()))
}

/// Four members of which the second dies and the fourth waits for a gate. The synthesis says what it was handed.
fn four(rule: impl FnOnce(Chord) -> Chord) -> NewWorkflow {
    let dies = Script::new().then(Step::Exit(3));
    let members = [says("a"), dies, says("c"), says("d").wait("go")].map(|script| part(&script));
    let synthesis = Fleet::job("shell.task", &Script::new().then(Step::Gather));
    NewWorkflow::new(rule(Part::chord(members, synthesis)))
}

/// What a synthesis said that it was handed: results and recorded ends, in the order in which its members are declared.
async fn handed(fleet: &Fleet, synthesis: &str) -> anyhow::Result<serde_json::Value> {
    let result = fleet.client().result(synthesis).await?;
    let said: serde_json::Value = serde_json::from_slice(&result.data)?;
    Ok(said.get("said").cloned().unwrap_or_default())
}

async fn ends(fleet: &Fleet, id: &str) -> anyhow::Result<Workflow> {
    let mut watch = fleet.client().watch_workflow(id);
    let last = async {
        let mut last = None;
        while let Some(now) = watch.next().await? {
            last = Some(now);
        }
        last.context("a watch tells the end")
    };
    tokio::time::timeout(PATIENCE, last).await.context("it ends in time")?
}

fn states(answer: &GetWorkflowResponse) -> Vec<JobState> {
    answer.members.iter().map(tenure_client::proto::WorkflowMember::state).collect()
}

#[tokio::test]
async fn at_least_three_of_four_run_the_synthesis_once_and_all_of_four_end_dead() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        use JobState::{Cancelled, Dead, Succeeded};
        let (three, all) = (four(|chord| chord.at_least(3)), four(|chord| chord));
        for workflow in [&three, &all] {
            fleet.client().submit_workflow(workflow).await?;
        }
        fleet.open("go")?;
        let ended = ends(fleet, three.id()).await?;
        ensure!(ended.state() == WorkflowState::Succeeded && !ended.partial, "{ended:?}");
        let shown = fleet.client().workflow(three.id()).await?;
        ensure!(states(&shown) == [Succeeded, Dead, Succeeded, Succeeded, Succeeded], "{shown:?}");
        let synthesis = &shown.members[4].job_id;
        ensure!(fleet.log()?.of(synthesis).count() == 1, "the synthesis ran once");
        let said = handed(fleet, synthesis).await?;
        ensure!(said == serde_json::json!(["a", "dead", "c", "d"]), "{said}");

        let ended = ends(fleet, all.id()).await?;
        ensure!(ended.state() == WorkflowState::Dead && ended.reason == "member 1 dead", "{ended:?}");
        let shown = fleet.client().workflow(all.id()).await?;
        ensure!(states(&shown) == [Succeeded, Dead, Succeeded, Succeeded, Cancelled], "{shown:?}");
        let listed = fleet.cli(&["job", "list", "--workflow", all.id(), "-o", "name"]).await?;
        let listed: BTreeSet<&str> = listed.stdout.lines().collect();
        ensure!(listed == shown.members.iter().map(|member| member.job_id.as_str()).collect(), "{listed:?}");
        let dead =
            fleet.cli(&["job", "list", "--workflow", all.id(), "--state", "dead", "-o", "name"]).await?;
        ensure!(dead.stdout.trim() == shown.members[1].job_id, "{dead:?}");
        ensure!(fleet.log()?.of(&shown.members[4].job_id).count() == 0, "the synthesis never ran");
        let drawn = fleet.cli(&["workflow", "show", all.id()]).await?;
        ensure!(drawn.code == 0 && drawn.stdout.contains("✗ shell.task dead"), "{drawn:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn at_its_deadline_a_synthesis_runs_partial_and_the_rest_is_killed() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let workflow = four(|chord| chord.deadline(Duration::from_secs(4)));
        fleet.client().submit_workflow(&workflow).await?;
        let ended = ends(fleet, workflow.id()).await?;
        ensure!(ended.state() == WorkflowState::Succeeded && ended.partial, "{ended:?}");
        let shown = fleet.client().workflow(workflow.id()).await?;
        let members = states(&shown);
        ensure!(members[3] == JobState::Cancelled && members[4] == JobState::Succeeded, "{shown:?}");
        let said = handed(fleet, &shown.members[4].job_id).await?;
        ensure!(said == serde_json::json!(["a", "dead", "c", "running"]), "{said}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_workflow_is_refused_whole_and_its_members_are_kept_while_it_lives() -> anyhow::Result<()> {
    let plan = plan().kind(KindPlan::new("capped").line("queue_cap = 2"));
    scenario(plan, async |fleet| {
        let of_three = [1, 2, 3].map(|_| Part::job(Fleet::job("capped", &Script::new())));
        let refused = fleet.client().submit_workflow(&NewWorkflow::new(Part::chain(of_three))).await;
        let refusal = refused.err().context("three do not fit into two")?;
        let reason = refusal.refusal().map(|refusal| refusal.reason.clone());
        ensure!(reason.as_deref() == Some("QUEUE_FULL"), "{refusal:?}");
        ensure!(fleet.client().workflows(&[], 10).await?.is_empty(), "nothing is stored");

        let workflow = NewWorkflow::new(Part::chain([part(&says("a")), part(&says("b").wait("go"))]));
        fleet.client().submit_workflow(&workflow).await?;
        let again = fleet.client().submit_workflow(&workflow).await?;
        ensure!(again.deduplicated, "{again:?}");
        let other = NewWorkflow::new(part(&says("x"))).with_id(workflow.id());
        let other = fleet.client().submit_workflow(&other).await.err().context("another content")?;
        ensure!(format!("{other:#}").contains("WORKFLOW_ID_REUSED"), "{other:#}");

        let shown = fleet.client().workflow(workflow.id()).await?;
        let first = &shown.members[0].job_id;
        fleet.state(first, JobState::Succeeded, PATIENCE).await?;
        let kept = fleet.cli(&["job", "delete", first]).await?;
        ensure!(kept.code == 1 && kept.stderr.contains("JOB_OF_WORKFLOW"), "{kept:?}");
        fleet.open("go")?;
        let ended = ends(fleet, workflow.id()).await?;
        ensure!(ended.state() == WorkflowState::Succeeded, "{ended:?}");
        let gone = fleet.cli(&["job", "delete", first]).await?;
        ensure!(gone.code == 0, "{gone:?}");
        Ok(())
    })
    .await
}

/// Fifteen members in three layers; the server and the agent are killed while each of them runs.
#[tokio::test]
async fn kills_of_server_and_agent_at_every_layer_lose_nothing_and_double_nothing() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let layer = |gate: &str| {
            let jobs = (0..5).map(|n| Part::job(Fleet::job("steady", &says(&n.to_string()).wait(gate))));
            Part::group(jobs.collect::<Vec<_>>())
        };
        let layers = [layer("g0"), layer("g1")];
        let last = (0..4).map(|n| Part::job(Fleet::job("steady", &says(&n.to_string()).wait("g2"))));
        let chord = Part::chord(last.collect::<Vec<_>>(), Fleet::job("steady", &says("all")));
        let workflow = NewWorkflow::new(Part::chain([layers, [chord.into(), part(&says("end"))]].concat()));
        fleet.client().submit_workflow(&workflow).await?;
        for (gate, done) in [("g0", 0), ("g1", 5), ("g2", 10)] {
            until("the layer runs", PATIENCE, async || {
                let shown =
                    fleet.client().workflow(workflow.id()).await.map_err(|error| error.to_string())?;
                let running = shown.members.iter().skip(done).take(4);
                let all = running.clone().all(|member| member.state() == JobState::Running);
                level(all, || format!("{shown:?}"))
            })
            .await?;
            fleet.kill_server().await?;
            fleet.open(gate)?;
            fleet.start_server().await?;
            fleet.kill_agent("n1").await?;
            fleet.start_agent("n1")?;
            fleet.node_live("n1").await?;
        }
        let ended = ends(fleet, workflow.id()).await?;
        ensure!(ended.state() == WorkflowState::Succeeded && ended.done == 16, "{ended:?}");
        let shown = fleet.client().workflow(workflow.id()).await?;
        let log = fleet.log()?;
        for member in &shown.members {
            let runs = log.of(&member.job_id).filter(|run| run.end.is_some()).count();
            ensure!(runs == 1, "member {} ended {runs} times", member.place);
        }
        Ok(())
    })
    .await
}

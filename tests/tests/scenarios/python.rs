//! The Python package on a fleet whose server and agents are killed, and over mutual TLS. (Its page is typed in with the
//! others, and what it does about bad answers is in its own tests.)

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_tests::clock::Moment;
use tenure_tests::{KindPlan, NodePlan, Plan, Script, Step, python, scenario};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::workers::CALM;

/// Nothing here takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1))
        .node(NodePlan::new("n1").slot("shell", 2).tables(CALM))
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

/// Submits, follows, cancels and takes back, in threads and in asyncio.
const WORKFLOWS: &str = r#"
import asyncio, tenure, tenure.aio

def task(steps):
    return tenure.NewJob("shell.task", steps)

def shown(found):
    return [(member.place, member.state.value) for member in found.members]

with tenure.Client() as client:
    chord = tenure.chord([task("result a"), tenure.chain(task("exit 0"), task("exit 1"))], task("result all"), at_least=1)
    workflow = tenure.NewWorkflow(tenure.chain(task("exit 0"), chord), name="whole")
    client.workflows.check(workflow)
    assert not list(client.workflows.list()), "a check stores nothing"
    assert not client.workflows.submit(workflow).deduplicated
    assert client.workflows.submit(workflow).deduplicated
    *_, last = client.workflows.watch(workflow.id)
    assert (last.state, last.total, last.done) == (tenure.WorkflowState.SUCCEEDED, 5, 5), last
    found = client.workflows.get(workflow.id)
    assert shown(found) == [(0, "succeeded"), (1, "succeeded"), (2, "succeeded"), (3, "dead"), (4, "succeeded")], found
    assert client.result(found.members[4].job_id).text() == "all"
    try:
        client.workflows.submit(tenure.NewWorkflow(task("exit 0"), id=workflow.id))
        raise SystemExit("another content under the same id")
    except tenure.AlreadyExists as no:
        assert no.reason == "WORKFLOW_ID_REUSED", no
    try:
        client.workflows.get(tenure.new_job_id())
        raise SystemExit("a workflow that nobody knows")
    except tenure.WorkflowNotFound:
        pass
    fails = tenure.NewWorkflow(tenure.chain(task("exit 1"), task("exit 0")))
    client.workflows.submit(fails)
    assert client.workflows.wait(fails.id).state is tenure.WorkflowState.DEAD
    back = client.workflows.requeue_member(fails.id, 0)
    assert (back.state, back.round) == (tenure.WorkflowState.RUNNING, 2), back
    assert client.workflows.wait(fails.id).state is tenure.WorkflowState.DEAD

async def main():
    async with tenure.aio.Client() as client:
        stays = tenure.NewWorkflow(tenure.group(task("wait never"), task("wait never")))
        await client.workflows.submit(stays)
        assert (await client.workflows.cancel(stays.id, "enough")).cancel_requested
        assert (await client.workflows.wait(stays.id)).state is tenure.WorkflowState.CANCELLED
        assert [member.state.value for member in (await client.workflows.get(stays.id)).members] == ["cancelled"] * 2
        dead = [seen.id async for seen in client.workflows.list(tenure.WorkflowState.DEAD)]
        assert dead == [fails.id], dead
        await client.workflows.requeue_member(fails.id, 0)
        seen = [workflow.state.value async for workflow in client.workflows.watch(fails.id)]
        assert seen[-1] == "dead" and seen.count("dead") == 1, seen

asyncio.run(main())
print("done")
"#;

#[tokio::test]
async fn python_describes_workflows_submits_follows_cancels_and_takes_back() -> anyhow::Result<()> {
    let plan = Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1).line("max_failures = 1"))
        .node(NodePlan::new("n1").slot("shell", 4).tables(CALM));
    scenario(plan, async |fleet| {
        let mut submitter = program(WORKFLOWS, &fleet.endpoint(), &[]).await?;
        let said = python::run(&mut submitter, PATIENCE).await?;
        ensure!(said == "done\n", "{said}");
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

/// A producer as people write it: a webhook that enqueues a job for each delivery, and answers once it is stored.
const WEBHOOK: &str = r#"
import http.server, json, tenure
client = tenure.Client()

class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        try:
            job = client.enqueue("docs.build", body, dedupe_key=self.headers["x-delivery"])
            code, answer = 202, {"job": job.job.id, "again": job.deduplicated, "state": job.job.state.value}
        except tenure.Refusal as no:
            code, answer = 503, {"reason": no.reason, "retry_after": no.retry_after}
        told = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
open(__import__("sys").argv[1], "w").write(str(server.server_port))
server.serve_forever()
"#;

/// The caller of the story tries again after 30 s while the job takes 45 s; here all of it is twenty times as fast.
const HURRY: u32 = 20;

#[tokio::test]
async fn a_delivery_that_is_sent_six_times_is_one_run_with_answers_in_milliseconds() -> anyhow::Result<()> {
    let plan = Plan::new()
        .kind(KindPlan::new("docs.build").need("shell", 1))
        .node(NodePlan::new("n1").slot("shell", 4));
    scenario(plan, async |fleet| {
        let port = fleet.directory().join("port");
        let place = port.to_str().context("a path that is no UTF-8")?;
        let mut hook = program(WEBHOOK, &fleet.endpoint(), &[place]).await?.kill_on_drop(true).spawn()?;
        let port = tenure_tests::wait::until("the webhook listens", PATIENCE, async || {
            let text = std::fs::read_to_string(&port).map_err(|error| error.to_string())?;
            text.parse::<u16>().map_err(|error| error.to_string())
        })
        .await?;
        let takes = Duration::from_secs(45) / HURRY;
        let script = Script::new().sleep(takes).then(Step::Result("the pages".to_owned())).to_string();
        let mut jobs = Vec::new();
        let mut slowest = Duration::ZERO;
        for delivery in 0..6 {
            let asked = Moment::now();
            let answer = post(port, "delivery-4711", &script).await?;
            slowest = slowest.max(asked.elapsed());
            let again = answer["again"].as_bool().context("again")?;
            ensure!(again == (delivery > 0), "{answer}");
            jobs.push(answer["job"].as_str().context("job")?.to_owned());
            // The pace of the caller is the point of the story; nothing is waited for.
            tokio::time::sleep(Duration::from_secs(30) / HURRY).await;
        }
        jobs.dedup();
        let [job] = jobs.as_slice() else { anyhow::bail!("one delivery became {jobs:?}") };
        fleet.all_succeed(std::slice::from_ref(job), PATIENCE).await?;
        ensure!(fleet.client().result(job).await?.data == "the pages");
        ensure!(fleet.log()?.runs.len() == 1, "it ran once");
        ensure!(slowest < Duration::from_millis(500), "an answer took {slowest:?}");
        println!("the slowest of six answers took {slowest:?}");
        hook.kill().await?;
        Ok(())
    })
    .await
}

/// One delivery.
async fn post(port: u16, delivery: &str, body: &str) -> anyhow::Result<serde_json::Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let length = body.len();
    let request = format!(
        "POST / HTTP/1.1\r\nhost: ci\r\nconnection: close\r\nx-delivery: {delivery}\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.contains(" 202 "), "{answer}");
    Ok(serde_json::from_str(body)?)
}

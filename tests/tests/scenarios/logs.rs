//! What jobs print, read while they run: over attempts, nodes, agents and servers that die, and faster than anybody reads.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{JobState, LogAttempt, LogChunk, LogStream};
use tenure_client::{Log, LogEntry, LogOptions};
use tenure_tests::wait::PATIENCE;
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};
use tokio::time::timeout;

/// Between two words of a log: a leader change, an agent that comes back, and a retry are among them.
const WORD: Duration = Duration::from_secs(60);

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1).line("retry = { intervals = [\"1s\"] }"))
        .node(NodePlan::new("n1").slot("shell", 2))
        .node(NodePlan::new("n2").slot("shell", 2))
}

/// What was read of a log so far.
#[derive(Debug, Default)]
struct Read {
    attempts: Vec<LogAttempt>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    dropped: u64,
    ended: bool,
}

impl Read {
    async fn next(&mut self, log: &mut Log) -> anyhow::Result<()> {
        let entry = timeout(WORD, log.next()).await.with_context(|| format!("nothing more: {self:?}"))??;
        match entry {
            None => self.ended = true,
            Some(LogEntry::Attempt(attempt)) => self.attempts.push(attempt),
            Some(LogEntry::Chunk(LogChunk { stream, offset, data, dropped })) => {
                let to = if stream == LogStream::Stderr as i32 { &mut self.stderr } else { &mut self.stdout };
                let known = u64::try_from(to.len())? + self.dropped;
                let of_one_attempt = self.attempts.iter().all(|known| known.token == self.attempts[0].token);
                if of_one_attempt && self.stderr.is_empty() {
                    ensure!(known + dropped == offset, "at {known} comes {offset} behind {dropped} dropped");
                }
                let to = if stream == LogStream::Stderr as i32 { &mut self.stderr } else { &mut self.stdout };
                to.extend_from_slice(&data);
                self.dropped += dropped;
            }
        }
        Ok(())
    }

    async fn until(&mut self, log: &mut Log, there: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        while !there(self) {
            ensure!(!self.ended, "it ended before: {self:?}");
            self.next(log).await?;
        }
        Ok(())
    }

    fn says(&self, word: &str) -> bool {
        String::from_utf8_lossy(&self.stdout).contains(word)
    }
}

fn follow(fleet: &Fleet, job: &str) -> Log {
    fleet.client().log(job, LogOptions { follow: true, ..LogOptions::default() })
}

fn say(word: &str) -> Step {
    Step::Say(word.to_owned())
}

#[tokio::test]
async fn a_log_goes_on_with_the_next_attempt_on_another_node() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let script = Script::new().then(say("begun")).wait("go").then(Step::Print("boom".to_owned()));
        let job = fleet.enqueue("shell.task", &script.fail_first(1).then(say("done"))).await?;
        let mut log = follow(fleet, &job);
        let mut read = Read::default();
        // It runs, and waits: this is live.
        read.until(&mut log, |read| read.says("begun")).await?;
        let first = read.attempts[0].node.clone();
        let other = if first == "n1" { "n2" } else { "n1" };
        fleet.client().cordon(&first).await?;
        fleet.open("go")?;
        read.until(&mut log, |read| read.ended).await?;
        // More may be said of one that is slow to be heard.
        read.attempts.dedup_by_key(|attempt| attempt.token);
        let attempts: Vec<_> =
            read.attempts.iter().map(|attempt| (attempt.attempt, attempt.node.as_str())).collect();
        ensure!(attempts == [(1, first.as_str()), (2, other)], "{attempts:?}");
        ensure!(read.stdout == b"begun\nbegun\ndone\n", "{read:?}");
        let stderr = String::from_utf8_lossy(&read.stderr).into_owned();
        let failed = "boom\nattempt 1 fails as it was told to\n";
        ensure!(stderr == format!("{failed}boom\n") && read.dropped == 0, "{stderr:?}");

        // Both have ended: what was kept of them is there without their nodes.
        let ended = ["n1", "n2"];
        for node in ended {
            fleet.kill_agent(node).await?;
        }
        for (args, stdout) in [
            (vec!["job", "logs", &job, "--stdout"], "begun\ndone\n"),
            (vec!["job", "logs", &job, "--stdout", "--tail", "1"], "done\n"),
            (vec!["job", "logs", &job, "--attempt", "1", "--stdout"], "begun\n"),
            (vec!["job", "logs", &job, "--attempt", "1", "--stderr"], failed),
        ] {
            let ran = fleet.cli(&args).await?;
            ensure!(ran.code == 0 && ran.stdout == stdout, "{args:?}: {ran:?}");
            ensure!(ran.stderr.contains("== attempt"), "{ran:?}");
        }
        let none = fleet.cli(&["job", "logs", &job, "--attempt", "7"]).await?;
        ensure!(none.code == 3 && none.stderr.contains("LOG_NOT_FOUND"), "{none:?}");
        for node in ended {
            fleet.start_agent(node)?;
            fleet.node_live(node).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_log_goes_on_through_kills_of_the_agent_and_of_the_server() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let script = Script::new()
            .then(say("one"))
            .wait("first")
            .then(say("two"))
            .wait("second")
            .then(say("three"))
            .wait("third")
            .then(say("four"));
        let job = fleet.enqueue("shell.task", &script).await?;
        let mut log = follow(fleet, &job);
        let mut read = Read::default();
        read.until(&mut log, |read| read.says("one")).await?;
        let node = read.attempts[0].node.clone();

        fleet.kill_agent(&node).await?;
        fleet.open("first")?;
        fleet.start_agent(&node)?;
        // The next agent took it over: what its shim wrote meanwhile is there, too.
        read.until(&mut log, |read| read.says("two")).await?;
        fleet.open("second")?;
        read.until(&mut log, |read| read.says("three")).await?;

        fleet.kill_server().await?;
        fleet.open("third")?;
        fleet.start_server().await?;
        read.until(&mut log, |read| read.ended).await?;
        ensure!(read.stdout == b"one\ntwo\nthree\nfour\n" && read.dropped == 0, "{read:?}");
        ensure!(read.attempts.iter().all(|attempt| attempt.attempt == 1), "{read:?}");
        let found = fleet.state(&job, JobState::Succeeded, PATIENCE).await?;
        ensure!((found.failures, found.losses) == (0, 0), "{found:?}");
        Ok(())
    })
    .await
}

/// Resident memory of a process in bytes, at its highest so far.
fn highest(pid: i32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

#[tokio::test]
async fn a_job_that_prints_faster_than_anybody_reads_holds_up_nothing() -> anyhow::Result<()> {
    const FLOOD: u64 = 100 << 20;
    const MORE: u64 = 48 << 20;
    scenario(plan(), async |fleet| {
        fleet.client().cordon("n2").await?;
        let script = Script::new().then(say("begun")).wait("go").then(Step::Flood(FLOOD)).then(say("end"));
        let job = fleet.enqueue("shell.task", &script).await?;
        let mut log = follow(fleet, &job);
        let mut read = Read::default();
        read.until(&mut log, |read| read.says("begun")).await?;
        let pids =
            [fleet.server()?.pid()?.as_raw_nonzero().get(), fleet.agent("n1")?.pid()?.as_raw_nonzero().get()];
        let before = pids.map(highest);
        fleet.open("go")?;
        // Nobody reads: the job goes on all the same, and its node is heard.
        let done = fleet.state(&job, JobState::Succeeded, PATIENCE * 2).await?;
        ensure!((done.failures, done.losses, done.returns) == (0, 0, 0), "{done:?}");
        fleet.node_live("n1").await?;
        for (pid, before) in pids.into_iter().zip(before) {
            let (before, after) = (before?, highest(pid)?);
            ensure!(after < before + MORE, "process {pid} grew from {before} to {after} bytes");
        }
        read.until(&mut log, |read| read.ended).await?;
        let told = u64::try_from(read.stdout.len())?;
        ensure!(told + read.dropped == FLOOD + 10, "{told} read, {} dropped", read.dropped);
        ensure!(read.dropped > FLOOD / 2 && read.stdout.ends_with(b"x\nend\n"), "{} dropped", read.dropped);
        Ok(())
    })
    .await
}

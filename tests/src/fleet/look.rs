//! What a scenario sees of a fleet, and waits for.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{Job, JobState};
use tenure_client::{NewJob, OwnCertificate, TlsFiles};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::{Fleet, certificates};
use crate::clock::Moment;
use crate::intervals::{Log, Run};
use crate::process::environment;
use crate::script::Script;
use crate::wait::{PATIENCE, level, until};
use crate::{binary, tag};

/// What a command of `tenure` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its exit code; −1 if a signal ended it.
    pub code: i32,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Fleet {
    /// A job of a kind that does what the script says.
    pub fn job(kind: &str, script: &Script) -> NewJob {
        NewJob::new(kind).payload(script.to_string()).content_type("text/plain")
    }

    /// Enqueues such a job, and returns its id.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn enqueue(&self, kind: &str, script: &Script) -> anyhow::Result<String> {
        Ok(self.client.enqueue(&Self::job(kind, script)).await?.job.id)
    }

    /// Runs a command of `tenure` against the server.
    ///
    /// # Errors
    /// If it does not start, or does not end in time.
    pub async fn cli(&self, args: &[&str]) -> anyhow::Result<Ran> {
        let mut command = std::process::Command::new(binary::tenure()?);
        environment(&mut command, &self.mark);
        command.args(args).env("TENURE_SERVER", self.endpoint()).stdin(Stdio::null());
        if self.hosts.is_some() {
            let TlsFiles { ca, own } = certificates::of_operator(self.directory());
            command.arg("--tls-ca").arg(ca);
            if let Some(OwnCertificate { cert, key }) = own {
                command.arg("--tls-cert").arg(cert).arg("--tls-key").arg(key);
            }
        }
        let ended = tokio::time::timeout(PATIENCE * 2, Command::from(command).kill_on_drop(true).output());
        let output = ended.await.with_context(|| format!("tenure {args:?} does not end"))??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Ok(Ran { code, stdout: text(&output.stdout), stderr: text(&output.stderr) })
    }

    /// Everything that the jobs wrote so far.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn log(&self) -> anyhow::Result<Log> {
        Log::read(&self.path("intervals.log"))
    }

    /// Opens a gate: every job that waits for it goes on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(&self, gate: &str) -> anyhow::Result<()> {
        File::create(self.path("gates").join(gate)).context("a gate cannot be opened")?;
        Ok(())
    }

    /// Whether a gate is open.
    pub fn is_open(&self, gate: &str) -> bool {
        self.path("gates").join(gate).exists()
    }

    /// Waits for the start of the `nth` execution of a job, from 1.
    ///
    /// # Errors
    /// If it does not start within `within`.
    pub async fn started(&self, job: &str, nth: usize, within: Duration) -> anyhow::Result<Run> {
        until(&format!("execution {nth} of {job} starts"), within, async || {
            let log = self.log().map_err(|error| error.to_string())?;
            let runs: Vec<&Run> = log.of(job).collect();
            match runs.get(nth.saturating_sub(1)) {
                Some(&run) => Ok(run.clone()),
                None => Err(format!("{} executions; {}", runs.len(), self.describe(job).await)),
            }
        })
        .await
    }

    /// Waits until nothing of an execution lives; returns the moment at which that was seen.
    ///
    /// # Errors
    /// If something lives after `within`.
    pub async fn gone(&self, token: u64, within: Duration) -> anyhow::Result<Moment> {
        until(&format!("the tree of token {token} is gone"), within, async || {
            let alive = tag::of_token(&self.mark, token);
            level(alive.is_empty(), || format!("{alive:?}")).map(|()| Moment::now())
        })
        .await
    }

    /// Waits until a job stands in a state, and returns it.
    ///
    /// # Errors
    /// If it does not within `within`.
    pub async fn state(&self, job: &str, state: JobState, within: Duration) -> anyhow::Result<Job> {
        self.job_when(job, &format!("{state:?}"), within, |job| job.state() == state).await
    }

    /// Waits until a job is as wanted, and returns it.
    ///
    /// # Errors
    /// If it is not within `within`.
    pub async fn job_when(
        &self,
        job: &str,
        what: &str,
        within: Duration,
        wanted: impl Fn(&Job) -> bool,
    ) -> anyhow::Result<Job> {
        until(&format!("{job} is {what}"), within, async || {
            let found = self.client.get(job).await.map_err(|error| error.to_string())?;
            level(wanted(&found), || format!("{found:?}"))?;
            Ok(found)
        })
        .await
    }

    /// Waits until every job is final and succeeded.
    ///
    /// # Errors
    /// If one did not, or not within `within`.
    pub async fn all_succeed(&self, jobs: &[String], within: Duration) -> anyhow::Result<()> {
        let deadline = Moment::now().plus(within);
        for job in jobs {
            let left = deadline.since(Moment::now()).max(Duration::from_millis(1));
            let waited = self.client.wait(job, Some(left)).await?;
            ensure!(waited.done, "not final within {within:?}: {}", self.describe(job).await);
            ensure!(waited.job.state() == JobState::Succeeded, "{}", self.describe(job).await);
        }
        Ok(())
    }

    /// A figure of `/metrics`: the sum over its series whose labels contain `labels`.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn metric(&self, name: &str, labels: &str) -> anyhow::Result<f64> {
        let text = self.http("/metrics").await?;
        let series = text.lines().filter_map(|line| line.rsplit_once(' '));
        let ours = series.filter(|(key, _)| {
            key.split_once('{').map_or(*key, |(name, _)| name) == name && key.contains(labels)
        });
        Ok(ours.filter_map(|(_, value)| value.parse::<f64>().ok()).sum())
    }

    /// The answer of the server's HTTP port, head included.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn http(&self, path: &str) -> anyhow::Result<String> {
        let exchange = async {
            let mut stream = TcpStream::connect(self.http).await?;
            stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            anyhow::Ok(answer)
        };
        tokio::time::timeout(PATIENCE, exchange).await.context("no answer over HTTP")?
    }

    /// All that the server tells of a job, for messages.
    pub async fn describe(&self, job: &str) -> String {
        match self.client.explain(job).await {
            Ok(explained) => format!("{explained:#?}"),
            Err(error) => error.to_string(),
        }
    }

    /// How many jobs stand in each state.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn states(&self) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut states = BTreeMap::new();
        let filter = tenure_client::proto::ListJobsRequest { page_size: 1_000, ..Default::default() };
        let mut jobs = self.client.list(filter);
        while let Some(job) = jobs.next().await? {
            *states.entry(format!("{:?}", job.state())).or_insert(0) += 1;
        }
        Ok(states)
    }
}

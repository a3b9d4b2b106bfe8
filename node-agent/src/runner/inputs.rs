//! What an execution goes on from: the state that an earlier one left, and how other jobs ended, as files.
//!
//! Responsible for fetching them page by page, and for their form on the disk. Not responsible for who they are (the
//! server knows), nor for when (`attempt.rs`: once the attempt may start).
//!
//! Invariants: the job finds all of them, in order, or is not started; who is told to stop waits for none of them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt as _;
use ring::digest::{Context, SHA256};
use serde::Serialize;
use tenure_proto::limits;
use tenure_proto::node::v1::{InputResult, input_result::Answer};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;
use tonic::Status;

use super::Orders;
use super::bounds::unless_over;
use super::socket::{Calls, Lease, is_away};
use crate::clock::Clock;
use crate::config::Account;
use crate::own_rule::OwnRule;

/// Before a large result is asked for again.
const AGAIN: Duration = Duration::from_millis(500);

/// Where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inputs {
    /// The state of the execution before, if it left one.
    pub(super) state: Option<PathBuf>,
    /// The list of how others ended.
    pub(super) results: PathBuf,
}

/// Why they are not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The server says no, or is away.
    #[error("the server does not give them")]
    Server(#[source] Status),
    /// The disk says no.
    #[error("they cannot be written")]
    Disk(#[source] io::Error),
    /// A thread ended early.
    #[error("writing them ended early")]
    Thread(#[source] tokio::task::JoinError),
    /// The attempt is to stop, or its lease is over on this node.
    #[error("nobody waits for them any more")]
    Over(OwnRule),
}

impl From<OwnRule> for Error {
    fn from(rule: OwnRule) -> Self {
        Self::Over(rule)
    }
}

/// Who asks, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    /// The way to the server.
    pub(super) calls: &'a Calls,
    /// Under which lease.
    pub(super) lease: &'a Lease,
    /// Nothing more is waited for once they say stop. What is being written then is written: its directory can be removed.
    pub(super) orders: &'a watch::Receiver<Orders>,
    /// Of their deadline.
    pub(super) clock: Clock,
}

impl Asker<'_> {
    /// An answer of the server, unless nobody waits for it any more.
    async fn ask<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Error> {
        unless_over(self.orders, self.clock, call).await?.map_err(Error::Server)
    }
}

/// One line of the list.
#[derive(Serialize)]
struct Line {
    index: u32,
    job_id: String,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Fetches and writes them; what an earlier try left is replaced. `user`: set if another one than the agent's runs the job.
pub(super) async fn fetch(
    asker: Asker<'_>,
    attempt_dir: &Path,
    user: Option<&Account>,
) -> Result<Inputs, Error> {
    let dir = attempt_dir.join("inputs");
    let made = dir.clone();
    on_disk(move || {
        match fs::remove_dir_all(&made) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        DirBuilder::new().mode(0o700).create(&made)
    })
    .await?;
    let mut inputs = Inputs { state: None, results: dir.join("results.json") };
    let mut lines = Vec::new();
    let mut from = 0;
    loop {
        let page = asker.ask(asker.calls.child_results(asker.lease, Vec::new(), (from, true))).await?;
        if let Some(state) = page.state {
            let path = dir.join("state.json");
            inputs.state = Some(path.clone());
            on_disk(move || write(&path, &state.data)).await?;
        }
        for large in page.results.iter().filter(|one| one.uploaded.is_some()) {
            fetch_large(asker, &dir, large).await?;
        }
        let place = dir.clone();
        let read =
            move || page.results.into_iter().map(|one| line(&place, one)).collect::<io::Result<Vec<_>>>();
        lines.extend(on_disk(read).await?);
        from = page.next_index;
        if from == 0 {
            break;
        }
    }
    let (results, user) = (inputs.results.clone(), user.cloned());
    on_disk(move || {
        write(&results, &serde_json::to_vec(&lines).map_err(io::Error::other)?)?;
        // Only now: until here nobody else could reach into it.
        user.map_or(Ok(()), |user| give(&dir, &user))
    })
    .await?;
    Ok(inputs)
}

/// Writes a result that no page holds to where its line will name it. A server that has no place for it now is asked again
/// for this one: what was fetched before it stays.
async fn fetch_large(asker: Asker<'_>, dir: &Path, one: &InputResult) -> Result<(), Error> {
    loop {
        match try_large(asker, dir, one).await {
            Err(Error::Server(status)) if is_away(&status) => {
                tracing::debug!(%status, job.id = one.job_id, "a result cannot be fetched now; again soon");
            }
            fetched => return fetched,
        }
        unless_over(asker.orders, asker.clock, asker.clock.sleep_until(asker.clock.now() + AGAIN)).await?;
    }
}

async fn try_large(asker: Asker<'_>, dir: &Path, one: &InputResult) -> Result<(), Error> {
    let Some(wanted) = &one.uploaded else { return Ok(()) };
    let mut messages = asker.ask(asker.calls.fetch_result(asker.lease, one.job_id.clone())).await?;
    let path = dir.join(one.index.to_string());
    let file = on_disk(move || {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        new_file(&path)
    })
    .await?;
    let mut file = tokio::fs::File::from_std(file);
    let mut sum = Context::new(&SHA256);
    loop {
        let next = async {
            let next = tokio::time::timeout(limits::TRANSFER_SILENCE, messages.next()).await;
            next.map_err(|_| Status::deadline_exceeded("nothing came"))?.transpose()
        };
        let Some(bytes) = asker.ask(next).await? else { break };
        sum.update(&bytes);
        file.write_all(&bytes).await.map_err(Error::Disk)?;
    }
    file.flush().await.map_err(Error::Disk)?;
    if sum.finish().as_ref() == &*wanted.sha256 {
        Ok(())
    } else {
        Err(Error::Server(Status::data_loss("the bytes of a result are not those that its checksum names")))
    }
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(Error::Thread)?.map_err(Error::Disk)
}

fn line(dir: &Path, one: InputResult) -> io::Result<Line> {
    let state = one.state().as_str_name().trim_start_matches("JOB_STATE_").to_ascii_lowercase();
    let state = if state == "unspecified" { "missing".to_owned() } else { state };
    let mut line = Line {
        index: one.index,
        job_id: one.job_id,
        state,
        result_file: None,
        content_type: None,
        partial: one.partial,
        error: None,
    };
    match one.answer {
        Some(Answer::Result(result)) => {
            let path = dir.join(one.index.to_string());
            write(&path, &result.data)?;
            (line.result_file, line.content_type) = (Some(path), Some(result.content_type));
        }
        Some(Answer::Error(error)) => line.error = Some(error),
        None => {
            // It is there already.
            line.result_file = one.uploaded.as_ref().map(|_| dir.join(one.index.to_string()));
            line.content_type = one.uploaded.map(|result| result.content_type);
        }
    }
    Ok(line)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    new_file(path)?.write_all(bytes)
}

fn new_file(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Makes everything the job's: it may read and change what is its own.
fn give(dir: &Path, user: &Account) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        std::os::unix::fs::lchown(entry?.path(), Some(user.uid), Some(user.gid))?;
    }
    std::os::unix::fs::lchown(dir, Some(user.uid), Some(user.gid))
}

#[cfg(test)]
mod tests {
    use tenure_proto::node::v1::ResultBytes;
    use tenure_proto::v1::JobState;

    use super::*;
    use crate::clock::Mono;

    #[tokio::test]
    async fn who_is_told_to_stop_does_not_wait_for_a_server() {
        let dir = tempfile::tempdir().unwrap();
        let (calls, _session) = Calls::new("n1".to_owned());
        let lease = Lease { job: "j".to_owned(), token: crate::holdings::FencingToken(1) };
        let clock = Clock::default();
        for (gone_by, abandon, rule) in
            [(Mono::MAX, true, OwnRule::Draining), (Mono::ZERO, false, OwnRule::CutOff)]
        {
            let (_sender, orders) = watch::channel(Orders { gone_by, abandon, ..Orders::default() });
            let asker = Asker { calls: &calls, lease: &lease, orders: &orders, clock };
            let told = fetch(asker, dir.path(), None).await.unwrap_err();
            assert!(matches!(&told, Error::Over(why) if *why == rule), "{told:?}");
        }
    }

    #[test]
    fn a_line_says_how_one_ended_and_where_its_result_is() {
        let dir = tempfile::tempdir().unwrap();
        let result = ResultBytes { data: "found".into(), content_type: "text/plain".to_owned() };
        let good = InputResult {
            index: 3,
            job_id: "a".to_owned(),
            state: JobState::Succeeded.into(),
            answer: Some(Answer::Result(result)),
            partial: true,
            uploaded: None,
        };
        let shown = serde_json::to_value(line(dir.path(), good).unwrap()).unwrap();
        assert_eq!((&shown["index"], &shown["state"]), (&3.into(), &"succeeded".into()));
        assert_eq!(shown["partial"], true);
        let path = shown["result_file"].as_str().unwrap();
        assert_eq!(fs::read(path).unwrap(), b"found");
        let answer = Some(Answer::Error("there is no such job".to_owned()));
        let gone = InputResult { index: 4, job_id: "b".to_owned(), answer, ..InputResult::default() };
        let shown = serde_json::to_value(line(dir.path(), gone).unwrap()).unwrap();
        let text = "{\"error\":\"there is no such job\",\"index\":4,\"job_id\":\"b\",\"state\":\"missing\"}";
        assert_eq!(shown, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }
}

//! What an earlier agent left, in the runner's words: attempts to follow, ends to spool, trees to wait for.
//!
//! Responsible for reporting each leftover exactly like an attempt of this agent, and for removing its directory. Not
//! responsible for finding, taking over and killing it (`leftovers.rs`), nor for following what was taken over
//! (`attempt.rs`).
//!
//! Invariant: an end whose command had ended is in the spool before [`begin`] ends, so that Hello lists it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_proto::node::v1::Report;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::attempt::remove;
use super::bounds::Bounds;
use super::indexes::Assigned;
use super::socket::{Said, Stand, Wait};
use super::upload::{self, Large, Limits};
use super::workspace::{Found, Memo, Workspace};
use super::{Error, Event, Shared, checkpoint, detach, logs, outcome, words};
use crate::holdings::{self, End, FencingToken, Waiting};
use crate::leftovers::{self, Change, Leftovers};
use crate::output::Captured;
use crate::shim::{Cause, ExitRecord, Shim, VERSION};
use crate::spool::Written;

/// What a drain leaves the upload of a result that an earlier agent's attempt left: the grace of its kind is not known any more.
const DRAIN_GRACE: Duration = Duration::from_secs(10);

/// A tree of an earlier agent that is being killed: held until it is reaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// Its lease.
    pub token: FencingToken,
    /// Its job.
    pub job: String,
    /// The node slots that it takes, as far as they are known.
    pub slots: BTreeMap<String, u32>,
}

/// An attempt of an earlier agent that was taken over: held as if this agent had started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Its lease.
    pub token: FencingToken,
    /// Its job.
    pub job: String,
    /// What it takes, and how it stands.
    pub held: holdings::Adopted,
}

/// Everything that an earlier agent left.
#[derive(Debug, Default)]
pub struct Before {
    /// What goes on.
    pub adopted: Vec<Adopted>,
    /// What is being killed.
    pub inherited: Vec<Inherited>,
}

/// What the task of an adopted attempt needs.
pub(super) struct Followed {
    pub(super) adopted: Adopted,
    pub(super) shim: Shim,
    pub(super) workspace: Workspace,
    pub(super) memo: Memo,
    /// Its slots have numbers.
    pub(super) numbered: bool,
}

struct Left {
    job: String,
    workspace: Workspace,
    memo: Option<Memo>,
    /// The numbers of its slots that it has.
    assigned: Assigned,
    /// What it has said of itself.
    said: Said,
    /// Nothing of it ran: nothing is said of it.
    silent: bool,
    /// It had ended before this agent looked: whatever ended it, this agent did not.
    ended: bool,
}

/// Scans, spools what had ended, and leaves a task behind that waits for what is being killed. What was taken over is
/// the caller's to follow.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    tasks: &mut JoinSet<Option<FencingToken>>,
) -> Result<(Vec<Followed>, Vec<Inherited>), Error> {
    let options = leftovers::Options {
        state_dir: shared.options.shim.state_dir.clone(),
        attempts_dir: shared.options.attempts_dir.clone(),
        boot_id: shared.options.boot_id.clone(),
        clock: shared.options.clock,
        copy: shared.options.copy,
        end_all: shared.options.end_all,
        cgroups: shared.options.cgroups.clone(),
    };
    let (found, killing) = leftovers::scan(&options).await.map_err(Error::Leftovers)?;
    let mut followed = Vec::new();
    let mut inherited = Vec::new();
    let mut left = BTreeMap::new();
    for leftover in found {
        let token = FencingToken(leftover.token);
        let one = describe(&leftover.dir, leftover.job.clone(), &leftover.found).await;
        if let leftovers::Found::Adopted(adopted) = leftover.found {
            shared.indexes.hold(token, &one.assigned);
            followed.push(follow(token, one, *adopted));
            continue;
        }
        let uploads = match &leftover.found {
            leftovers::Found::Ended(record) => may_upload(shared, &one, record).await,
            leftovers::Found::NeverStarted
            | leftovers::Found::Elsewhere
            | leftovers::Found::Stopping
            | leftovers::Found::Adopted(_) => false,
        };
        // What is gone for certain is not held: in the spool and not held, that is what a Hello says of it. But for a result
        // that has to be uploaded first, under its lease.
        if !one.silent && (!leftover.gone || uploads) {
            shared.indexes.hold(token, &one.assigned);
            let slots = one.memo.as_ref().map(|memo| memo.slots.clone()).unwrap_or_default();
            inherited.push(Inherited { token, job: leftover.job, slots });
            // It may have to wait for a server that takes its result: it hears until when.
            shared.orders().insert(token, watch::Sender::default());
        }
        if let leftovers::Found::Ended(record) = leftover.found {
            tracing::info!(
                lease.token = token.0,
                cause = record.cause.as_str(),
                "an attempt ended without its agent"
            );
            match outcome::end_of(&record, None) {
                End::Finished if uploads => {}
                End::Finished => {
                    let (report, _) = finished(&one, *record, shared.limits()).await;
                    write(shared, report).await;
                }
                // It says that the tree is gone.
                End::Returned if leftover.gone => write(shared, returned(shared, &one, &record).await).await,
                End::Returned => {}
            }
        }
        left.insert(token, one);
    }
    if !inherited.is_empty() {
        tracing::warn!(
            trees = inherited.len(),
            "an earlier agent left attempts; what lives of them is being killed"
        );
    }
    let shared = Arc::clone(shared);
    tasks.spawn(async move {
        wait(shared, killing, left).await;
        None
    });
    Ok((followed, inherited))
}

fn follow(token: FencingToken, one: Left, adopted: leftovers::Adopted) -> Followed {
    let memo = one.memo.unwrap_or_else(|| {
        tracing::error!(
            lease.token = token.0,
            "what an attempt takes is not known any more; its result may be lost"
        );
        Memo::default()
    });
    let leftovers::Adopted { shim, gone_by, started, stopping, lease, grace } = adopted;
    let (slots, waiting) = holds(&memo, one.said.wait.as_ref());
    let held = holdings::Adopted { slots, lease, grace, gone_by, started, stopping, waiting };
    let adopted = Adopted { token, job: one.job, held };
    let numbered = !one.assigned.is_empty();
    Followed { adopted, shim, workspace: one.workspace, memo, numbered }
}

/// What an attempt holds that an earlier agent started: it may wait for others, or have waited.
fn holds(memo: &Memo, wait: Option<&Wait>) -> (BTreeMap<String, u32>, Option<Waiting>) {
    let mut slots = memo.slots.clone();
    let waiting = wait.and_then(|wait| match &wait.stand {
        Stand::Asked => Some(Waiting { epoch: wait.epoch, ..Waiting::default() }),
        Stand::Parked { kept } => Some(Waiting { epoch: wait.epoch, kept: kept.clone(), parked: true }),
        Stand::Over { kept: Some(kept), .. } => {
            slots.clone_from(kept);
            None
        }
        Stand::Over { kept: None, .. } | Stand::Refused { .. } => None,
    });
    (slots, waiting)
}

async fn describe(dir: &Path, job: String, found: &leftovers::Found) -> Left {
    let workspace = Workspace::at(dir);
    let reader = workspace.clone();
    let read = move || (reader.memo(), reader.assigned(), Said::read(reader.dir()));
    let read = tokio::task::spawn_blocking(read).await;
    let (memo, assigned, said) = read.unwrap_or_default();
    let (silent, ended) = match found {
        leftovers::Found::NeverStarted | leftovers::Found::Elsewhere => (true, false),
        leftovers::Found::Stopping | leftovers::Found::Adopted(_) => (false, false),
        leftovers::Found::Ended(_) => (false, true),
    };
    Left { job, workspace, memo, assigned, said, silent, ended }
}

/// Follows the killing until nothing is left.
async fn wait(shared: Arc<Shared>, mut killing: Leftovers, mut left: BTreeMap<FencingToken, Left>) {
    let mut alarmed = BTreeSet::new();
    let mut ending = JoinSet::new();
    while let Some(change) = killing.next().await {
        match change {
            Change::Unkillable { token } => {
                let token = FencingToken(token);
                if alarmed.insert(token) {
                    tracing::error!(lease.token = token.0, "a tree of an earlier agent cannot be killed");
                }
                shared.tell(Event::Unkillable { token }).await;
            }
            Change::Gone { token, record } => {
                let token = FencingToken(token);
                if let Some(one) = left.remove(&token) {
                    // Each on its own: one may wait for a server that takes its result.
                    let shared = Arc::clone(&shared);
                    ending.spawn(async move { gone(&shared, token, one, record).await });
                }
            }
        }
    }
    while let Some(ended) = ending.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "reporting an attempt of an earlier agent ended early");
        }
    }
}

async fn gone(shared: &Arc<Shared>, token: FencingToken, one: Left, record: Option<Box<ExitRecord>>) {
    // Before anybody hears that its slots are free.
    shared.indexes.release(token);
    if one.silent {
        return remove(one.workspace).await;
    }
    let spool = Arc::clone(shared);
    let known = tokio::task::spawn_blocking(move || spool.spool.contains(token)).await.unwrap_or(false);
    let mut written = Written::Durable;
    let mut gave_back = false;
    if !known {
        let record = record.map_or_else(|| nobody_saw(token, &one.job), |record| *record);
        // It ran, the agent that should have held it died, and this one has told its shim to end: its node's fault, a
        // loss. A shim that was told by somebody else, as by a host that shuts down, is a return.
        let lost = record.cause == Cause::Terminated && record.started && !one.ended;
        let error = "its agent died, and the next one stopped it".to_owned();
        let record = if lost { ExitRecord { cause: Cause::Lost, error, ..record } } else { record };
        let (report, end) = match outcome::end_of(&record, None) {
            End::Returned => (returned(shared, &one, &record).await, End::Returned),
            End::Finished => uploaded(shared, token, &one, record).await,
        };
        gave_back = end == End::Returned;
        written = shared.spool(report, end).await;
    }
    shared.orders().remove(&token);
    if !gave_back {
        shared.tell(Event::Reaped { token }).await;
    }
    if written == Written::Durable {
        shared.readers.gone(token).await;
        remove(one.workspace).await;
    }
}

/// What is said of one that has ended, once a server has taken its result, if that is too large for a report; or what is said
/// instead, if it is stopped before.
async fn uploaded(shared: &Shared, token: FencingToken, one: &Left, record: ExitRecord) -> (Report, End) {
    let heard = shared.orders().get(&token).map(watch::Sender::subscribe);
    // Without orders it is of one that nobody holds: it has nothing to upload.
    let orders = heard.unwrap_or_else(|| watch::Sender::default().subscribe());
    let mut bounds = Bounds::new(orders, shared.options.clock, DRAIN_GRACE, None);
    let limits = if may_upload(shared, one, &record).await {
        upload::limits(shared, &mut bounds).await
    } else {
        shared.limits()
    };
    let (report, large) = finished(one, record, limits).await;
    match upload::unless_stopped(shared, report, large, &mut bounds).await {
        Ok(report) => (report, End::Finished),
        Err((report, reason)) => outcome::stopped_meanwhile(*report, reason, saved(&one.workspace).await),
    }
}

async fn returned(shared: &Shared, one: &Left, record: &ExitRecord) -> Report {
    let part = read_part(&one.workspace, one.memo.as_ref(), record, shared.limits()).await;
    let saved = saved(&one.workspace).await;
    words::with(outcome::returned(record, None, part, saved), record, &one.said, None)
}

/// What an attempt that is given back has written by its end, if anything of its kind is known.
pub(super) async fn read_part(
    workspace: &Workspace,
    memo: Option<&Memo>,
    record: &ExitRecord,
    limits: Limits,
) -> Found {
    let Some(memo) = memo.filter(|_| outcome::leaves_part(record)).cloned() else { return Found::Nothing };
    let (workspace, record) = (workspace.clone(), record.clone());
    let read = tokio::task::spawn_blocking(move || workspace.read_result(&memo, &record, limits));
    read.await.unwrap_or(Found::Nothing)
}

/// Whether its result is larger than a report holds, so that a server has to take it first.
async fn may_upload(shared: &Shared, one: &Left, record: &ExitRecord) -> bool {
    outcome::end_of(record, None) == End::Finished && upload::is_needed(shared, &one.workspace, record).await
}

async fn finished(one: &Left, record: ExitRecord, limits: Limits) -> (Report, Option<Large>) {
    let (workspace, memo, said) = (one.workspace.clone(), one.memo.clone(), one.said.clone());
    let fallback =
        outcome::finished(&record, Found::Unreadable("its directory cannot be read".to_owned()), None);
    let report = tokio::task::spawn_blocking(move || {
        let memo_uid = memo.as_ref().map(|memo| memo.uid);
        let result = match memo {
            _ if !outcome::leaves_result(&record) => Found::Nothing,
            Some(memo) => workspace.read_result(&memo, &record, limits),
            None => Found::Unreadable("nothing is known of its kind".to_owned()),
        };
        let waits = memo_uid.filter(|_| words::wants_to_wait(&record, &said));
        let wanted = waits.and_then(|uid| detach::read(&workspace, uid));
        let large = result.large();
        let report = outcome::finished(&record, result, checkpoint::read(workspace.dir()));
        let report = words::with(report, &record, &said, wanted);
        (logs::with_tail(report, &record, workspace.dir()), large)
    });
    report.await.unwrap_or((fallback, None))
}

/// The newest checkpoint of an attempt that is over.
async fn saved(workspace: &Workspace) -> Option<Vec<u8>> {
    let dir = workspace.dir().to_owned();
    tokio::task::spawn_blocking(move || checkpoint::read(&dir)).await.ok().flatten()
}

/// Spools without telling: nobody listens before the session starts, which begins with the spool.
async fn write(shared: &Arc<Shared>, report: Report) {
    let spool = Arc::clone(shared);
    let written = tokio::task::spawn_blocking(move || spool.spool.write(&report)).await;
    if written.is_err() {
        tracing::error!("spooling an end ended early; it is tried again once its tree is gone");
    }
}

fn nobody_saw(token: FencingToken, job: &str) -> ExitRecord {
    ExitRecord {
        version: VERSION,
        job: job.to_owned(),
        token: token.0,
        started: true,
        cause: Cause::Lost,
        exit_code: None,
        signal: None,
        error: "its agent and its shim died; what was left of it was killed".to_owned(),
        ran_for: Duration::ZERO,
        stdout: Captured::default(),
        stderr: Captured::default(),
        notified: false,
    }
}

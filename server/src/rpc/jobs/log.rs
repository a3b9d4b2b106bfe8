//! What the executions of a job print: live from the node of the one that runs, and what was kept of those that have ended.
//!
//! Responsible for the way from one execution to the next, and for going on where a node's stream broke. Not responsible
//! for the nodes' streams (`crate::logs`), nor for how many may read at once (`watch::Room`).
//!
//! Invariants: a piece is taken from a node when the transport has room for it, so that a slow reader holds a few pieces and
//! no queue; what a node has not said of an execution, the end that was kept of it says, and what neither does is told as
//! dropped.

mod asked;
mod live;

use std::{future::ready, pin::Pin};

use futures_util::{Stream, StreamExt as _, stream};
use tenure_proto::v1::{self, LogChunk, LogStream, read_log_response::Said};
use tenure_scheduler::{FencingToken, NodeName};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use self::asked::Asked;
use super::{
    read,
    watch::{Place, Room},
};
use crate::{
    outbox::JobWatch,
    rpc::{api::Api, auth::Caller, status::No},
};

/// Messages that wait for the transport, 64 KiB each.
const MOST_WAITING: usize = 2;

/// Rows of executions that are asked for at once.
const EXECUTIONS: u32 = 1000;

/// The messages of one reader.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<v1::ReadLogResponse, Status>> + Send>>;

/// One execution.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Execution {
    token: FencingToken,
    attempt: u32,
    /// None: that is not known any more.
    node: Option<NodeName>,
    ended: bool,
}

/// How far an execution was told: the place of the next byte of each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Told {
    stdout: u64,
    stderr: u64,
}

/// How many last lines are wanted of each stream whose place is not known yet; none: it is, or everything is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tail {
    stdout: Option<u32>,
    stderr: Option<u32>,
}

/// One reader.
struct Reading {
    api: Api,
    caller: Caller,
    asked: Asked,
    changes: JobWatch,
    /// Cancelled when this server leads no more, or ends.
    over: CancellationToken,
    out: mpsc::Sender<Result<v1::ReadLogResponse, Status>>,
    /// Only the last lines of the first execution are wanted.
    tail: Tail,
    told: Told,
    _place: Place,
}

/// Why a reader hears nothing more.
#[derive(Debug)]
enum End {
    /// It went away.
    Gone,
    /// It is told why.
    No(Box<No>),
}

impl From<No> for End {
    fn from(no: No) -> Self {
        Self::No(Box::new(no))
    }
}

/// Opens a log.
///
/// # Errors
/// If the job is not there for this caller, it has too many watches open, or there is no such execution.
pub(super) async fn open(
    api: &Api,
    room: &Room,
    caller: Caller,
    request: &v1::ReadLogRequest,
) -> Result<Messages, No> {
    let asked = Asked::of(request)?;
    let over = api.handle.ways()?.over;
    read::look(api, &caller, asked.job).await?;
    let place = room.place(caller.enqueues_as().as_str(), caller.most_watches())?;
    // It watches from here on and reads afterwards: a change between the two is told by the watch.
    let changes = api.handle.watch_job(asked.job)?;
    let (out, messages) = mpsc::channel(MOST_WAITING);
    let told = asked.place.map_or_else(Told::default, |place| Told {
        stdout: place.stdout_offset,
        stderr: place.stderr_offset,
    });
    let tail = Tail::of(&asked);
    let api = api.clone();
    let reading = Reading { api, caller, asked, changes, over, out, tail, told, _place: place };
    let first = reading.first().await?;
    // It works when its messages are asked for, and ends with them.
    let work = stream::once(reading.run(first)).filter_map(|()| ready(None));
    Ok(Box::pin(stream::select(work, ReceiverStream::new(messages))))
}

impl Reading {
    /// Says everything, and why there is no more if that is not the end.
    async fn run(mut self, first: Option<Execution>) {
        if let Err(End::No(no)) = self.go_through(first).await {
            self.api.count(&no);
            drop(self.out.send(Err(no.into_status())).await);
        }
    }

    /// One execution after the other, until the job is final.
    async fn go_through(&mut self, first: Option<Execution>) -> Result<(), End> {
        let mut next = first;
        let mut done = self.asked.token.unwrap_or(FencingToken::NONE);
        loop {
            if let Some(execution) = next.take() {
                self.execution(&execution).await?;
                done = execution.token;
                (self.told, self.tail) = (Told::default(), Tail::default());
                if !self.asked.follow {
                    return Ok(());
                }
            }
            let (all, more) = self.executions().await?;
            next = all.into_iter().find(|execution| execution.token > done);
            let other = |attempt| next.as_ref().is_some_and(|next| next.attempt != attempt);
            if self.asked.attempt.is_some_and(other) {
                return Ok(());
            }
            if next.is_none() {
                if !more {
                    return Ok(());
                }
                self.changed().await?;
            }
        }
    }

    /// The execution to begin with; none: the job has not started, and it is waited for that.
    async fn first(&self) -> Result<Option<Execution>, No> {
        let (all, more) = self.executions().await?;
        let job = self.asked.job;
        if let Some(token) = self.asked.token {
            // One that left no row is over for a reader that goes on behind it.
            return match all.into_iter().find(|execution| execution.token == token) {
                None if !self.asked.follow => {
                    Err(No::log_not_found(job, "no execution of it has that token"))
                }
                named => Ok(named),
            };
        }
        if let Some(attempt) = self.asked.attempt {
            let newest = all.into_iter().rev().find(|execution| execution.attempt == attempt);
            return newest.map(Some).ok_or_else(|| No::log_not_found(job, "it had no such attempt yet"));
        }
        match all.into_iter().next_back() {
            Some(newest) => Ok(Some(newest)),
            None if self.asked.follow && more => Ok(None),
            None => Err(No::log_not_found(job, "it has not started")),
        }
    }

    /// Every execution, the oldest first, and whether more may come: of the attempt that was asked for, if one was.
    async fn executions(&self) -> Result<(Vec<Execution>, bool), No> {
        let now = read::look(&self.api, &self.caller, self.asked.job).await?;
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let (page, more) = read::attempts_page(&self.api, &now.job, after, EXECUTIONS).await?;
            all.extend(page.iter().map(|attempt| Execution {
                token: FencingToken(attempt.token),
                attempt: attempt.attempt,
                node: NodeName::parse(&attempt.node).ok(),
                ended: true,
            }));
            after = all.last().map(|execution| execution.token);
            if !more {
                break;
            }
        }
        // The rows are read later than the job: one that has ended meanwhile stands there.
        if let Some((token, node)) = now.runs()
            && all.iter().all(|execution| execution.token != token)
        {
            all.push(Execution { token, attempt: now.job.attempt(), node: Some(node), ended: false });
        }
        let over = self.asked.attempt.is_some_and(|attempt| attempt != now.job.attempt());
        Ok((all, !now.job.state.is_final() && !over))
    }

    /// Whether an execution runs.
    async fn runs(&self, token: FencingToken) -> Result<bool, No> {
        let now = read::look(&self.api, &self.caller, self.asked.job).await?;
        Ok(now.runs().is_some_and(|(runs, _)| runs == token))
    }

    async fn changed(&mut self) -> Result<(), End> {
        // All three only wait, so that losing one of them loses nothing.
        tokio::select! {
            biased;
            () = self.over.cancelled() => Err(No::from(self.api.handle.elsewhere()).into()),
            () = self.out.closed() => Err(End::Gone),
            () = self.changes.changed() => Ok(()),
        }
    }

    /// All of one execution.
    async fn execution(&mut self, execution: &Execution) -> Result<(), End> {
        if execution.ended {
            return self.ended(execution, true).await;
        }
        self.say_attempt(execution, "").await?;
        let Some(node) = execution.node.clone() else { return Ok(()) };
        self.live(execution, &node).await?;
        while self.runs(execution.token).await? {
            if !self.asked.follow {
                return Ok(());
            }
            self.changed().await?;
        }
        // What its node has not come to say.
        self.ended(&Execution { ended: true, ..execution.clone() }, false).await
    }

    /// What was kept of an execution that has ended, as far as it was not told.
    async fn ended(&mut self, execution: &Execution, announce: bool) -> Result<(), End> {
        let kept = self.api.handle.reader().log_tail(self.asked.job, execution.token).await;
        let kept = self.api.read(kept)?;
        if announce {
            let note = if kept.is_some() {
                ""
            } else {
                "nothing is kept of it: it printed nothing, was lost with its node, or ran in a worker"
            };
            self.say_attempt(execution, note).await?;
        }
        let Some(kept) = kept else { return Ok(()) };
        for (stream, end) in [(LogStream::Stdout, kept.stdout), (LogStream::Stderr, kept.stderr)] {
            if !self.asked.wants(stream) {
                continue;
            }
            let told = self.told.of(stream);
            let tail = self.tail.lines(stream);
            let skipped = tail.map_or(0, |lines| before_last_lines(&end.data, lines));
            let from = end.offset().saturating_add(skipped as u64).max(told);
            let data = usize::try_from(from - end.offset()).ok().filter(|at| *at < end.data.len());
            let data = data.map(|at| end.data.slice(at..)).unwrap_or_default();
            let offset = if data.is_empty() { end.total } else { from };
            // Of one of which only the end is wanted, nothing else is missing.
            let wanted = if tail.is_some() { from.min(offset) } else { told };
            let dropped = offset.saturating_sub(wanted);
            if !data.is_empty() || dropped > 0 {
                self.say_chunk(LogChunk { stream: stream.into(), offset, data, dropped }).await?;
            }
        }
        Ok(())
    }

    async fn say_attempt(&self, execution: &Execution, note: &str) -> Result<(), End> {
        let node = execution.node.as_ref().map(ToString::to_string).unwrap_or_default();
        let said = v1::LogAttempt {
            token: execution.token.0,
            attempt: execution.attempt,
            node,
            ended: execution.ended,
            note: note.to_owned(),
        };
        self.say(Said::Attempt(said)).await
    }

    async fn say_chunk(&mut self, chunk: LogChunk) -> Result<(), End> {
        *self.told.of_mut(chunk.stream()) = chunk.offset.saturating_add(chunk.data.len() as u64);
        self.say(Said::Chunk(chunk)).await
    }

    async fn say(&self, said: Said) -> Result<(), End> {
        // Cancel-safe: a message that is not taken is not said.
        tokio::select! {
            biased;
            () = self.over.cancelled() => Err(No::from(self.api.handle.elsewhere()).into()),
            sent = self.out.send(Ok(v1::ReadLogResponse { said: Some(said) })) => sent.map_err(|_| End::Gone),
        }
    }
}

impl Told {
    fn of(self, stream: LogStream) -> u64 {
        match stream {
            LogStream::Stdout | LogStream::Unspecified => self.stdout,
            LogStream::Stderr => self.stderr,
        }
    }

    fn of_mut(&mut self, stream: LogStream) -> &mut u64 {
        match stream {
            LogStream::Stdout | LogStream::Unspecified => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        }
    }
}

impl Tail {
    fn of(asked: &Asked) -> Self {
        let lines = asked.tail_lines.filter(|_| asked.place.is_none());
        let of = |stream| lines.filter(|_| asked.wants(stream));
        Self { stdout: of(LogStream::Stdout), stderr: of(LogStream::Stderr) }
    }

    fn lines(self, stream: LogStream) -> Option<u32> {
        match stream {
            LogStream::Stdout | LogStream::Unspecified => self.stdout,
            LogStream::Stderr => self.stderr,
        }
    }

    /// What a node is to be asked for: the place of one of them is not known.
    fn open(self) -> Option<u32> {
        self.stdout.or(self.stderr)
    }

    /// From here on the place of this one counts.
    fn begins(&mut self, stream: LogStream) {
        match stream {
            LogStream::Stdout | LogStream::Unspecified => self.stdout = None,
            LogStream::Stderr => self.stderr = None,
        }
    }
}

/// How many bytes stand before the last so many lines. A newline at the very end ends the last one.
fn before_last_lines(bytes: &[u8], lines: u32) -> usize {
    let Some(mut more) = lines.checked_sub(1) else { return bytes.len() };
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    for (place, _) in whole.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
        match more.checked_sub(1) {
            Some(left) => more = left,
            None => return place + 1,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_begin_where_a_line_begins() {
        let from = |bytes: &[u8], lines| bytes.len() - before_last_lines(bytes, lines);
        for (lines, length) in [(0, 0), (1, 2), (2, 4), (3, 6), (9, 6)] {
            assert_eq!(from(b"a\nb\nc\n", lines), length, "{lines} lines");
        }
        assert_eq!((from(b"a\nb", 1), from(b"", 3), from(b"\n\n", 1)), (1, 0, 1));
    }
}

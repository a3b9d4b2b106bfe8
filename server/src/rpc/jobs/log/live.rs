//! An execution that runs, live from its node, as often as that takes.
//!
//! A node whose stream breaks (its agent ends, its connection does) is asked again for what comes after the last piece, for
//! as long as the execution is taken to run.

use std::time::Duration;

use tenure_proto::v1::{LogChunk, LogPlace};
use tenure_scheduler::{FencingToken, NodeName};
use tokio::time::sleep;

use super::{End, Execution, Reading};
use crate::{
    logs::{FromNode, Pull, Unasked, Want},
    rpc::status::No,
};

/// Before a node is asked again that did not answer, or whose stream broke.
const AGAIN: Duration = Duration::from_secs(1);

/// How often in a row a stream that breaks is opened without a word; for somebody who does not follow, how often in all.
const TRIES: u32 = 3;

/// An execution that has ended, by its report, has its last pieces on their way for so long.
const LAST_PIECES: Duration = Duration::from_secs(3);

/// What a node's stream led to.
enum Ended {
    /// It said everything.
    Whole,
    /// It has nothing to say: why.
    Nothing(String),
    /// It broke.
    Broke,
}

impl Reading {
    /// Hands on what the node says, until it has said everything, has nothing to say, or the execution has ended.
    pub(super) async fn live(&mut self, execution: &Execution, node: &NodeName) -> Result<(), End> {
        let mut told = None;
        let mut tries = 0;
        loop {
            let mut nodes = self.api.logs.changes();
            let opened = match self.unless_ended(execution.token, self.open(execution, node)).await? {
                Some(opened) => opened,
                None => return Ok(()),
            };
            let before = self.told;
            let (why, broke) = match opened {
                Ok(pull) => match self.hand_on(execution, pull).await? {
                    Ended::Whole => return Ok(()),
                    // A node lets go of what has ended: the end that is kept says the rest.
                    Ended::Nothing(_) | Ended::Broke if !self.runs(execution.token).await? => return Ok(()),
                    Ended::Nothing(why) => {
                        return match self.asked.follow {
                            true => self.say_attempt(execution, &why).await,
                            false => Err(No::log_unavailable(self.asked.job, &why).into()),
                        };
                    }
                    Ended::Broke => (Unasked::Silent, true),
                },
                Err(why) => (why, false),
            };
            if self.told != before {
                (tries, told) = (0, None);
            }
            tries += 1;
            let again = if self.asked.follow { why.passes() } else { broke && tries < TRIES };
            if !self.asked.follow && !again {
                return Err(No::log_unavailable(self.asked.job, why.sentence()).into());
            }
            // One that breaks once is opened anew without a word.
            if told != Some(why) && (!broke || tries >= TRIES) {
                told = Some(why);
                self.say_attempt(execution, why.sentence()).await?;
            }
            if !again {
                return Ok(());
            }
            let pause = async {
                // Both only wait. One that comes back is asked at once.
                tokio::select! {
                    _ = nodes.changed(), if why == Unasked::Away => {}
                    () = sleep(AGAIN) => {}
                }
            };
            if self.unless_ended(execution.token, pause).await?.is_none() {
                return Ok(());
            }
        }
    }

    fn open(
        &self,
        execution: &Execution,
        node: &NodeName,
    ) -> impl Future<Output = Result<Pull, Unasked>> + use<> {
        let tail_lines = self.tail.open();
        let place = LogPlace { stdout_offset: self.told.stdout, stderr_offset: self.told.stderr };
        let want = Want {
            job: self.asked.job,
            token: execution.token,
            id: 0,
            stream: self.asked.stream,
            place: tail_lines.is_none().then_some(place),
            tail_lines,
            follow: self.asked.follow,
        };
        let (logs, node) = (self.api.logs.clone(), node.clone());
        async move { logs.open(&node, want).await }
    }

    async fn hand_on(&mut self, execution: &Execution, mut pull: Pull) -> Result<Ended, End> {
        // The execution has ended: what is on its way still comes.
        let mut last: Option<std::pin::Pin<Box<tokio::time::Sleep>>> = None;
        loop {
            let said = match &mut last {
                None => match self.unless_ended(execution.token, pull.next()).await? {
                    Some(said) => said,
                    None => {
                        last = Some(Box::pin(sleep(LAST_PIECES)));
                        continue;
                    }
                },
                // Cancel-safe: as documented there; the deadline stays.
                Some(deadline) => tokio::select! {
                    biased;
                    said = pull.next() => said,
                    () = deadline => return Ok(Ended::Whole),
                    () = self.out.closed() => return Err(End::Gone),
                },
            };
            match said {
                Some(FromNode::Chunk(chunk)) => {
                    let stream = chunk.stream();
                    let untold = self.untold(chunk);
                    self.tail.begins(stream);
                    match untold {
                        // It only says where last lines begin.
                        Some(chunk) if chunk.data.is_empty() && chunk.dropped == 0 => {
                            *self.told.of_mut(stream) = chunk.offset;
                        }
                        Some(chunk) => self.say_chunk(chunk).await?,
                        None => {}
                    }
                }
                Some(FromNode::Nothing(why)) => return Ok(Ended::Nothing(why)),
                Some(FromNode::End) => return Ok(Ended::Whole),
                None => return Ok(Ended::Broke),
            }
        }
    }

    /// What of a piece was not told yet, with what is missing before it.
    fn untold(&self, chunk: LogChunk) -> Option<LogChunk> {
        let told = self.told.of(chunk.stream());
        if !self.asked.wants(chunk.stream()) {
            return None;
        }
        let known = usize::try_from(told.saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
        if known == 0 {
            let begun = self.tail.lines(chunk.stream()).is_none();
            let dropped = if begun { chunk.offset - told } else { chunk.dropped };
            return Some(LogChunk { dropped, ..chunk });
        }
        let data = chunk.data.get(known..).filter(|data| !data.is_empty())?;
        let data = chunk.data.slice_ref(data);
        Some(LogChunk { offset: told, data, dropped: 0, ..chunk })
    }

    /// Waits for something, unless the execution ends before: then none.
    async fn unless_ended<T>(
        &mut self,
        token: FencingToken,
        waited: impl Future<Output = T>,
    ) -> Result<Option<T>, End> {
        let mut waited = std::pin::pin!(waited);
        loop {
            // Cancel-safe: what is waited for stays where it is, and the others only wait.
            tokio::select! {
                biased;
                waited = &mut waited => return Ok(Some(waited)),
                changed = self.changed() => changed?,
            }
            if !self.runs(token).await? {
                return Ok(None);
            }
        }
    }
}

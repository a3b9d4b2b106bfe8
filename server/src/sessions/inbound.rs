//! What one node says, in order, into the driver's inbox.
//!
//! Responsible for sequence numbers and credits: a session whose commands are still on their way is not read, which
//! HTTP/2 hands on to the node as a full window. A mistake of the node ends its session with every violation named.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{Stream, StreamExt};
use tenure_proto::node::v1::NodeMessage;
use tenure_scheduler::{Command, Held, NodeName, SessionId, Statement};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::Status;

use super::{
    BYTES_PER_CHILD, BYTES_PER_CREDIT, CREDITS, Carried, FromNode, Outgoing, Peer, Queued, seen::Sent,
};
use crate::rpc::{
    convert_node::{From, Said, said},
    decode,
    status::No,
};

/// The way in of one session.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) node: NodeName,
    pub(super) session: SessionId,
    /// To the driver.
    pub(super) inbox: mpsc::Sender<FromNode>,
    /// To this session's own way out, for answers that need no scheduler.
    pub(super) own: mpsc::Sender<Queued>,
    pub(super) sent: Arc<Mutex<Sent>>,
    pub(super) max_result_bytes: usize,
    credits: Arc<Semaphore>,
    /// Of the last message.
    seq: u64,
}

/// Why nothing more is read.
#[derive(Debug)]
pub(super) enum End {
    /// The node ended its stream, or its connection broke.
    Gone,
    /// The node made a mistake, or cannot be served: it is told why, and that is counted.
    Told(Box<No>),
    /// The session was closed from elsewhere, with this.
    Closed(Status),
}

impl Inbound {
    pub(super) fn new(
        node: NodeName,
        session: SessionId,
        inbox: mpsc::Sender<FromNode>,
        own: mpsc::Sender<Queued>,
        sent: Arc<Mutex<Sent>>,
        max_result_bytes: usize,
    ) -> Self {
        let credits = Arc::new(Semaphore::new(CREDITS));
        // Its Hello was the first.
        Self { node, session, inbox, own, sent, max_result_bytes, credits, seq: 1 }
    }

    /// Sends the Hello, with the way back. Its place among those that wait is its credit.
    pub(super) async fn begin(
        &self,
        hello: Command,
        peer: Peer,
        place: OwnedSemaphorePermit,
    ) -> Result<(), End> {
        let (session, attach, credit) = (self.session, Some(peer), Some(place));
        let from = FromNode { session, command: hello, carried: Carried::default(), attach, credit };
        self.inbox.send(from).await.map_err(|_| End::Gone)
    }

    /// Reads until the stream or the session ends.
    pub(super) async fn run(
        mut self,
        mut stream: impl Stream<Item = Result<NodeMessage, Status>> + Unpin,
    ) -> End {
        loop {
            let message = match next(&mut stream).await {
                Ok(message) => message,
                Err(end) => return end,
            };
            if let Err(end) = self.take(message).await {
                return end;
            }
        }
    }

    async fn take(&mut self, message: NodeMessage) -> Result<(), End> {
        let NodeMessage { seq, seen, body } = message;
        if seq != self.seq + 1 {
            return Err(told(No::invalid_field("seq", format!("is {seq} after {}", self.seq))));
        }
        self.seq = seq;
        let seen =
            self.sent.lock().unwrap_or_else(PoisonError::into_inner).translate(seen).map_err(|_| {
                told(No::invalid_field("seen", format!("is {seen}, and no message of that number was sent")))
            })?;
        let from = From { node: &self.node, session: self.session, seq, seen };
        for said in said(from, body, self.max_result_bytes).map_err(told)? {
            match said {
                Said::Command(command, carried) => self.send(command, carried).await?,
                // The way out is bounded, and read by the same task: if it is full the session is about to end.
                Said::Broken(answer) => drop(self.own.try_send(Box::new(Outgoing::Broken(answer)))),
            }
        }
        Ok(())
    }

    async fn send(&self, command: Command, carried: Carried) -> Result<(), End> {
        let bytes = bytes_of(&command, &carried);
        let weight = u32::try_from(1 + bytes / BYTES_PER_CREDIT).unwrap_or(u32::MAX);
        // Neither is ever closed while the driver lives.
        let credit = Arc::clone(&self.credits).acquire_many_owned(weight).await.map_err(|_| End::Gone)?;
        let from = FromNode { session: self.session, command, carried, attach: None, credit: Some(credit) };
        self.inbox.send(from).await.map_err(|_| End::Gone)
    }
}

/// What a command holds in memory beyond itself, or makes the driver read.
fn bytes_of(command: &Command, carried: &Carried) -> usize {
    let listed = if let Command::Heartbeat(heartbeat) = command { heartbeat.held.len() } else { 0 };
    listed * size_of::<Held>() + children_of(command) * BYTES_PER_CHILD + carried.len()
}

/// How many children an execution names that ended in order to wait for them.
fn children_of(command: &Command) -> usize {
    let Command::Report(report) = command else { return 0 };
    let Statement::Finished(finish) = &report.statement else { return 0 };
    finish.detach.as_ref().map_or(0, |detach| detach.children.len())
}

/// The next message of a stream.
pub(super) async fn next(
    stream: &mut (impl Stream<Item = Result<NodeMessage, Status>> + Unpin),
) -> Result<NodeMessage, End> {
    match stream.next().await {
        Some(Ok(message)) => Ok(message),
        Some(Err(status)) => Err(decode::meaning(&status).map_or(End::Gone, told)),
        None => Err(End::Gone),
    }
}

pub(super) fn told(no: No) -> End {
    End::Told(Box::new(no))
}

#[cfg(test)]
mod tests {
    use tenure_scheduler::{Detach, FencingToken, Finish, FinishedHow, JobId, Ordinal, Report, WaitPolicy};

    use super::*;

    fn finished(detach: Option<Detach>) -> Command {
        let finish = Finish { detach: detach.map(Box::new), ..Finish::new(FinishedHow::Detached) };
        Command::Report(Box::new(Report {
            node: NodeName::new("n1"),
            session: SessionId(1),
            seq: None,
            seen: Ordinal(0),
            job: JobId(uuid::Uuid::nil()),
            token: FencingToken(1),
            statement: Statement::Finished(finish),
            prior: None,
        }))
    }

    #[test]
    fn a_report_is_weighed_by_the_children_that_it_names() {
        let naming = |children: usize| {
            let detach = Detach {
                children: vec![JobId(uuid::Uuid::nil()); children],
                policy: WaitPolicy::All,
                max_wait: None,
                same_node: false,
                prior: Vec::new(),
            };
            bytes_of(&finished(Some(detach)), &Carried::default()) / BYTES_PER_CREDIT
        };
        assert_eq!(bytes_of(&finished(None), &Carried::default()), 0);
        assert_eq!([0, 63, 64, 10_000].map(naming), [0, 0, 1, 156]);
    }
}

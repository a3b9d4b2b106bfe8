//! What one node is told: from the driver's effects to the wire, payloads joined on the way.
//!
//! Responsible for never waiting with answers for payloads, for the numbers of wire messages, and for ending a session
//! whose node reads nothing. Payloads are read after the commit, off the driver, many in one statement. A payload that
//! is gone (its job was deleted meanwhile) drops its grant: it counts as sent, the node's next listing does not show
//! it, and the scheduler takes it as returned, which charges nobody; to start a command on an empty payload would.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use tenure_scheduler::{Command, JobId, Message, NodeName, Ordinal, SessionId};
use tenure_store::Reader;
use tokio::sync::mpsc;

use super::{
    Carried, FromNode, Joined, Queue, Queued, SOFT_OUTBOUND, Shared, Want, Wanted,
    assembly::{Assembly, Body, Frame, Next},
    inbound::{End, told},
    seen::Sent,
    slow_reader,
    task::Wire,
};
use crate::{
    chain::Chain,
    logs::{Attached, Logs},
    rpc::{
        convert_node::{Settings, server_message},
        status::No,
    },
};

/// A node that takes no message for so long does not read.
const STUCK: Duration = Duration::from_secs(30);

/// Messages taken out of the queue before they leave; more wait in it, where the driver sees them.
const MOST_ASSEMBLED: usize = 256;

/// How often payloads are asked for before the session ends: its grants are found again at the next Hello.
const FETCH_TRIES: u32 = 5;

/// Between two of those.
const FETCH_PAUSE: Duration = Duration::from_millis(200);

/// The way out of one session.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) node: NodeName,
    pub(super) session: SessionId,
    /// From the driver.
    pub(super) queue: mpsc::Receiver<Queued>,
    /// To the driver.
    pub(super) inbox: mpsc::Sender<FromNode>,
    pub(super) wire: Wire,
    pub(super) sent: Arc<Mutex<Sent>>,
    pub(super) shared: Arc<Shared>,
    pub(super) reader: Reader,
    pub(super) settings: Settings,
    pub(super) logs: Logs,
    /// Where its node is asked for logs; none: its agent does not know that.
    pub(super) own: Option<Queue>,
}

/// Payloads on their way.
type Fetch = Pin<Box<dyn Future<Output = Result<BTreeMap<JobId, Joined>, No>> + Send>>;

enum Input {
    Message(Queued),
    Payloads(Result<BTreeMap<JobId, Joined>, No>),
}

impl Outbound {
    /// Sends until the session ends.
    pub(super) async fn run(mut self) -> End {
        let mut assembly = Assembly::default();
        let mut fetch: Option<(Wanted, Fetch)> = None;
        // The newest `seen` that was told: an answer may overtake what was decided before it, `seen` never falls.
        let mut applied = 0;
        let mut attached: Option<Attached> = None;
        loop {
            while assembly.len() < MOST_ASSEMBLED
                && let Ok(outgoing) = self.queue.try_recv()
            {
                assembly.push(*outgoing);
            }
            self.unblock(assembly.len());
            if fetch.is_none() {
                fetch = self.begin_fetch(&assembly);
            }
            if let Next::Send(frame, ordinals) = assembly.next() {
                applied = frame.applied.max(applied);
                let welcomes = matches!(frame.body, Body::Alone(Message::Welcome { .. }));
                if let Err(end) = self.send(frame, &ordinals, applied).await {
                    return end;
                }
                // What was said before would have been dropped there.
                if welcomes && attached.is_none() {
                    attached = Some(self.logs.attach(&self.node, self.session, self.own.clone()));
                }
                continue;
            }
            let input = tokio::select! {
                biased;
                Some(outgoing) = self.queue.recv(), if assembly.len() < MOST_ASSEMBLED => {
                    Input::Message(outgoing) // cancel-safe: mpsc recv
                }
                found = arrival(&mut fetch) => Input::Payloads(found), // cancel-safe: the future stays where it is
                else => return End::Gone, // the driver is gone
            };
            match input {
                Input::Message(outgoing) => assembly.push(*outgoing),
                Input::Payloads(Err(no)) => return told(no),
                Input::Payloads(Ok(found)) => {
                    if let Some((wanted, _)) = fetch.take() {
                        self.drop_lost(assembly.fetched(&wanted, found));
                    }
                }
            }
        }
    }

    /// Tells the scheduler that there is room again, if it was told that there was none.
    fn unblock(&self, assembled: usize) {
        let waiting = assembled + self.queue.len();
        if waiting > SOFT_OUTBOUND / 2 || !self.shared.blocked.load(Ordering::Relaxed) {
            return;
        }
        let command =
            Command::SessionBlocked { node: self.node.clone(), session: self.session, blocked: false };
        let from = FromNode {
            session: self.session,
            command,
            carried: Carried::default(),
            attach: None,
            credit: None,
        };
        // A full inbox: it is tried again with the next message.
        if self.inbox.try_send(from).is_ok() {
            self.shared.blocked.store(false, Ordering::Relaxed);
        }
    }

    fn begin_fetch(&self, assembly: &Assembly) -> Option<(Wanted, Fetch)> {
        let wanted = assembly.wanted();
        if wanted.is_empty() {
            return None;
        }
        let fetch = fetch(self.reader.clone(), wanted.clone(), self.session);
        Some((wanted, Box::pin(fetch)))
    }

    async fn send(&self, frame: Frame, ordinals: &[Ordinal], applied: u64) -> Result<(), End> {
        let place = match tokio::time::timeout(STUCK, self.wire.reserve()).await {
            Err(_) => return Err(End::Closed(slow_reader())),
            Ok(Err(_)) => return Err(End::Gone), // the stream was dropped
            Ok(Ok(place)) => place,
        };
        let seq = {
            let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            for &ordinal in ordinals {
                sent.left(ordinal);
            }
            sent.next_seq()
                .map_err(|_| told(No::invalid_field("seen", "stands still while messages are sent")))?
        };
        let mut message = server_message(seq, frame, &self.settings);
        message.seen = applied;
        place.send(Ok(Box::new(message)));
        Ok(())
    }

    fn drop_lost(&self, lost: Vec<(Ordinal, JobId)>) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        for (ordinal, job) in lost {
            tracing::error!(job.id = %job, node.id = %self.node, "the payload of a granted job is gone; the grant is dropped");
            sent.left(ordinal);
        }
    }
}

/// The payloads that are on their way; for ever if there are none.
async fn arrival(fetch: &mut Option<(Wanted, Fetch)>) -> Result<BTreeMap<JobId, Joined>, No> {
    match fetch {
        Some((_, arriving)) => arriving.await,
        None => std::future::pending().await,
    }
}

async fn fetch(reader: Reader, wanted: Wanted, session: SessionId) -> Result<BTreeMap<JobId, Joined>, No> {
    let mut tries = 0;
    loop {
        tries += 1;
        match look(&reader, &wanted).await {
            Ok(found) => return Ok(found),
            Err(error) if tries < FETCH_TRIES => {
                tracing::debug!(session.id = %session, error = %Chain(&error), "payloads could not be read; again soon");
                tokio::time::sleep(FETCH_PAUSE).await;
            }
            Err(error) => {
                tracing::warn!(session.id = %session, error = %Chain(&error), "payloads cannot be read; the session ends");
                return Err(No::store_away(crate::handle::AWAY_RETRY));
            }
        }
    }
}

/// One look for everything. A job whose payload is gone is absent.
async fn look(
    reader: &Reader,
    wanted: &[Want],
) -> Result<BTreeMap<JobId, Joined>, tenure_store::reader::Error> {
    let of = |asked: fn(&Want) -> bool| -> Vec<JobId> {
        wanted.iter().filter(|want| asked(want)).map(|want| want.job).collect()
    };
    let (paid, again) = (of(|want| want.payload > 0), of(|want| want.again));
    let mut payloads = reader.payloads(&paid).await?;
    let mut left = reader.left(&again).await?;
    let found = wanted.iter().filter_map(|want| {
        let payload = payloads.remove(&want.job);
        let is_gone = want.payload > 0 && payload.is_none();
        let joined =
            Joined { payload: payload.unwrap_or_default(), left: left.remove(&want.job).unwrap_or_default() };
        (!is_gone).then_some((want.job, joined))
    });
    Ok(found.collect())
}

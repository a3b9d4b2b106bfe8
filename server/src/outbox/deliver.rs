//! The deliverer: sends what is due, and says what became of it. A leader has one; it ends with the term.
//!
//! Responsible for asking the driver what is due, for how many tries are on their way, and for a try's end, whatever it is.
//! Not for what is stored of it, nor for when it is tried again (the scheduler). Invariants: of one webhook only so many
//! tries are on their way, so that one whose receiver hangs delays no other; what was not said to be settled is due again
//! for the next leader.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tenure_scheduler::{Command, Delivery, DeliveryFailure, DeliveryId, DueDelivery, Reply, Tried, Wall};
use tokio::{sync::watch, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Bell,
    send::{self, Sender, failure},
    settings::Settings,
};
use crate::{
    chain::Chain,
    handle::{Handle, Submission, SubmitError},
    metrics::Metrics,
};

/// Tries of one webhook at once.
const AT_ONCE: usize = 4;

/// What has been kept for too long is looked for so often.
const AGE_EVERY: Duration = Duration::from_secs(3600);

/// It looks again after this without being told, in case a clock was set.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// After the driver or the store had no answer.
const AGAIN: Duration = Duration::from_secs(1);

/// What a deliverer needs.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// They may be replaced meanwhile.
    pub(crate) settings: watch::Receiver<Arc<Settings>>,
    /// Rung when something may be due.
    pub(crate) bell: Bell,
    pub(crate) metrics: Arc<Metrics>,
}

/// The deliverer of one term.
#[derive(Debug)]
pub(crate) struct Deliverer {
    options: Options,
    handle: Handle,
    /// Made when something is due for the first time, and anew when settings are replaced.
    sender: Option<Sender>,
    /// On their way, or ended and not settled.
    busy: BTreeSet<DeliveryId>,
    tries: JoinSet<Tried>,
    ended: Vec<Tried>,
    /// When it last looked for what was kept for too long, by the steady clock.
    aged: Option<Duration>,
}

/// Why it could not go on. It does a moment later.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the driver has no answer")]
    Driver(#[from] SubmitError),
    #[error("what is to be sent cannot be read")]
    Read(#[from] tenure_store::reader::Error),
    #[error("nothing can be sent")]
    Sender(#[from] send::Error),
}

impl Deliverer {
    pub(crate) fn new(options: Options, handle: Handle) -> Self {
        Self {
            options,
            handle,
            sender: None,
            busy: BTreeSet::new(),
            tries: JoinSet::new(),
            ended: Vec::new(),
            aged: None,
        }
    }

    /// Delivers until the term ends. Tries that are on their way then are cut off: nobody knows whether they arrived, and
    /// the next leader sends them again.
    pub(crate) async fn run(mut self, over: CancellationToken) -> Result<(), std::convert::Infallible> {
        enum Input {
            Over,
            Ended(Option<Result<Tried, tokio::task::JoinError>>),
            Look,
            Replaced(bool),
        }
        loop {
            // Cancel-safe: what was submitted is applied or not, and is due again for the next leader if not.
            let wait = tokio::select! {
                biased;
                () = over.cancelled() => return Ok(()),
                wait = self.look() => wait,
            };
            let bell = self.options.bell.clone();
            let input = tokio::select! {
                biased;
                () = over.cancelled() => Input::Over, // cancel-safe
                ended = self.tries.join_next(), if !self.tries.is_empty() => Input::Ended(ended), // cancel-safe
                () = bell.rung() => Input::Look, // cancel-safe: it keeps one ring
                replaced = self.options.settings.changed() => Input::Replaced(replaced.is_ok()), // cancel-safe
                () = sleep(wait) => Input::Look, // cancel-safe: it is made anew
            };
            match input {
                Input::Over => return Ok(()),
                Input::Ended(first) => {
                    self.take(first);
                    while let Some(next) = self.tries.try_join_next() {
                        self.take(Some(next));
                    }
                }
                Input::Look => {}
                Input::Replaced(true) => self.sender = None,
                // The server ends; so does the term.
                Input::Replaced(false) => over.cancelled().await,
            }
        }
    }

    fn take(&mut self, ended: Option<Result<Tried, tokio::task::JoinError>>) {
        match ended {
            Some(Ok(tried)) => self.ended.push(tried),
            // Which it was is not known: it stays busy until the next leader. A panic is a bug of ours.
            Some(Err(error)) => {
                tracing::error!(error = %Chain(&error), "a try to deliver to a webhook failed by itself")
            }
            None => {}
        }
    }

    /// Settles what ended and begins what is due. The answer is how long nothing else will be due.
    async fn look(&mut self) -> Duration {
        match self.work().await {
            Ok(wait) => wait,
            // While the store is away everybody hears of it; here it matters where something is on its way.
            Err(error) if self.busy.is_empty() => {
                tracing::debug!(error = %Chain(&error), "what webhooks are to be told cannot be asked for");
                AGAIN
            }
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "deliveries to webhooks are held up");
                AGAIN
            }
        }
    }

    async fn work(&mut self) -> Result<Duration, Error> {
        if !self.ended.is_empty() {
            self.settle().await?;
        }
        let busy = self.busy.clone();
        let question = move |state: &tenure_scheduler::State, now: tenure_scheduler::Now| {
            let kept = state.deliveries(None, None).next().is_some();
            (state.due_deliveries(now.wall, &busy, AT_ONCE), state.next_delivery(&busy), now.wall, kept)
        };
        let (due, next, now, kept) = self.handle.query(question).await?;
        let steady = self.handle.clock().steady();
        if kept && self.aged.is_none_or(|aged| steady.saturating_sub(aged) >= AGE_EVERY) {
            self.settle().await?;
        }
        if due.is_empty() {
            return Ok(until(next, now));
        }
        let ids: Vec<DeliveryId> = due.iter().map(|due| due.delivery.id).collect();
        let mut bodies = self.handle.reader().bodies(&ids).await?;
        let sender = self.sender()?;
        for due in due {
            let id = due.delivery.id;
            self.busy.insert(id);
            match bodies.remove(&id) {
                Some(body) => self.begin(sender.clone(), due, body),
                None => {
                    self.ended.push(Tried { delivery: id, failure: Some(failure("its body is not stored")) })
                }
            }
        }
        // As much as may be is on its way; the end of one wakes this again.
        Ok(if self.ended.is_empty() { LOOK_EVERY } else { Duration::ZERO })
    }

    /// Says what became of tries, if any ended, and that time has passed.
    async fn settle(&mut self) -> Result<(), Error> {
        let now = self.handle.clock().steady();
        let command = Command::SettleDeliveries { tried: self.ended.clone() };
        let reply = self.handle.submit(Submission { command, payload: None, more: Vec::new() }).await;
        match reply {
            Ok(Reply::Settled) => {}
            Ok(_) => return Err(SubmitError::Broken.into()),
            Err(SubmitError::Broken) => {
                // It cannot be stored: what was tried is tried again, later and by the next leader.
                tracing::error!("what became of deliveries to webhooks cannot be stored");
                self.ended.clear();
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        self.aged = Some(now);
        for tried in self.ended.drain(..) {
            self.busy.remove(&tried.delivery);
        }
        Ok(())
    }

    fn sender(&mut self) -> Result<Sender, Error> {
        if let Some(sender) = &self.sender {
            return Ok(sender.clone());
        }
        let settings = Arc::clone(&self.options.settings.borrow_and_update());
        Ok(self.sender.insert(Sender::new(settings)?).clone())
    }

    fn begin(&mut self, sender: Sender, due: DueDelivery, body: String) {
        let now = self.handle.clock().wall();
        let (clock, metrics) = (self.handle.clock().clone(), Arc::clone(&self.options.metrics));
        self.tries.spawn(async move {
            let id = wire_id(&due.delivery);
            let failure = sender.send(&due, body, &id, now.0.div_euclid(1_000_000)).await;
            if failure.is_none() {
                metrics.observe_delivery(clock.wall().since(due.delivery.created_at));
            }
            log(&due.delivery, &id, failure.as_ref());
            Tried { delivery: due.delivery.id, failure }
        });
    }
}

/// Without the URL, which may hold a secret of its receiver, and without what is sent.
fn log(delivery: &Delivery, id: &str, failure: Option<&DeliveryFailure>) {
    let (webhook, event, tries) = (&delivery.webhook, delivery.about.event(), delivery.tries + 1);
    match failure {
        None => {
            tracing::debug!(webhook.name = %webhook, delivery.id = id, event, tries, "a webhook was told")
        }
        Some(failure) => {
            let reason = &*failure.error;
            tracing::warn!(webhook.name = %webhook, delivery.id = id, event, tries, reason, "a webhook was not told");
        }
    }
}

fn until(next: Option<Wall>, now: Wall) -> Duration {
    // A moment later than it is due, so that it is.
    next.map_or(LOOK_EVERY, |next| next.since(now) + Duration::from_millis(1)).min(LOOK_EVERY)
}

/// What receivers know a delivery by: unique also among the servers of a receiver, and over restored databases.
pub(crate) fn wire_id(delivery: &Delivery) -> String {
    match delivery.about.subject() {
        Some(subject) => format!("{}_{:x}", subject.hyphenated(), delivery.id.0),
        None => format!("test_{:x}", delivery.id.0),
    }
}

/// The delivery that receivers know by this id; none: it is no such id.
pub(crate) fn id_of(text: &str) -> Option<DeliveryId> {
    let (_, number) = text.rsplit_once('_')?;
    u64::from_str_radix(number, 16).ok().map(DeliveryId)
}

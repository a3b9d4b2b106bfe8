//! The deliverer: sends what is due, and says what became of it. A leader has one; it ends with the term.
//!
//! Responsible for asking the driver what is due, for how many tries are on their way, and for a try's end, whatever it is.
//! Not for what is stored of it, nor for when it is tried again (the scheduler). Invariants: of one webhook only so many
//! tries are on their way, so that one whose receiver hangs delays no other; what was not said to be settled is due again
//! for the next leader. What becomes of the tries of this one until then is in `tries`.

use std::{sync::Arc, time::Duration};

use tenure_scheduler::{Command, Delivery, DeliveryFailure, DeliveryId, DueDelivery, Reply, Tried, Wall};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Bell,
    send::{self, Sender, failure},
    settings::Settings,
    tries::Tries,
};
use crate::{
    chain::Chain,
    handle::{Handle, SubmitError},
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
    tries: Tries,
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
        Self { options, handle, sender: None, tries: Tries::default(), aged: None }
    }

    /// Delivers until the term ends. Tries that are on their way then are cut off: nobody knows whether they arrived, and
    /// the next leader sends them again.
    pub(crate) async fn run(mut self, over: CancellationToken) -> Result<(), std::convert::Infallible> {
        enum Input {
            Over,
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
                () = self.tries.ended(), if self.tries.is_waiting() => Input::Look, // cancel-safe
                () = bell.rung() => Input::Look, // cancel-safe: it keeps one ring
                replaced = self.options.settings.changed() => Input::Replaced(replaced.is_ok()), // cancel-safe
                () = sleep(wait) => Input::Look, // cancel-safe: it is made anew
            };
            match input {
                Input::Over => return Ok(()),
                Input::Look => {}
                Input::Replaced(true) => self.sender = None,
                // The server ends; so does the term.
                Input::Replaced(false) => over.cancelled().await,
            }
        }
    }

    /// Settles what ended and begins what is due. The answer is how long nothing else will be due.
    async fn look(&mut self) -> Duration {
        match self.work().await {
            Ok(wait) => wait,
            // While the store is away everybody hears of it; here it matters where something is on its way.
            Err(error) if self.tries.busy().is_empty() => {
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
        self.tries.let_go(self.handle.clock().steady());
        // What cannot be settled now keeps nothing else from being tried.
        let settled = self.settle().await;
        let wait = self.begin_due().await;
        settled?;
        wait
    }

    /// Settles everything that ended.
    async fn settle(&mut self) -> Result<(), Error> {
        loop {
            let tried = self.tries.to_settle();
            if tried.is_empty() {
                return Ok(());
            }
            self.say(tried).await?;
        }
    }

    /// Begins what is due.
    async fn begin_due(&mut self) -> Result<Duration, Error> {
        let mut busy = self.tries.busy().clone();
        let question = move |state: &tenure_scheduler::State, now: tenure_scheduler::Now| {
            let kept = state.deliveries(None, None).next().is_some();
            let due = state.due_deliveries(now.wall, &busy, AT_ONCE);
            busy.extend(due.iter().map(|due| due.delivery.id));
            (due, until(state.next_delivery(now.wall, &busy, AT_ONCE), now.wall), kept)
        };
        let (due, wait, kept) = self.handle.query(question).await?;
        if !due.is_empty() {
            self.begin_all(due).await?;
        }
        let steady = self.handle.clock().steady();
        if kept && self.aged.is_none_or(|aged| steady.saturating_sub(aged) >= AGE_EVERY) {
            self.say(Vec::new()).await?;
        }
        Ok(if self.tries.to_settle().is_empty() { wait } else { Duration::ZERO })
    }

    async fn begin_all(&mut self, due: Vec<DueDelivery>) -> Result<(), Error> {
        let ids: Vec<DeliveryId> = due.iter().map(|due| due.delivery.id).collect();
        let mut bodies = self.handle.reader().bodies(&ids).await?;
        let sender = self.sender()?;
        for due in due {
            let delivery = due.delivery.id;
            match bodies.remove(&delivery) {
                Some(body) => self.begin(sender.clone(), due, body),
                None => {
                    let failure = Some(failure("its body is not stored"));
                    self.tries.end(Tried { delivery, failure });
                }
            }
        }
        Ok(())
    }

    /// Says what became of tries, the first that ended, and that time has passed.
    async fn say(&mut self, tried: Vec<Tried>) -> Result<(), Error> {
        let (now, count) = (self.handle.clock().steady(), tried.len());
        // However many producers are at it: it has its turn.
        let reply = self.handle.submit_in_turn(Command::SettleDeliveries { tried }).await;
        match reply {
            Ok(Reply::Settled) => {
                self.aged = Some(now);
                self.tries.settled(count);
                Ok(())
            }
            Ok(_) | Err(SubmitError::Broken) => {
                // Also where nothing was tried: it is not asked for again in a moment.
                self.aged = Some(now);
                if count > 0 {
                    self.tries.broken(count, now);
                }
                Err(SubmitError::Broken.into())
            }
            Err(error) => Err(error.into()),
        }
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
        self.tries.begin(due.delivery.id, async move {
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

//! How long what an attempt does besides running its command may take.
//!
//! Responsible for when an order to stop, or the end of its lease on this node, breaks off what it waits for. Not responsible
//! for what is told then (`outcome.rs`, `attempt.rs`, `hosted.rs`).

use std::time::Duration;

use tokio::sync::watch;

use super::Orders;
use crate::clock::{Clock, Mono};
use crate::holdings::StopReason;
use crate::own_rule::OwnRule;

/// When the upload of a result is broken off. A drain leaves it the grace of its kind, as it does a command; whoever stops an
/// attempt for another reason does not want its result, or has no lease for it.
#[derive(Debug)]
pub(super) struct Bounds {
    orders: watch::Receiver<Orders>,
    clock: Clock,
    grace: Duration,
    /// When its grace is over, once that has begun.
    by: Option<Mono>,
}

impl Bounds {
    /// `by`: when its grace is over, if its attempt was told to stop before its end.
    pub(super) fn new(
        orders: watch::Receiver<Orders>,
        clock: Clock,
        grace: Duration,
        by: Option<Mono>,
    ) -> Self {
        Self { orders, clock, grace, by }
    }

    /// Returns once it is not to go on, and why. Cancel-safe.
    pub(super) async fn over(&mut self) -> StopReason {
        loop {
            let stop = self.orders.borrow_and_update().stop;
            let drained = match stop {
                Some(stop) if stop.at_once || stop.reason != StopReason::Drained => return stop.reason,
                Some(_) => Some(*self.by.get_or_insert(self.clock.now() + self.grace)),
                None => None,
            };
            tokio::select! {
                // Cancel-safe: watch changed. A sender that is gone gives no more orders.
                Ok(()) = self.orders.changed() => {}
                // Cancel-safe: the deadline stays.
                () = self.clock.sleep_until(drained.unwrap_or(Mono::MAX)) => return StopReason::Drained,
            }
        }
    }
}

/// What comes of something, unless the attempt, which has not started, is to stop, or its lease is over on this node, before.
pub(super) async fn unless_over<T>(
    orders: &watch::Receiver<Orders>,
    clock: Clock,
    what: impl Future<Output = T>,
) -> Result<T, OwnRule> {
    let mut orders = orders.clone();
    tokio::pin!(what);
    loop {
        let now = *orders.borrow_and_update();
        if now.stop.is_some() || now.abandon {
            return Err(OwnRule::Draining);
        }
        tokio::select! {
            // Not polled again after its end.
            done = &mut what => return Ok(done),
            // Cancel-safe: watch changed. A sender that is gone gives no more orders.
            Ok(()) = orders.changed() => {}
            // Cancel-safe: the deadline stays.
            () = clock.sleep_until(now.gone_by) => return Err(OwnRule::CutOff),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::holdings::Stop;

    const LONG: Duration = Duration::from_secs(1_000);

    fn ordered(reason: StopReason, at_once: bool) -> (watch::Sender<Orders>, watch::Receiver<Orders>) {
        let stop = Some(Stop { reason, at_once });
        watch::channel(Orders { stop, gone_by: Mono::MAX, ..Orders::default() })
    }

    fn bounds(orders: &watch::Receiver<Orders>, grace: Duration, by: Option<Mono>) -> Bounds {
        Bounds::new(orders.clone(), Clock::default(), grace, by)
    }

    #[tokio::test]
    async fn a_drain_leaves_an_upload_its_grace_and_nothing_else_does() {
        for reason in
            [StopReason::NotLive, StopReason::Cancelled, StopReason::Unanswered, StopReason::Superseded]
        {
            let (_sender, orders) = ordered(reason, false);
            assert_eq!(bounds(&orders, LONG, None).over().now_or_never(), Some(reason));
        }
        let (sender, orders) = ordered(StopReason::Drained, false);
        let mut goes_on = bounds(&orders, LONG, None);
        assert_eq!(goes_on.over().now_or_never(), None);
        assert_eq!(bounds(&orders, Duration::ZERO, None).over().await, StopReason::Drained);
        // Of one that was told before its end, what is left.
        let past = Some(Clock::default().now());
        assert_eq!(bounds(&orders, LONG, past).over().await, StopReason::Drained);
        sender.send_modify(|orders| orders.stop = Some(Stop { reason: StopReason::Drained, at_once: true }));
        assert_eq!(goes_on.over().now_or_never(), Some(StopReason::Drained));
    }

    #[tokio::test]
    async fn an_upload_goes_on_without_orders_and_without_somebody_who_gives_some() {
        let (sender, orders) = watch::channel(Orders::default());
        let mut goes_on = bounds(&orders, Duration::ZERO, Some(Mono::ZERO));
        assert_eq!(goes_on.over().now_or_never(), None);
        drop(sender);
        assert_eq!(goes_on.over().now_or_never(), None);
    }

    #[tokio::test]
    async fn what_an_attempt_waits_for_before_its_start_ends_with_its_lease() {
        let (_sender, orders) = ordered(StopReason::Cancelled, false);
        let clock = Clock::default();
        assert_eq!(unless_over(&orders, clock, pending::<()>()).await, Err(OwnRule::Draining));
        let (sender, orders) = watch::channel(Orders { gone_by: Mono::MAX, ..Orders::default() });
        assert_eq!(unless_over(&orders, clock, async { 7 }).await, Ok(7));
        assert_eq!(unless_over(&orders, clock, pending::<()>()).now_or_never(), None);
        sender.send_modify(|orders| orders.gone_by = clock.now());
        assert_eq!(unless_over(&orders, clock, pending::<()>()).await, Err(OwnRule::CutOff));
    }
}

//! Tries that are on their way, and what became of those that ended until it is settled.
//!
//! Responsible for that a delivery that is tried is not tried a second time meanwhile, and that each try that was begun
//! ends, also one that failed by a bug of ours. Not for sending, nor for storing what became of it. Invariant: what could not
//! be stored is kept and tried to be stored again, alone; if that does not help either, its delivery is left as it is for
//! an hour, and then tried again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    future::Future,
    time::Duration,
};

use tenure_scheduler::{DeliveryId, Tried};
use tokio::task::{self, JoinError, JoinSet};

use super::send::failure;
use crate::chain::Chain;

/// What cannot be stored, not even alone, is left as it is for so long.
const LEFT_FOR: Duration = Duration::from_secs(3600);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tries {
    tasks: JoinSet<Tried>,
    /// What each of them tries.
    of: HashMap<task::Id, DeliveryId>,
    /// On their way, ended and not settled, or left as they are.
    busy: BTreeSet<DeliveryId>,
    /// To be settled, in this order.
    ended: VecDeque<Tried>,
    /// So many of those at the front are settled one by one.
    one_by_one: usize,
    /// Left as they are until then, by the steady clock.
    left: BTreeMap<DeliveryId, Duration>,
}

impl Tries {
    /// Begins one.
    pub(super) fn begin(
        &mut self,
        delivery: DeliveryId,
        r#try: impl Future<Output = Tried> + Send + 'static,
    ) {
        self.busy.insert(delivery);
        let task = self.tasks.spawn(r#try);
        self.of.insert(task.id(), delivery);
    }

    /// One that ended before it was begun.
    pub(super) fn end(&mut self, tried: Tried) {
        self.busy.insert(tried.delivery);
        self.ended.push_back(tried);
    }

    /// What is not to be tried now.
    pub(super) fn busy(&self) -> &BTreeSet<DeliveryId> {
        &self.busy
    }

    /// Some have not ended.
    pub(super) fn is_waiting(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Waits until one ends. Cancel-safe.
    pub(super) async fn ended(&mut self) {
        let mut ended = self.tasks.join_next_with_id().await;
        while let Some(one) = ended {
            self.take(one);
            ended = self.tasks.try_join_next_with_id();
        }
    }

    fn take(&mut self, ended: Result<(task::Id, Tried), JoinError>) {
        match ended {
            Ok((task, tried)) => {
                self.of.remove(&task);
                self.ended.push_back(tried);
            }
            Err(error) => {
                tracing::error!(error = %Chain(&error), "a try to deliver to a webhook failed by itself");
                let Some(delivery) = self.of.remove(&error.id()) else { return };
                let failure = Some(failure("the server failed while it sent this"));
                self.ended.push_back(Tried { delivery, failure });
            }
        }
    }

    /// What is to be settled next, together. Empty: nothing is.
    pub(super) fn to_settle(&self) -> Vec<Tried> {
        let most = if self.one_by_one > 0 { 1 } else { self.ended.len() };
        self.ended.iter().take(most).cloned().collect()
    }

    /// The first so many are settled.
    pub(super) fn settled(&mut self, count: usize) {
        for tried in self.ended.drain(..count.min(self.ended.len())) {
            self.busy.remove(&tried.delivery);
        }
        self.one_by_one = self.one_by_one.saturating_sub(count);
    }

    /// The first so many could not be stored, by a fault of the server: perhaps by that of another command.
    pub(super) fn broken(&mut self, count: usize, now: Duration) {
        if self.one_by_one == 0 {
            self.one_by_one = count;
            return;
        }
        self.one_by_one -= 1;
        if let Some(tried) = self.ended.pop_front() {
            tracing::error!(delivery.id = %tried.delivery, "what became of a delivery to a webhook cannot be stored");
            self.left.insert(tried.delivery, now + LEFT_FOR);
        }
    }

    /// Lets go of what was left as it is for long enough.
    pub(super) fn let_go(&mut self, now: Duration) {
        let Self { left, busy, .. } = self;
        left.retain(|delivery, until| {
            let stays = *until > now;
            if !stays {
                busy.remove(delivery);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(n: u64) -> Tried {
        Tried { delivery: DeliveryId(n), failure: None }
    }

    #[tokio::test]
    async fn a_try_that_fails_by_itself_is_settled_as_one_that_failed() {
        let mut tries = Tries::default();
        tries.begin(DeliveryId(1), async { panic!("told by a test") });
        assert!(tries.is_waiting() && tries.busy().contains(&DeliveryId(1)));
        tries.ended().await;
        let ended = tries.to_settle();
        assert!(matches!(&ended[..], [Tried { delivery: DeliveryId(1), failure: Some(_) }]), "{ended:?}");
        tries.settled(1);
        assert!(!tries.is_waiting() && tries.busy().is_empty() && tries.of.is_empty());
    }

    #[test]
    fn what_cannot_be_stored_is_stored_one_by_one_and_only_what_is_broken_is_left() {
        let mut tries = Tries::default();
        for n in 1..=3 {
            tries.end(arrived(n));
        }
        assert_eq!(tries.to_settle().len(), 3);
        tries.broken(3, Duration::ZERO);
        assert_eq!(tries.to_settle(), [arrived(1)]);
        tries.settled(1);
        assert_eq!(tries.to_settle(), [arrived(2)]);
        tries.broken(1, Duration::ZERO);
        // What ends meanwhile comes after them.
        tries.end(arrived(4));
        tries.end(arrived(5));
        assert_eq!(tries.to_settle(), [arrived(3)]);
        tries.settled(1);
        assert_eq!(tries.to_settle(), [arrived(4), arrived(5)]);
        tries.settled(2);
        assert!(tries.to_settle().is_empty());
        tries.let_go(LEFT_FOR - Duration::from_secs(1));
        assert!(tries.busy().iter().eq([&DeliveryId(2)]), "nobody tries it meanwhile: {tries:?}");
        tries.let_go(LEFT_FOR);
        assert!(tries.busy().is_empty());
    }

    #[test]
    fn one_that_could_not_be_stored_once_may_have_suffered_for_another() {
        let mut tries = Tries::default();
        tries.end(arrived(1));
        tries.broken(1, Duration::ZERO);
        assert_eq!(tries.to_settle(), [arrived(1)]);
        tries.settled(1);
        assert!(tries.busy().is_empty());
    }
}

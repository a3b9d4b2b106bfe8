//! What a provider said to a job that failed: no more for a while. The slot that stands for it is kept from everyone.

use std::time::Duration;

use crate::{
    command::{Finish, FinishedHow, Throttled},
    event::Event,
    ids::FencingToken,
    slots::Slot,
    state::LONGEST_THROTTLE,
    step::Step,
};

/// Less is as good as nothing.
const SHORTEST: Duration = Duration::from_secs(1);

impl Step<'_> {
    /// What is to be made of the word of a job whose lease is live: of a failure, and about a fleet slot that the lease
    /// holds. Anything else is told, and nothing comes of it: a job speaks for what it uses only.
    pub(super) fn heeded(&mut self, token: FencingToken, finish: &Finish) -> Option<Throttled> {
        let said = finish.throttled.as_ref()?;
        let failed = match finish.how {
            FinishedHow::Failed
            | FinishedHow::FailedPermanent
            | FinishedHow::TimedOut
            | FinishedHow::Stalled => true,
            FinishedHow::Succeeded | FinishedHow::Revoked | FinishedHow::Lost | FinishedHow::Detached => {
                false
            }
        };
        let lease = self.state.leases.get(&token).map(|entry| &entry.lease);
        let holds = lease.is_some_and(|lease| lease.reservation.fleet.amount(&said.slot) > 0);
        if failed && holds {
            let retry_after = said.retry_after.clamp(SHORTEST, LONGEST_THROTTLE);
            return Some(Throttled { retry_after, ..said.clone() });
        }
        self.emit(Event::NotThrottled { token, slot: said.slot.clone() });
        None
    }

    /// The longest word counts. A pause of an operator stays as it is.
    pub(super) fn throttle(&mut self, said: Option<Throttled>) {
        let Some(Throttled { slot, retry_after }) = said else { return };
        let end = self.now.mono.after(retry_after);
        let Some(known) = self.state.slots.get(&slot) else { return };
        if self.state.throttles.get(&slot).is_none_or(|before| *before < end) {
            let throttled_until = Some(self.now.wall.after(retry_after));
            self.emit(Event::SlotPut(Slot { throttled_until, ..known.clone() }));
        }
    }
}

//! The promise of a rate, over all leaders: in any stretch of time t at most burst + rate · t units are granted.

use std::collections::BTreeMap;

use tenure_scheduler::{Event, RateLimit, SlotName};

#[derive(Debug, Clone)]
struct Log {
    rate: RateLimit,
    /// When, by the clock of the world, and how many.
    grants: Vec<(u64, u32)>,
}

/// See the module. What a turn that was not committed granted, nobody heard of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pace {
    logs: BTreeMap<SlotName, Log>,
    committed: BTreeMap<SlotName, Log>,
}

impl Pace {
    pub(crate) fn observe(&mut self, clock: u64, events: &[Event]) {
        for event in events {
            if let Event::SlotPut(slot) = event {
                match (slot.rate, self.logs.get(&slot.name)) {
                    (Some(rate), Some(log)) if log.rate == rate => {}
                    // Another promise begins.
                    (Some(rate), _) => {
                        self.logs.insert(slot.name.clone(), Log { rate, grants: Vec::new() });
                    }
                    (None, _) => {
                        self.logs.remove(&slot.name);
                    }
                }
            } else if let Event::SlotRemoved(slot) = event {
                self.logs.remove(slot);
            } else if let Event::Granted { lease, .. } = event {
                for (slot, amount) in lease.reservation.fleet.iter() {
                    if let Some(log) = self.logs.get_mut(slot) {
                        log.grants.push((clock, amount));
                        log.check(slot);
                    }
                }
            }
        }
    }

    pub(crate) fn commit(&mut self) {
        self.committed.clone_from(&self.logs);
    }

    /// Another leader goes on. Where the clock on the wall was set, nobody knows how long the last one is gone.
    pub(crate) fn reload(&mut self, stepped: bool) {
        self.logs.clone_from(&self.committed);
        if stepped {
            self.logs.values_mut().for_each(|log| log.grants.clear());
        }
    }
}

impl Log {
    /// Every stretch that ends with the newest grant.
    fn check(&self, slot: &SlotName) {
        let Some(&(end, _)) = self.grants.last() else { return };
        let mut sum = 0;
        for &(begin, amount) in self.grants.iter().rev() {
            sum += u128::from(amount);
            let over = sum.saturating_sub(u128::from(self.rate.burst)) * self.rate.per.as_micros();
            let allowed = u128::from(end - begin) * u128::from(self.rate.tokens);
            assert!(over <= allowed, "{sum} of {slot} in {} us at {}", end - begin, self.rate);
        }
    }
}

//! What the rates of slots allow, by fractions: a bucket holds at most its burst, gains evenly, and loses what is
//! granted. What is in a bucket is kept when its limit changes, and over a takeover by the clock on the wall.

use std::collections::BTreeMap;

use tenure_scheduler::{Event, Lease, Now, RateLimit, Slot, SlotName, Wall};

/// Tokens as a fraction over this many: a day in microseconds, which every unit of time divides.
const WHOLE: u128 = 86_400_000_000;

#[derive(Debug, Clone)]
struct Bucket {
    rate: RateLimit,
    /// In fractions of a token, at `at`.
    level: u128,
    /// Of the leader's clock.
    at: u64,
}

impl Bucket {
    fn most(&self) -> u128 {
        u128::from(self.rate.burst) * WHOLE
    }

    fn level(&self, now: Now) -> u128 {
        let gain = u128::from(now.mono.0 - self.at) * u128::from(self.rate.tokens) * WHOLE
            / self.rate.per.as_micros();
        (self.level + gain).min(self.most())
    }

    fn add(&mut self, now: Now, tokens: i64) {
        let parts = u128::from(tokens.unsigned_abs()) * WHOLE;
        let level = self.level(now);
        self.level = if tokens < 0 {
            level
                .checked_sub(parts)
                .unwrap_or_else(|| panic!("granted more than was there: {self:?} {now:?}"))
        } else {
            level + parts
        };
        self.at = now.mono.0;
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Rates(BTreeMap<SlotName, Bucket>);

impl Rates {
    /// The buckets as the rows tell.
    pub(super) fn found(now: Now, slots: &BTreeMap<SlotName, Slot>) -> Self {
        let bucket = |slot: &Slot| {
            let rate = slot.rate?;
            let mut bucket = Bucket { rate, level: 0, at: now.mono.0 };
            let Wall(until) = slot.full_at.unwrap_or(now.wall);
            let missing = u128::try_from(until - now.wall.0).unwrap_or(0) * u128::from(rate.tokens) * WHOLE
                / rate.per.as_micros();
            bucket.level = bucket.most().saturating_sub(missing);
            Some((slot.name.clone(), bucket))
        };
        Self(slots.values().filter_map(bucket).collect())
    }

    pub(super) fn observe(&mut self, now: Now, event: &Event) {
        if let Event::SlotPut(slot) = event {
            let Some(rate) = slot.rate else {
                self.0.remove(&slot.name);
                return;
            };
            let full = Bucket { rate, level: u128::from(rate.burst) * WHOLE, at: now.mono.0 };
            let bucket = self.0.entry(slot.name.clone()).or_insert(full);
            if bucket.rate != rate {
                bucket.level = bucket.level(now).min(u128::from(rate.burst) * WHOLE);
                (bucket.rate, bucket.at) = (rate, now.mono.0);
            }
        } else if let Event::SlotRemoved(slot) = event {
            self.0.remove(slot);
        } else if let Event::Granted { lease, .. } = event {
            self.each(lease, |bucket, amount| bucket.add(now, -i64::from(amount)));
        }
    }

    /// As if it had not been granted just now.
    pub(super) fn take_back(&mut self, now: Now, lease: &Lease) {
        self.each(lease, |bucket, amount| bucket.add(now, i64::from(amount)));
    }

    fn each(&mut self, lease: &Lease, mut change: impl FnMut(&mut Bucket, u32)) {
        for (slot, amount) in lease.reservation.fleet.iter() {
            if let Some(bucket) = self.0.get_mut(slot) {
                change(bucket, amount);
            }
        }
    }

    /// Whether so much may be granted now.
    pub(super) fn allows(&self, now: Now, slot: &SlotName, amount: u32) -> bool {
        let Some(bucket) = self.0.get(slot) else { return true };
        bucket.level(now) >= u128::from(amount) * WHOLE
    }
}

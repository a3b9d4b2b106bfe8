//! What events do to slots: their capacity, their pauses, and the buckets of their rates.

use std::time::Duration;

use crate::{
    deferral::Deferral,
    ids::SlotName,
    place::ClassId,
    rate::Bucket,
    slots::{Needs, Reservation, Scope, Slot},
    state::{Due, State},
    time::Now,
};

/// No provider is heeded for longer at once.
pub(crate) const LONGEST_THROTTLE: Duration = Duration::from_secs(24 * 3600);

impl State {
    pub(super) fn slot_put(&mut self, slot: &Slot, now: Now) {
        let known = self.slots.insert(slot.name.clone(), slot.clone());
        self.dirty.slot(&slot.name, known.is_some());
        self.parking_changed = true;
        if known.is_none() && slot.name.is_of_kind() {
            self.charge_running(&slot.name);
        }
        match slot.scope {
            Scope::Fleet { capacity } => self.fleet.set_capacity(&slot.name, capacity),
            Scope::Node => self.fleet.set_capacity(&slot.name, 0),
        }
        self.recount_slot(&slot.name);
        if let Some(until) = slot.paused.and_then(|pause| pause.until) {
            self.timers.at_wall(until, Due::SlotPause(slot.name.clone()));
        }
        self.rate_put(slot, known.as_ref(), now);
        if known.as_ref().and_then(|known| known.throttled_until) != slot.throttled_until {
            self.throttle(slot, now);
        }
        if known.is_none_or(|known| {
            matches!(known.scope, Scope::Node) != matches!(slot.scope, Scope::Node)
                || known.paused != slot.paused
        }) {
            self.classes.split_again(&self.slots);
            self.index_anew();
        }
        self.gain_slot(&slot.name);
    }

    /// A limit that is new begins with a full bucket: before, nothing was limited. One that changed keeps what is in it.
    fn rate_put(&mut self, slot: &Slot, known: Option<&Slot>, now: Now) {
        let Some(rate) = slot.rate else {
            self.buckets.remove(&slot.name);
            self.keep_full_at(&slot.name, now);
            return;
        };
        let before = known.and_then(|known| Some((known.rate?, *self.buckets.get(&slot.name)?)));
        if before.is_some_and(|(old, _)| old == rate) {
            return;
        }
        let bucket = before.map_or(Bucket::full(now), |(old, bucket)| bucket.changed(old, rate, now));
        self.buckets.insert(slot.name.clone(), bucket);
        self.keep_full_at(&slot.name, now);
    }

    /// A grant spends what it takes of slots with a rate.
    pub(super) fn take_tokens(&mut self, fleet: &Needs, now: Now) {
        for (name, amount) in fleet.iter() {
            let rate = self.slots.get(name).and_then(|slot| slot.rate);
            if let (Some(rate), Some(bucket)) = (rate, self.buckets.get_mut(name)) {
                bucket.take(rate, amount, now);
                self.keep_full_at(name, now);
                self.dirty.slot(name, true);
            }
        }
    }

    /// A throttle runs by the leader's clock; one that was loaded too, and for no longer than the longest that there is.
    pub(crate) fn throttle(&mut self, slot: &Slot, now: Now) {
        self.throttles.remove(&slot.name);
        if let Some(until) = slot.throttled_until {
            let end = now.mono.after(until.since(now.wall).min(LONGEST_THROTTLE));
            self.throttles.insert(slot.name.clone(), end);
            self.timers.at(end, Due::Throttle(slot.name.clone()));
        }
    }

    /// The row of a slot says what a later leader finds in its bucket.
    fn keep_full_at(&mut self, name: &SlotName, now: Now) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        let bucket = slot.rate.and_then(|rate| Some((rate, self.buckets.get(name)?)));
        slot.full_at = bucket.map(|(rate, bucket)| bucket.full_at(rate, now)).filter(|at| *at > now.wall);
    }

    /// A class waits for a time: placement looks at it again then.
    pub(super) fn wake_for(&mut self, class: ClassId, reason: &Deferral, now: Now) {
        if let (Deferral::Budget { until, .. }, Some(class)) = (reason, self.classes.get(class)) {
            self.timers.at_wall(*until, Due::Budget(class.key.kind.clone()));
        }
        let Deferral::RateLimit { slot, until: Some(_) } = reason else { return };
        let amount = self.classes.get(class).map_or(0, |class| class.fleet.amount(slot));
        if let Some(wait) = self.token_wait(slot, amount, now) {
            self.timers.at(now.mono.after(wait), Due::Refill(slot.clone()));
        }
    }

    /// Units of these fleet slots became available.
    pub(super) fn gain(&mut self, freed: &Reservation) {
        for (slot, _) in freed.fleet.iter() {
            self.gain_slot(slot);
        }
    }

    /// Units of this fleet slot became available.
    pub(super) fn gain_slot(&mut self, slot: &SlotName) {
        *self.gains.entry(slot.clone()).or_default() += 1;
        self.gained_fleet.insert(slot.clone());
    }
}

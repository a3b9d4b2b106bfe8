//! The node's last word on a grant: whether it may run here now, and what to answer if not.
//!
//! Responsible for every reason to give a grant back before anything starts. The server has decided on an older
//! picture; the node compares with the present one. Not responsible for what follows a yes (`holdings.rs`).
//!
//! Invariant: a yes never takes a slot above its capacity or its cap.

use std::time::Duration;

use super::lease::{Held, Return, Terms};
use super::{Holdings, anchors::Anchor};
use crate::clock::Mono;
use crate::own_rule::OwnRule;

/// An offer makes sense again soon: the reason lies in timing, not in the node.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// Until then a tree that is being killed is usually gone.
const AFTER_A_KILL: Duration = Duration::from_secs(10);

impl Holdings {
    /// Why this grant is refused, the generation left for the caller to stamp; `Ok` carries the moment its deadlines count from.
    pub(super) fn last_word(&self, now: Mono, anchor: Anchor, terms: &Terms) -> Result<Mono, Return> {
        if let Some(draining) = self.draining(now) {
            return Err(draining);
        }
        let anchor = fresh(now, anchor, terms)?;
        if terms.stale_in.is_some_and(|left| anchor + left <= now) {
            return Err(Return::because(OwnRule::Stale));
        }
        if !self.options.kinds.contains_key(&terms.kind) {
            return Err(Return::because(OwnRule::Kind));
        }
        if self.leases.values().any(|held| held.job == terms.job && !held.gone) {
            return Err(Return::because(OwnRule::NotReaped).retry_after(AFTER_A_KILL));
        }
        if self.spool_full {
            return Err(Return::because(OwnRule::SpoolFull));
        }
        self.room(terms)?;
        let needed = terms.slots.iter().filter(|&(_, &units)| units > 0).map(|(slot, _)| slot.as_str());
        match self.pressure.refusal(&terms.kind, needed) {
            Some(closed) => Err(Return {
                rule: closed.rule.clone(),
                observed: closed.observed,
                threshold: closed.threshold,
                generation: 0,
                retry_after: (!closed.retry_after.is_zero()).then_some(closed.retry_after),
            }),
            None => Ok(anchor),
        }
    }

    /// Whether every slot has the units free, the capacity lowered by a cap.
    fn room(&self, terms: &Terms) -> Result<(), Return> {
        for (slot, &units) in &terms.slots {
            let capacity = self.options.slots.get(slot).copied().unwrap_or(0);
            let allowed = self.pressure.caps.get(slot).map_or(capacity, |&cap| cap.min(capacity));
            let used = self.used(slot);
            if used.saturating_add(units) > allowed {
                let refused = Return::because(OwnRule::Slots).reading(f64::from(used), f64::from(allowed));
                return Err(refused.retry_after(SOON));
            }
        }
        Ok(())
    }

    /// Units of a slot that leases with a tree, or the promise of one, take.
    pub(super) fn used(&self, slot: &str) -> u32 {
        let units =
            self.leases.values().filter(|held| !held.gone).filter_map(|held| held.charged().get(slot));
        units.fold(0, |sum, &units| sum.saturating_add(units))
    }
}

/// The anchor, if it is not older than the start window.
fn fresh(now: Mono, anchor: Anchor, terms: &Terms) -> Result<Mono, Return> {
    let window = terms.start_window.as_secs_f64();
    match anchor {
        Anchor::At(at) if now.since(at) <= terms.start_window => Ok(at),
        Anchor::At(at) => {
            let age = now.since(at).as_secs_f64();
            Err(Return::because(OwnRule::StaleGrant).reading(age, window).retry_after(SOON))
        }
        Anchor::Forgotten | Anchor::NeverSent => {
            Err(Return::because(OwnRule::StaleGrant).reading(0.0, window).retry_after(SOON))
        }
    }
}

/// Why an accepted lease must not start any more.
pub(super) fn too_late(now: Mono, held: &Held) -> Option<Return> {
    if held.stale_at.is_some_and(|at| at <= now) {
        return Some(Return::because(OwnRule::Stale));
    }
    (now >= held.start_by()).then(|| Return::because(OwnRule::CutOff).retry_after(SOON))
}

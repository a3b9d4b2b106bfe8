//! What each tenant takes of the fleet: of every slot the sum over its leases, charged at the grant, and its dominant
//! share, the largest part of any slot that it takes.
//!
//! A unit counts for as long as a lease charges it: a fleet unit until the lease is over, a node unit until the process
//! tree is gone. What there is of a node slot is the sum over all known nodes, whatever state they are in, so that a
//! share does not jump with every heartbeat.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::{SlotName, Tenant},
    lease::Lease,
    node::Node,
    slots::{Count, Needs, Reservation, Scope},
    state::State,
    tenant::TenantPolicy,
    view::TenantView,
};

/// More tenants than this are not listed.
const MOST_VIEWS: usize = 10_000;

/// A part of a slot over a weight, in units of 2⁻⁴⁰ of the whole; at the end of the range instead of beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Share(pub(crate) u64);

impl Share {
    /// The whole of a slot, for a tenant of weight 1.
    pub(crate) const WHOLE: u64 = 1 << 40;

    /// So many units out of so many. Of a slot that has no units nothing can be granted, so it counts for nothing.
    pub(crate) fn of(units: u64, capacity: u64, weight: u32) -> Self {
        let whole = u128::from(capacity) * u128::from(weight.max(1));
        let scaled = u128::from(units) * u128::from(Self::WHOLE);
        Self(scaled.checked_div(whole).map_or(0, |share| u64::try_from(share).unwrap_or(u64::MAX)))
    }
}

/// A tenant that is declared, or that takes something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TenantEntry {
    /// None: it is not declared.
    pub(crate) declared: Option<TenantPolicy>,
    /// Units that its leases charge, by slot; never 0.
    pub(crate) used: BTreeMap<SlotName, u64>,
    /// The largest share that it has of any slot.
    pub(crate) dominant: Share,
}

impl TenantEntry {
    pub(crate) fn weight(&self) -> u32 {
        self.declared.unwrap_or_default().weight
    }

    fn is_nothing(&self) -> bool {
        self.declared.is_none() && self.used.is_empty()
    }

    fn dominant_of(&self, capacity: &BTreeMap<SlotName, u64>) -> Share {
        let share = |(slot, used): (&SlotName, &u64)| {
            Share::of(*used, capacity.get(slot).copied().unwrap_or(0), self.weight())
        };
        self.used.iter().map(share).max().unwrap_or_default()
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tenants {
    all: BTreeMap<Tenant, TenantEntry>,
    /// Units that all known nodes have of a slot, whatever its scope; never 0.
    of_nodes: BTreeMap<SlotName, u64>,
    /// Units that there are of a declared slot, in the fleet or on all nodes; never 0.
    capacity: BTreeMap<SlotName, u64>,
}

impl Tenants {
    pub(crate) fn get(&self, tenant: &Tenant) -> Option<&TenantEntry> {
        self.all.get(tenant)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Tenant, &TenantEntry)> {
        self.all.iter()
    }

    pub(crate) fn declared(&self) -> impl Iterator<Item = (&Tenant, TenantPolicy)> {
        self.all.iter().filter_map(|(tenant, entry)| Some((tenant, entry.declared?)))
    }

    /// Units that there are of a slot.
    pub(crate) fn capacity(&self, slot: &SlotName) -> u64 {
        self.capacity.get(slot).copied().unwrap_or(0)
    }

    /// The dominant share of a tenant once it had these needs too.
    pub(crate) fn share_with(&self, tenant: &Tenant, needs: &Needs) -> Share {
        self.share_of(self.all.get(tenant), needs)
    }

    /// The least that it would be with any of these; none: there are none.
    pub(crate) fn least_share_with(&self, tenant: &Tenant, mut all: Vec<&Needs>) -> Option<Share> {
        let entry = self.all.get(tenant);
        // Many classes have the same needs.
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(|needs| self.share_of(entry, needs)).min()
    }

    fn share_of(&self, entry: Option<&TenantEntry>, needs: &Needs) -> Share {
        let weight = entry.map_or_else(|| TenantPolicy::default().weight, TenantEntry::weight);
        let with = |(slot, amount): (&SlotName, u32)| {
            let used = entry.and_then(|entry| entry.used.get(slot)).copied().unwrap_or(0);
            Share::of(used + u64::from(amount), self.capacity(slot), weight)
        };
        let now = entry.map(|entry| entry.dominant).unwrap_or_default();
        needs.iter().map(with).max().unwrap_or_default().max(now)
    }

    pub(crate) fn declare(&mut self, tenant: &Tenant, policy: Option<TenantPolicy>) {
        let entry = self.all.entry(tenant.clone()).or_default();
        entry.declared = policy;
        entry.dominant = entry.dominant_of(&self.capacity);
        self.tidy(tenant);
    }

    pub(crate) fn take(&mut self, tenant: &Tenant, needs: &Needs) {
        if needs.is_empty() {
            return;
        }
        let entry = self.all.entry(tenant.clone()).or_default();
        for (slot, amount) in needs.iter() {
            *entry.used.entry(slot.clone()).or_default() += u64::from(amount);
        }
        entry.dominant = entry.dominant_of(&self.capacity);
    }

    pub(crate) fn give_back(&mut self, tenant: &Tenant, needs: &Needs) {
        let Some(entry) = self.all.get_mut(tenant) else { return };
        for (slot, amount) in needs.iter() {
            if let Some(used) = entry.used.get_mut(slot) {
                *used = used.saturating_sub(u64::from(amount));
                if *used == 0 {
                    entry.used.remove(slot);
                }
            }
        }
        entry.dominant = entry.dominant_of(&self.capacity);
        self.tidy(tenant);
    }

    fn tidy(&mut self, tenant: &Tenant) {
        if self.all.get(tenant).is_some_and(TenantEntry::is_nothing) {
            self.all.remove(tenant);
        }
    }

    /// There are so many units of a slot from now on.
    fn set_capacity(&mut self, slot: &SlotName, units: u64) {
        if self.capacity(slot) == units {
            return;
        }
        if units == 0 {
            self.capacity.remove(slot);
        } else {
            self.capacity.insert(slot.clone(), units);
        }
        for entry in self.all.values_mut().filter(|entry| entry.used.contains_key(slot)) {
            entry.dominant = entry.dominant_of(&self.capacity);
        }
    }
}

impl State {
    /// A lease charges this; for its tenant only, its ledgers are others.
    pub(crate) fn charge_tenant(&mut self, tenant: &Tenant, taken: &Reservation) {
        self.tenants.take(tenant, &taken.node);
        self.tenants.take(tenant, &taken.fleet);
    }

    /// A lease of this tenant charges this no more.
    pub(crate) fn credit_tenant(&mut self, tenant: &Tenant, freed: &Reservation) {
        self.tenants.give_back(tenant, &freed.node);
        self.tenants.give_back(tenant, &freed.fleet);
    }

    /// A node offers other units than before; none: there is no such node.
    pub(crate) fn recount_node(&mut self, before: Option<&Node>, after: Option<&Node>) {
        let units = |node: Option<&Node>, slot: &SlotName| {
            node.and_then(|node| node.slots.get(slot)).map_or(0, |capacity| u64::from(capacity.units))
        };
        let slots: BTreeSet<SlotName> =
            [before, after].into_iter().flatten().flat_map(|node| node.slots.keys().cloned()).collect();
        for slot in slots {
            let (old, new) = (units(before, &slot), units(after, &slot));
            if old != new {
                let sum = self.tenants.of_nodes.get(&slot).copied().unwrap_or(0);
                let sum = sum.saturating_sub(old) + new;
                if sum == 0 {
                    self.tenants.of_nodes.remove(&slot);
                } else {
                    self.tenants.of_nodes.insert(slot.clone(), sum);
                }
                self.recount_slot(&slot);
            }
        }
    }

    /// A slot was declared, changed or removed, or nodes offer other units of it.
    pub(crate) fn recount_slot(&mut self, slot: &SlotName) {
        let units = match self.slots.get(slot).map(|slot| slot.scope) {
            Some(Scope::Fleet { capacity }) => u64::from(capacity),
            Some(Scope::Node) => self.tenants.of_nodes.get(slot).copied().unwrap_or(0),
            None => 0,
        };
        self.tenants.set_capacity(slot, units);
    }

    /// Whoever is declared, takes something or has something queued.
    pub(crate) fn tenant_views(&self) -> Vec<TenantView> {
        let mut queued: BTreeMap<&Tenant, u64> = BTreeMap::new();
        for (_, class) in self.classes.iter() {
            *queued.entry(&class.key.tenant).or_default() += class.queue.len() as u64;
        }
        let mut leases: BTreeMap<&Tenant, u64> = BTreeMap::new();
        for entry in self.leases.values() {
            *leases.entry(&entry.lease.tenant).or_default() += 1;
        }
        let mut names: BTreeSet<&Tenant> = queued.keys().chain(leases.keys()).copied().collect();
        names.extend(self.tenants.all.keys());
        let nothing = TenantEntry::default();
        let view = |tenant: &Tenant| {
            let entry = self.tenants.get(tenant).unwrap_or(&nothing);
            let capacity = |slot: &SlotName| self.tenants.capacity(slot);
            // The first of those that are equal.
            let dominant =
                entry.used.iter().rev().max_by_key(|(slot, used)| Share::of(**used, capacity(slot), 1));
            let dominant = dominant.filter(|(slot, _)| capacity(slot) > 0);
            let permille = dominant.map_or(0, |(slot, used)| used.saturating_mul(1000) / capacity(slot));
            let short = |units: u64| u32::try_from(units).unwrap_or(u32::MAX);
            let count = |(slot, used): (&SlotName, &u64)| {
                (slot.clone(), Count { capacity: short(capacity(slot)), used: short(*used) })
            };
            TenantView {
                tenant: tenant.clone(),
                declared: entry.declared.is_some(),
                weight: entry.weight(),
                share_permille: short(permille),
                dominant: dominant.map(|(slot, _)| slot.clone()),
                used: entry.used.iter().map(count).collect(),
                queued: queued.get(tenant).copied().unwrap_or(0),
                leases: leases.get(tenant).copied().unwrap_or(0),
            }
        };
        names.into_iter().take(MOST_VIEWS).map(view).collect()
    }

    /// All of it worked out from the rows.
    pub(crate) fn count_tenants(&self) -> Tenants {
        let mut counted = Tenants::default();
        for node in self.nodes.values() {
            for (slot, capacity) in node.node.slots.iter().filter(|(_, capacity)| capacity.units > 0) {
                *counted.of_nodes.entry(slot.clone()).or_default() += u64::from(capacity.units);
            }
        }
        for (name, slot) in &self.slots {
            let units = match slot.scope {
                Scope::Fleet { capacity } => u64::from(capacity),
                Scope::Node => counted.of_nodes.get(name).copied().unwrap_or(0),
            };
            counted.set_capacity(name, units);
        }
        for (tenant, entry) in self.tenants.iter() {
            counted.declare(tenant, entry.declared);
        }
        for Lease { tenant, reservation, .. } in self.leases.values().map(|entry| &entry.lease) {
            counted.take(tenant, &reservation.node);
            counted.take(tenant, &reservation.fleet);
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exact_where_it_matters_and_defined_where_nothing_is() {
        assert_eq!(Share::of(1, 2, 1).0 * 2, Share::WHOLE);
        assert_eq!(Share::of(3, 4, 3), Share::of(1, 4, 1));
        assert!(Share::of(1, 3, 1) < Share::of(334, 1000, 1));
        assert_eq!(Share::of(5, 0, 1), Share(0));
        assert_eq!(Share::of(5, 1, 0), Share::of(5, 1, 1));
        assert_eq!(Share::of(u64::MAX, 1, 1), Share(u64::MAX));
    }
}

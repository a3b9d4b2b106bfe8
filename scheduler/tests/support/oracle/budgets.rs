//! What is spent of the budgets of kinds: everything that their attempts reported in the present window, added up. When
//! windows begin is taken from the calendar, which has tests of its own.

use std::collections::BTreeMap;

use tenure_scheduler::{CounterName, Durable, Event, FencingToken, Kind, KindName, Now, Wall};

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Budgets {
    /// By kind and counter: when the window began, and how much was reported in it.
    spent: BTreeMap<(KindName, CounterName), (Wall, u64)>,
    /// The kinds of leases that were seen.
    kinds: BTreeMap<FencingToken, KindName>,
}

impl Budgets {
    /// As the rows of an earlier leader tell.
    pub(super) fn found(rows: &Durable) -> Self {
        let of_kind = |kind: &Kind| {
            let name = kind.name.clone();
            let all = kind.spent.clone().into_iter();
            all.map(move |(counter, spent)| ((name.clone(), counter), (spent.since, spent.amount)))
        };
        let kinds = rows.leases.values().map(|lease| (lease.token, lease.kind.clone()));
        Self { spent: rows.kinds.values().flat_map(of_kind).collect(), kinds: kinds.collect() }
    }

    pub(super) fn observe(&mut self, now: Now, event: &Event, rows: &Durable) {
        if let Event::Granted { lease, .. } = event {
            self.kinds.insert(lease.token, lease.kind.clone());
        } else if let Event::KindPut(kind) = event {
            // Another window begins anew: then the row has nothing of it.
            self.spent.retain(|(name, counter), _| *name != kind.name || kind.spent.contains_key(counter));
        } else if let Event::AttemptEnded(end) | Event::LossReplaced(end) = event {
            let kind = self.kinds.get(&end.token).or_else(|| rows.jobs.get(&end.job).map(|job| &job.kind));
            let Some(kind) = kind.and_then(|kind| rows.kinds.get(kind)) else { return };
            for (counter, allowance) in kind.policy.budget.iter().flat_map(|budget| &budget.allowances) {
                let begun = allowance.window.start(now.wall);
                let used = end.usage.get(counter).copied().unwrap_or(0);
                let spent = self.spent.entry((kind.name.clone(), counter.clone())).or_insert((begun, 0));
                if spent.0 < begun {
                    *spent = (begun, 0);
                }
                spent.1 += used;
            }
        }
    }

    /// Whether nothing of a kind may start. A clock that was set back turns no window back.
    pub(super) fn is_spent(&self, now: Now, kind: &Kind) -> bool {
        let budget = kind.policy.budget.iter().flat_map(|budget| &budget.allowances);
        budget.into_iter().any(|(counter, allowance)| {
            let spent = self.spent.get(&(kind.name.clone(), counter.clone()));
            spent.is_some_and(|(since, amount)| {
                *since >= allowance.window.start(now.wall) && *amount >= allowance.amount
            })
        })
    }
}

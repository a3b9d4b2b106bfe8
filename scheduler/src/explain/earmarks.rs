//! Whose earmarks concern a job, and which are on a node.

use std::collections::BTreeMap;

use crate::{
    ids::NodeName,
    job::Job,
    place::{classes::Class, earmarks::Earmark, fit},
    slots::Needs,
    state::State,
    time::Now,
    view::EarmarkView,
};

/// Earmarks listed.
const MOST_EARMARKS: usize = 20;

impl State {
    /// The job's own, and those that keep units of which it needs some: of the fleet, or of a node that it may run on.
    /// None of a job that does not wait.
    pub(super) fn earmarks_for(&self, now: Now, job: &Job, class: &Class) -> Vec<EarmarkView> {
        let shares = |kept: &Needs, needs: &Needs| kept.iter().any(|(slot, _)| needs.amount(slot) > 0);
        let concerns = |earmark: &&Earmark| {
            let node = self.nodes.get(&earmark.node);
            let may_run =
                || node.is_some_and(|node| fit::matches(class, node) && fit::could_hold(class, node));
            earmark.job == job.id
                || shares(&earmark.units.fleet, &class.fleet)
                || (shares(&earmark.units.node, &class.node) && may_run())
        };
        let all = self.earmarks.iter().filter(|_| job.state.is_waiting());
        all.filter(concerns).take(MOST_EARMARKS).map(|earmark| view(now, earmark)).collect()
    }

    /// All of them by their nodes, the first in line first.
    pub(crate) fn earmarks_by_node(&self, now: Now) -> BTreeMap<&NodeName, Vec<EarmarkView>> {
        let mut all: Vec<&Earmark> = self.earmarks.iter().collect();
        all.sort_unstable_by_key(|earmark| earmark.rank);
        let mut by_node: BTreeMap<&NodeName, Vec<EarmarkView>> = BTreeMap::new();
        for earmark in all {
            by_node.entry(&earmark.node).or_default().push(view(now, earmark));
        }
        by_node
    }
}

fn view(now: Now, earmark: &Earmark) -> EarmarkView {
    EarmarkView {
        job: earmark.job,
        node: earmark.node.clone(),
        slots: earmark.needs(),
        by: now.wall.after(earmark.by.since(now.mono)),
    }
}

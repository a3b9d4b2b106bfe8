//! Preferences: which of the nodes that fit a job would rather have. They never keep it waiting.

use std::collections::BTreeMap;

use crate::{
    job::Job,
    node::Node,
    selector::{Preferences, Requirement},
    state::State,
};

/// What a job prefers, and after it what its kind does.
#[derive(Debug)]
pub(crate) struct Preference<'a> {
    wanted: Vec<&'a Requirement>,
}

impl<'a> Preference<'a> {
    pub(crate) fn of(state: &'a State, job: &'a Job) -> Self {
        let kinds = state.kinds.get(&job.kind).map(|entry| &entry.kind.policy.prefer);
        Self { wanted: job.prefer.iter().chain(kinds.into_iter().flat_map(Preferences::iter)).collect() }
    }

    /// The less, the better: an earlier preference counts for more than all later ones.
    pub(crate) fn unmet(&self, node: &Node) -> u32 {
        self.wanted.iter().fold(0, |unmet, wanted| unmet << 1 | u32::from(!wanted.is_met_by(node)))
    }

    /// The same nodes, the preferred first; those that are worth the same in the order that they came in.
    pub(crate) fn first<I: Iterator<Item = u32>>(
        &self,
        state: &State,
        nodes: I,
    ) -> impl Iterator<Item = u32> + use<I> {
        let (sorted, rest) = if self.wanted.is_empty() {
            (Vec::new(), Some(nodes))
        } else {
            (self.sorted(state, nodes), None)
        };
        sorted.into_iter().chain(rest.into_iter().flatten())
    }

    /// Nodes of one type are worth the same, and there are few types.
    fn sorted(&self, state: &State, nodes: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut unmet_of_type = BTreeMap::new();
        let mut by_unmet: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for handle in nodes {
            let Some(node) = state.nodes.at(handle) else { continue };
            let unmet = match state.index.type_of(handle) {
                Some(of) => *unmet_of_type.entry(of).or_insert_with(|| self.unmet(&node.node)),
                None => self.unmet(&node.node),
            };
            by_unmet.entry(unmet).or_default().push(handle);
        }
        by_unmet.into_values().flatten().collect()
    }
}

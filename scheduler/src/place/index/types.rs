//! Which nodes match which classes. Nodes of equal labels, kinds and capacities are of one *type*; classes of one kind
//! and selector have one *profile*. Each type is held against each profile once.

use std::collections::{BTreeMap, BTreeSet};

use super::bits::Bits;
use crate::{
    ids::KindName,
    node::{Node, NodeType},
    place::{classes::ClassKey, fit},
    selector::Selector,
    state::NodeEntry,
};

/// So many profiles that no class has any more are kept, since they are likely to be needed again.
const MOST_UNUSED: usize = 1024;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Types {
    by_look: BTreeMap<NodeType, u32>,
    types: Vec<Option<Type>>,
    profile_of: BTreeMap<(KindName, Selector), u32>,
    profiles: Vec<Option<Profile>>,
    /// The type of each node, by its handle.
    of_node: Vec<Option<u32>>,
    nobody: Bits,
}

#[derive(Debug, Clone)]
struct Type {
    look: NodeType,
    /// One of its nodes, as it was: they are all alike in what a selector can ask for.
    example: Node,
    /// Their handles.
    nodes: BTreeSet<u32>,
    profiles: Bits,
}

#[derive(Debug, Clone)]
struct Profile {
    /// Of one of its classes; they are all alike in what they ask of nodes but for slots.
    example: ClassKey,
    count: u32,
    /// The nodes that match.
    nodes: Bits,
    /// The classes that have it.
    classes: Bits,
}

/// The first place that is empty.
fn vacant<T>(all: &mut Vec<Option<T>>) -> usize {
    all.iter().position(Option::is_none).unwrap_or_else(|| {
        all.push(None);
        all.len() - 1
    })
}

impl Types {
    /// A class begins to be, and has this profile.
    pub(super) fn add_class(&mut self, class: u32, key: &ClassKey) -> u32 {
        let asked = (key.kind.clone(), key.selector.clone());
        let at = match self.profile_of.get(&asked) {
            Some(at) => *at,
            None => self.add_profile(asked, key),
        };
        if let Some(Some(profile)) = self.profiles.get_mut(at as usize) {
            profile.count += 1;
            profile.classes.put(class, true);
        }
        at
    }

    pub(super) fn remove_class(&mut self, class: u32, profile: u32) {
        if let Some(Some(profile)) = self.profiles.get_mut(profile as usize) {
            profile.count = profile.count.saturating_sub(1);
            profile.classes.put(class, false);
        }
    }

    fn add_profile(&mut self, asked: (KindName, Selector), key: &ClassKey) -> u32 {
        if self.profile_of.len() > MOST_UNUSED {
            self.forget_unused();
        }
        let place = vacant(&mut self.profiles);
        let at = u32::try_from(place).unwrap_or(u32::MAX);
        for known in self.types.iter_mut().flatten() {
            known.profiles.put(at, fit::suits(key, &known.example));
        }
        let mut nodes = Bits::default();
        for (handle, of) in (0..).zip(&self.of_node) {
            let of = of.and_then(|of| self.types.get(of as usize)?.as_ref());
            nodes.put(handle, of.is_some_and(|of| of.profiles.contains(at)));
        }
        self.profiles[place] =
            Some(Profile { example: key.clone(), count: 0, nodes, classes: Bits::default() });
        self.profile_of.insert(asked, at);
        at
    }

    fn forget_unused(&mut self) {
        let profiles = &self.profiles;
        let used =
            |at: &u32| profiles.get(*at as usize).is_some_and(|p| p.as_ref().is_some_and(|p| p.count > 0));
        self.profile_of.retain(|_, at| used(at));
        for place in &mut self.profiles {
            if place.as_ref().is_some_and(|profile| profile.count == 0) {
                *place = None;
            }
        }
    }

    /// Takes over what a node is now.
    pub(super) fn follow(&mut self, handle: u32, node: Option<&NodeEntry>) {
        let at = handle as usize;
        if at >= self.of_node.len() {
            self.of_node.resize(at + 1, None);
        }
        let before = self.of_node[at];
        let known = before.and_then(|of| self.types.get(of as usize)?.as_ref());
        match (node, known) {
            (Some(node), Some(known)) if known.look.is_of(&node.node) => return,
            (None, None) => return,
            (Some(_) | None, _) => {}
        }
        if let Some(of) = before {
            self.leave(handle, of);
        }
        self.of_node[at] = node.map(|node| self.enter(handle, &node.node));
    }

    fn leave(&mut self, handle: u32, of: u32) {
        let Some(place) = self.types.get_mut(of as usize) else { return };
        let Some(known) = place else { return };
        for profile in known.profiles.iter() {
            if let Some(Some(profile)) = self.profiles.get_mut(profile as usize) {
                profile.nodes.put(handle, false);
            }
        }
        known.nodes.remove(&handle);
        if known.nodes.is_empty() {
            self.by_look.remove(&known.look);
            *place = None;
        }
    }

    fn enter(&mut self, handle: u32, node: &Node) -> u32 {
        let look = NodeType::of(node);
        let of = match self.by_look.get(&look) {
            Some(of) => *of,
            None => self.add_type(look, node),
        };
        if let Some(Some(known)) = self.types.get_mut(of as usize) {
            known.nodes.insert(handle);
            for profile in known.profiles.iter() {
                if let Some(Some(profile)) = self.profiles.get_mut(profile as usize) {
                    profile.nodes.put(handle, true);
                }
            }
        }
        of
    }

    fn add_type(&mut self, look: NodeType, node: &Node) -> u32 {
        let place = vacant(&mut self.types);
        let of = u32::try_from(place).unwrap_or(u32::MAX);
        let mut profiles = Bits::default();
        for (at, profile) in (0..).zip(&self.profiles) {
            profiles.put(at, profile.as_ref().is_some_and(|profile| fit::suits(&profile.example, node)));
        }
        self.by_look.insert(look.clone(), of);
        self.types[place] = Some(Type { look, example: node.clone(), nodes: BTreeSet::new(), profiles });
        of
    }

    /// The nodes that match a profile.
    pub(super) fn matching(&self, profile: u32) -> &Bits {
        self.profiles
            .get(profile as usize)
            .and_then(Option::as_ref)
            .map_or(&self.nobody, |known| &known.nodes)
    }

    /// For each profile that a node matches, its classes.
    pub(super) fn asking(&self, node: u32) -> impl Iterator<Item = &Bits> {
        let of = self.type_of(node).and_then(|of| self.types.get(of as usize)?.as_ref());
        let profiles = of.into_iter().flat_map(|of| of.profiles.iter());
        let profiles = profiles.filter_map(|at| self.profiles.get(at as usize)?.as_ref());
        profiles.filter(|profile| profile.count > 0).map(|profile| &profile.classes)
    }

    /// One node of each type that matches a profile.
    pub(super) fn examples(&self, profile: u32) -> impl Iterator<Item = u32> {
        let matching = self.types.iter().flatten().filter(move |of| of.profiles.contains(profile));
        matching.filter_map(|of| of.nodes.last().copied())
    }

    pub(super) fn type_of(&self, node: u32) -> Option<u32> {
        self.of_node.get(node as usize).copied().flatten()
    }
}

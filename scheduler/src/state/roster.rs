//! All nodes, by name and by handle. A handle is a small number that an index can use as a bit; it is the node's until the
//! node is removed, and another's after that. Whatever is lent out to be changed is noted, so that the index can follow.

use std::collections::BTreeMap;

use crate::{ids::NodeName, place::index::Touched, state::NodeEntry};

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nodes {
    handles: BTreeMap<NodeName, u32>,
    entries: Vec<Option<NodeEntry>>,
    /// Handles of nobody.
    free: Vec<u32>,
    touched: Touched,
}

impl Nodes {
    pub(crate) fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    pub(crate) fn contains_key(&self, name: &NodeName) -> bool {
        self.handles.contains_key(name)
    }

    pub(crate) fn handle(&self, name: &NodeName) -> Option<u32> {
        self.handles.get(name).copied()
    }

    /// The node that has this handle now.
    pub(crate) fn at(&self, handle: u32) -> Option<&NodeEntry> {
        self.entries.get(handle as usize)?.as_ref()
    }

    pub(crate) fn get(&self, name: &NodeName) -> Option<&NodeEntry> {
        self.at(self.handle(name)?)
    }

    pub(crate) fn get_mut(&mut self, name: &NodeName) -> Option<&mut NodeEntry> {
        let handle = self.handle(name)?;
        self.touched.note(handle);
        self.entries.get_mut(handle as usize)?.as_mut()
    }

    pub(crate) fn insert(&mut self, name: NodeName, entry: NodeEntry) {
        let handle = self.handle(&name).or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        self.touched.note(handle);
        self.handles.insert(name, handle);
        if let Some(place) = self.entries.get_mut(handle as usize) {
            *place = Some(entry);
        }
    }

    pub(crate) fn remove(&mut self, name: &NodeName) -> Option<NodeEntry> {
        let handle = self.handles.remove(name)?;
        self.touched.note(handle);
        self.free.push(handle);
        self.entries.get_mut(handle as usize)?.take()
    }

    /// By name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NodeName, &NodeEntry)> {
        self.handles.iter().filter_map(|(name, handle)| Some((name, self.at(*handle)?)))
    }

    /// By name, those after this one; none: all.
    pub(crate) fn after(&self, name: Option<&NodeName>) -> impl Iterator<Item = (&NodeName, &NodeEntry)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = name.map_or(Unbounded, Excluded);
        let handles = self.handles.range::<NodeName, _>((from, Unbounded));
        handles.filter_map(|(name, handle)| Some((name, self.at(*handle)?)))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &NodeName> {
        self.handles.keys()
    }

    /// By name.
    pub(crate) fn values(&self) -> impl Iterator<Item = &NodeEntry> {
        self.iter().map(|(_, entry)| entry)
    }

    /// By handle.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut NodeEntry> {
        self.touch_all();
        self.entries.iter_mut().flatten()
    }

    /// The index is to look at every node.
    pub(crate) fn touch_all(&mut self) {
        self.handles.values().for_each(|handle| self.touched.note(*handle));
    }

    /// The handles that were lent out, given back or taken since this was last asked.
    pub(crate) fn take_touched(&mut self) -> Vec<u32> {
        self.touched.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        node::{Host, Node},
        time::{Now, Wall},
    };

    fn node(name: &str) -> Node {
        Node {
            name: NodeName::new(name),
            instance: "".into(),
            boot_id: "".into(),
            incarnation: 1,
            stream: 1,
            labels: BTreeMap::new(),
            slots: BTreeMap::new(),
            kinds: Vec::new(),
            host: Host::default(),
            agent_version: "".into(),
            cordoned: false,
            draining: None,
            last_seen: Wall(0),
        }
    }

    #[test]
    fn a_handle_is_used_again_and_never_by_two() {
        let mut nodes = Nodes::default();
        let put = |nodes: &mut Nodes, name: &str| {
            let node = node(name);
            nodes.insert(node.name.clone(), NodeEntry::new(node, Now::default()));
        };
        let handle = |nodes: &Nodes, name: &str| nodes.handle(&NodeName::new(name));
        ["a", "b", "c"].iter().for_each(|name| put(&mut nodes, name));
        put(&mut nodes, "b");
        assert_eq!(nodes.take_touched(), [0, 1, 2]);
        nodes.remove(&NodeName::new("b"));
        assert_eq!((handle(&nodes, "b"), nodes.at(1).is_none()), (None, true));
        put(&mut nodes, "d");
        put(&mut nodes, "e");
        assert_eq!((handle(&nodes, "d"), handle(&nodes, "e")), (Some(1), Some(3)));
        assert_eq!(nodes.take_touched(), [1, 3]);
        assert!(nodes.keys().map(NodeName::as_str).eq(["a", "c", "d", "e"]));
    }
}

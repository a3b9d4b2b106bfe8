//! What a scenario wants: slots, kinds, nodes. Written down as the fleet file and the node files of a user.
//!
//! Responsible for the text of those files, and for telling each job what it needs, so that it can lock it. Not
//! responsible for starting anything (`fleet.rs`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::intervals::Need;

/// What else runs on the machine of the tests is not what they are about: a node that says nothing of pressure is closed
/// neither by load nor by a full disk.
const CALM: &str =
    "[pressure]\nrule = [{ id = \"disk_low\", enabled = false }, { id = \"load_high\", enabled = false }]\n";

/// A fleet to be started.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(crate) fleet_slots: BTreeMap<String, u32>,
    pub(crate) kinds: Vec<KindPlan>,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) server_file: String,
    pub(crate) up: bool,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) hosts: bool,
    pub(crate) older: bool,
    pub(crate) own_wall: bool,
    postgres: bool,
    pub(crate) small_disk: Option<u32>,
}

/// A kind, run by the test job.
#[derive(Clone, Debug)]
pub struct KindPlan {
    pub(crate) name: String,
    needs: Vec<(String, u32)>,
    lease: String,
    grace: String,
    pub(crate) uid: Option<u32>,
    worker: bool,
    lines: Vec<String>,
    node_lines: Vec<String>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    pub(crate) name: String,
    pub(crate) slots: BTreeMap<String, u32>,
    indexes: BTreeMap<String, Vec<u32>>,
    pub(crate) uid: Option<u32>,
    pub(crate) proxied: bool,
    kinds: Option<Vec<String>>,
    labels: BTreeMap<String, String>,
    head: Vec<String>,
    tail: String,
}

impl Plan {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A fleet slot with its capacity. Every other slot that a kind needs is a node slot.
    #[must_use]
    pub fn fleet_slot(mut self, name: &str, capacity: u32) -> Self {
        self.fleet_slots.insert(name.to_owned(), capacity);
        self
    }

    /// A kind.
    #[must_use]
    pub fn kind(mut self, kind: KindPlan) -> Self {
        self.kinds.push(kind);
        self
    }

    /// A node.
    #[must_use]
    pub fn node(mut self, node: NodePlan) -> Self {
        self.nodes.push(node);
        self
    }

    /// Lines of the server file.
    #[must_use]
    pub fn server_file(mut self, text: &str) -> Self {
        text.clone_into(&mut self.server_file);
        self
    }

    /// A variable of the environment of server and agents.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The store is a Postgres cluster of the fleet's own.
    #[must_use]
    pub fn postgres(mut self) -> Self {
        self.postgres = true;
        self
    }

    /// The same, on a disk of its own of so many MiB. Needs root.
    #[must_use]
    pub fn postgres_on_small_disk(mut self, mib: u32) -> Self {
        self.postgres = true;
        self.small_disk = Some(mib);
        self
    }

    /// Clients and agents speak to the server as peers of the committed baseline of the protocol do, and it to them.
    #[must_use]
    pub fn older_peers(mut self) -> Self {
        self.older = true;
        self
    }

    /// Each process has a wall clock that the scenario may step. Linux alone.
    #[must_use]
    pub fn own_wall_clocks(mut self) -> Self {
        self.own_wall = true;
        self
    }

    /// Every node on a host of its own, as far as the network goes, and mutual TLS between all.
    #[must_use]
    pub fn hosts(mut self) -> Self {
        self.hosts = true;
        self
    }

    /// Whether the store is Postgres: by the plan, or for every scenario with a server by `TENURE_TEST_STORE=postgres`.
    pub(crate) fn is_on_postgres(&self) -> bool {
        !self.up
            && (self.postgres || std::env::var("TENURE_TEST_STORE").is_ok_and(|store| store == "postgres"))
    }

    /// Server and agent in one process, `tenure up`, for the only node of the plan.
    #[must_use]
    pub fn up(mut self) -> Self {
        self.up = true;
        self
    }

    /// Whether a job runs as another user, who may not be able to reach the target directory.
    pub(crate) fn has_other_users(&self) -> bool {
        self.nodes.iter().any(|node| node.uid.is_some()) || self.kinds.iter().any(|kind| kind.uid.is_some())
    }

    /// What a job of a kind takes on a node.
    pub fn needs(&self, kind: &str, node: &str) -> Vec<Need> {
        let kind = self.kinds.iter().find(|plan| plan.name == kind);
        let node = self.nodes.iter().find(|plan| plan.name == node);
        let needs = kind.into_iter().flat_map(|kind| &kind.needs);
        needs
            .map(|(slot, amount)| match self.fleet_slots.get(slot) {
                Some(&capacity) => Need { slot: slot.clone(), amount: *amount, capacity },
                None => Need {
                    slot: format!("{slot}@{}", node.map_or("", |node| node.name.as_str())),
                    amount: *amount,
                    capacity: node.and_then(|node| node.slots.get(slot)).copied().unwrap_or(0),
                },
            })
            .collect()
    }

    /// The text of the fleet file.
    pub fn fleet_file(&self) -> String {
        let mut text = "[slots]\n".to_owned();
        for (slot, capacity) in &self.fleet_slots {
            line(&mut text, &format!("{slot} = {capacity}"));
        }
        let needed = self.kinds.iter().flat_map(|kind| kind.needs.iter().map(|(slot, _)| slot));
        let offered = self.nodes.iter().flat_map(|node| node.slots.keys());
        let mut node_slots: Vec<&String> =
            needed.chain(offered).filter(|slot| !self.fleet_slots.contains_key(*slot)).collect();
        node_slots.sort();
        node_slots.dedup();
        for slot in node_slots {
            line(&mut text, &format!("{slot} = \"node\""));
        }
        for kind in &self.kinds {
            let needs: Vec<String> =
                kind.needs.iter().map(|(slot, amount)| format!("{slot} = {amount}")).collect();
            line(&mut text, &format!("[kinds.\"{}\"]", kind.name));
            line(&mut text, &format!("needs = {{ {} }}", needs.join(", ")));
            line(&mut text, &format!("lease = \"{}\"", kind.lease));
            kind.lines.iter().for_each(|more| line(&mut text, more));
        }
        text
    }

    /// The text of a node's file. The jobs find the bench at `directory`; `tag` marks them as ours.
    pub(crate) fn node_file(&self, node: &NodePlan, job: &Path, directory: &Path, tag: &str) -> String {
        let mut text = format!("name = \"{}\"\nallow_root = true\n", node.name);
        node.head.iter().for_each(|more| line(&mut text, more));
        line(&mut text, "[slots]");
        for (slot, capacity) in &node.slots {
            match node.indexes.get(slot) {
                Some(indexes) => line(&mut text, &format!("{slot} = {{ indexes = {indexes:?} }}")),
                None => line(&mut text, &format!("{slot} = {capacity}")),
            }
        }
        line(&mut text, "[labels]");
        for (label, value) in &node.labels {
            line(&mut text, &format!("{label} = \"{value}\""));
        }
        for kind in self.kinds.iter().filter(|kind| node.runs(&kind.name)) {
            let needs: Vec<String> = self.needs(&kind.name, &node.name).iter().map(Need::to_string).collect();
            let needs = if needs.is_empty() { "-".to_owned() } else { needs.join(" ") };
            line(&mut text, &format!("[kinds.\"{}\"]", kind.name));
            line(&mut text, &format!("grace = \"{}\"", kind.grace));
            kind.node_lines.iter().for_each(|more| line(&mut text, more));
            if kind.worker {
                line(&mut text, "worker = true");
                continue;
            }
            line(&mut text, &format!("command = [\"{}\"]", job.display()));
            line(&mut text, &format!("[kinds.\"{}\".env]", kind.name));
            line(&mut text, &format!("TEST_DIR = \"{}\"", directory.display()));
            line(&mut text, &format!("TEST_NODE = \"{}\"", node.name));
            line(&mut text, &format!("TEST_NEEDS = \"{needs}\""));
            line(&mut text, &format!("TEST_TAG = \"{tag}\""));
        }
        text.push_str(&node.tail);
        if !node.tail.contains("[pressure") {
            text.push_str(CALM);
        }
        text
    }
}

impl KindPlan {
    /// A kind with the shortest lease, that needs nothing.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            needs: Vec::new(),
            lease: "10s".to_owned(),
            lines: Vec::new(),
            grace: "1s".to_owned(),
            uid: None,
            worker: false,
            node_lines: Vec::new(),
        }
    }

    /// Its attempts run in workers, which the scenario starts.
    #[must_use]
    pub fn worker(mut self) -> Self {
        self.worker = true;
        self
    }

    /// Units of a slot.
    #[must_use]
    pub fn need(mut self, slot: &str, amount: u32) -> Self {
        self.needs.push((slot.to_owned(), amount));
        self
    }

    /// Another lease.
    #[must_use]
    pub fn lease(mut self, lease: &str) -> Self {
        lease.clone_into(&mut self.lease);
        self
    }

    /// Another time between SIGTERM and SIGKILL than one second.
    #[must_use]
    pub fn grace(mut self, grace: &str) -> Self {
        grace.clone_into(&mut self.grace);
        self
    }

    /// Its jobs belong to another user than their agent's, which must be root.
    #[must_use]
    pub fn uid(mut self, uid: u32) -> Self {
        self.uid = Some(uid);
        self.node_line(&format!("user = {uid}"))
    }

    /// A further line of the fleet file.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// A further line of each node file.
    #[must_use]
    pub fn node_line(mut self, line: &str) -> Self {
        self.node_lines.push(line.to_owned());
        self
    }
}

impl NodePlan {
    /// A node that runs every kind.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            slots: BTreeMap::new(),
            indexes: BTreeMap::new(),
            uid: None,
            proxied: false,
            kinds: None,
            labels: BTreeMap::new(),
            head: Vec::new(),
            tail: String::new(),
        }
    }

    /// Units of a node slot.
    #[must_use]
    pub fn slot(mut self, slot: &str, capacity: u32) -> Self {
        self.slots.insert(slot.to_owned(), capacity);
        self
    }

    /// A node slot whose units have these numbers.
    #[must_use]
    pub fn indexed(mut self, slot: &str, indexes: &[u32]) -> Self {
        self.indexes.insert(slot.to_owned(), indexes.to_vec());
        self.slot(slot, u32::try_from(indexes.len()).unwrap_or(u32::MAX))
    }

    /// A label.
    #[must_use]
    pub fn label(mut self, label: &str, value: &str) -> Self {
        self.labels.insert(label.to_owned(), value.to_owned());
        self
    }

    /// Only these kinds.
    #[must_use]
    pub fn only(mut self, kinds: &[&str]) -> Self {
        self.kinds = Some(kinds.iter().map(|&kind| kind.to_owned()).collect());
        self
    }

    /// Its agent and its jobs belong to another user.
    #[must_use]
    pub fn uid(mut self, uid: u32) -> Self {
        self.uid = Some(uid);
        self
    }

    /// Its session goes through a proxy that the test can hold.
    #[must_use]
    pub fn proxied(mut self) -> Self {
        self.proxied = true;
        self
    }

    /// A further line at the top of the node file.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        self.head.push(line.to_owned());
        self
    }

    /// Further tables at the end of the node file.
    #[must_use]
    pub fn tables(mut self, text: &str) -> Self {
        self.tail.push_str(text);
        self.tail.push('\n');
        self
    }

    fn runs(&self, kind: &str) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|other| other == kind))
    }
}

fn line(text: &mut String, line: &str) {
    if writeln!(text, "{line}").is_err() {
        // A string takes everything.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_toml_and_say_what_was_planned() {
        let plan = Plan::new()
            .fleet_slot("anthropic", 6)
            .kind(KindPlan::new("site.qa").need("browser", 1).need("anthropic", 2).line("queue_cap = 20"))
            .kind(KindPlan::new("free"))
            .node(
                NodePlan::new("n1")
                    .slot("browser", 2)
                    .label("os", "linux")
                    .tables("[pressure]\nsample = \"1s\""),
            );
        let fleet: toml::Table = plan.fleet_file().parse().unwrap();
        assert_eq!(fleet["slots"]["browser"].as_str(), Some("node"));
        assert_eq!(fleet["kinds"]["site.qa"]["queue_cap"].as_integer(), Some(20));
        let text = plan.node_file(&plan.nodes[0], Path::new("/bin/job"), Path::new("/bench"), "tag");
        let node: toml::Table = text.parse().unwrap();
        let environment = &node["kinds"]["site.qa"]["env"];
        assert_eq!(environment["TEST_NEEDS"].as_str(), Some("browser@n1=1/2 anthropic=2/6"));
        assert_eq!(node["kinds"]["free"]["env"]["TEST_NEEDS"].as_str(), Some("-"));
        assert_eq!(node["pressure"]["sample"].as_str(), Some("1s"));
        let silent = plan.node_file(&NodePlan::new("n2"), Path::new("/bin/job"), Path::new("/bench"), "tag");
        let silent: toml::Table = silent.parse().unwrap();
        assert_eq!(silent["pressure"]["rule"].as_array().map(Vec::len), Some(2), "{silent}");
    }
}

//! Deferrals: every way to say "not now" to a stored job. A closed set, each with its parameters.

use std::{fmt, sync::Arc};

use crate::{
    ids::{ConcurrencyKey, CounterName, JobId, NodeName, SlotName},
    selector::Selector,
    time::Wall,
};

/// The rule by which an agent closes a kind for which no worker process is attached, in the agent's word.
pub(crate) const NO_WORKER: &str = "worker";

/// Why a stored job does not run yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Deferral {
    /// A slot has too few units free.
    SlotBusy {
        /// The slot that was short.
        slot: SlotName,
        /// Where, for a node slot.
        node: Option<NodeName>,
        /// Units taken.
        used: u32,
        /// Units in all.
        capacity: u32,
    },
    /// Enough units are free, but too few beside those that are kept for a large job.
    Earmarked {
        /// The slot that was short.
        slot: SlotName,
        /// Where, for a node slot.
        node: Option<NodeName>,
        /// For whom they are kept; none: whoever asked may not know.
        job: Option<JobId>,
    },
    /// A pressure rule of the node that would fit is closed.
    NodePressure {
        /// The node.
        node: NodeName,
        /// The rule.
        rule: Arc<str>,
        /// What it read.
        observed: f64,
        /// Its close value.
        threshold: f64,
    },
    /// The node returned this class not long ago.
    Masked {
        /// The node.
        node: NodeName,
        /// What it said.
        rule: Arc<str>,
    },
    /// Jobs of the kind failed on the node one after the other.
    NodeBackoff {
        /// The node.
        node: NodeName,
        /// It is not offered the kind before this.
        until: Wall,
    },
    /// The job goes on from other jobs' ends, and the node's agent is of a version that cannot hand it those.
    OldAgent {
        /// The node.
        node: NodeName,
    },
    /// No node ever heard of runs this kind and has such labels.
    NoMatchingNode {
        /// What its kind and the job ask for.
        selector: Selector,
    },
    /// Every node that would do is cordoned.
    NodesCordoned {
        /// One of them.
        node: NodeName,
    },
    /// Every node that would do is being emptied.
    Draining {
        /// One of them.
        node: NodeName,
    },
    /// Every node that would do is silent.
    Suspect {
        /// One of them.
        node: NodeName,
    },
    /// The node takes no more grants until it has answered those it has, and read what was sent to it.
    Unanswered {
        /// The node.
        node: NodeName,
        /// Grants that it has not answered.
        grants: u32,
    },
    /// It fits; others of its kind are first.
    Behind {
        /// How many.
        jobs: u64,
    },
    /// As many jobs with its key run as its kind lets run at once.
    ConcurrencyKey {
        /// The key.
        key: ConcurrencyKey,
        /// How many may run.
        limit: u32,
    },
    /// An operator paused its kind.
    KindPaused,
    /// An operator paused a slot that it needs, or its provider wants no more for a while.
    SlotPaused {
        /// The slot.
        slot: SlotName,
        /// When that ends by itself.
        until: Option<Wall>,
    },
    /// A slot that it needs has given as many units as its rate allows.
    RateLimit {
        /// The slot.
        slot: SlotName,
        /// When enough is refilled, if nobody who is first takes it; none: its burst is below what the job needs.
        until: Option<Wall>,
    },
    /// The budget of its kind is spent.
    Budget {
        /// The counter.
        counter: CounterName,
        /// When its window turns.
        until: Wall,
    },
    /// An earlier execution is not known to be gone.
    NotReaped {
        /// Where.
        node: NodeName,
    },
    /// More than any node, or the fleet, has.
    Impossible {
        /// The slot.
        slot: SlotName,
        /// What it needs.
        asked: u32,
        /// The most that there is.
        most: u32,
    },
    /// Storing its change failed alone; an operator must requeue or delete it.
    Broken,
    /// The leader is new; nodes are still coming back.
    WarmingUp,
    /// It waits between attempts.
    Backoff {
        /// When that ends.
        until: Wall,
    },
    /// Its producer asked for a later start.
    RunAt {
        /// When.
        until: Wall,
    },
    /// It waits for children.
    WaitingChildren {
        /// How many of those that it named have not ended.
        children: u32,
    },
    /// It waits for members of its workflow before it.
    Blocked {
        /// How many of those that it is handed the results of have not ended.
        predecessors: u32,
    },
    /// It was not looked at yet; the next turn does.
    Ready,
}

impl Deferral {
    /// The names of all reasons, for tables and tests.
    pub const NAMES: [&'static str; 26] = [
        "slot_busy",
        "earmarked",
        "node_pressure",
        "masked",
        "node_backoff",
        "old_agent",
        "no_matching_node",
        "nodes_cordoned",
        "draining",
        "suspect",
        "unanswered",
        "behind",
        "concurrency_key",
        "kind_paused",
        "slot_paused",
        "rate_limit",
        "budget",
        "not_reaped",
        "impossible",
        "broken",
        "warming_up",
        "backoff",
        "run_at",
        "waiting_children",
        "blocked",
        "ready",
    ];

    /// The stable word for the reason.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::SlotBusy { .. } => "slot_busy",
            Self::Earmarked { .. } => "earmarked",
            Self::NodePressure { .. } => "node_pressure",
            Self::Masked { .. } => "masked",
            Self::NodeBackoff { .. } => "node_backoff",
            Self::OldAgent { .. } => "old_agent",
            Self::NoMatchingNode { .. } => "no_matching_node",
            Self::NodesCordoned { .. } => "nodes_cordoned",
            Self::Draining { .. } => "draining",
            Self::Suspect { .. } => "suspect",
            Self::Unanswered { .. } => "unanswered",
            Self::Behind { .. } => "behind",
            Self::ConcurrencyKey { .. } => "concurrency_key",
            Self::KindPaused => "kind_paused",
            Self::SlotPaused { .. } => "slot_paused",
            Self::RateLimit { .. } => "rate_limit",
            Self::Budget { .. } => "budget",
            Self::NotReaped { .. } => "not_reaped",
            Self::Impossible { .. } => "impossible",
            Self::Broken => "broken",
            Self::WarmingUp => "warming_up",
            Self::Backoff { .. } => "backoff",
            Self::RunAt { .. } => "run_at",
            Self::WaitingChildren { .. } => "waiting_children",
            Self::Blocked { .. } => "blocked",
            Self::Ready => "ready",
        }
    }

    /// Whether it is the same on every node.
    pub(crate) fn is_of_fleet(&self) -> bool {
        matches!(
            self,
            Self::SlotBusy { node: None, .. }
                | Self::Earmarked { node: None, .. }
                | Self::Behind { .. }
                | Self::ConcurrencyKey { .. }
                | Self::KindPaused
                | Self::SlotPaused { .. }
                | Self::RateLimit { .. }
                | Self::Budget { .. }
        )
    }

    /// When it ends by itself, if nothing else ends it before.
    pub(crate) fn until(&self) -> Option<Wall> {
        match self {
            Self::Backoff { until } | Self::RunAt { until } | Self::Budget { until, .. } => Some(*until),
            Self::SlotPaused { until, .. } | Self::RateLimit { until, .. } => *until,
            Self::SlotBusy { .. }
            | Self::Earmarked { .. }
            | Self::NodePressure { .. }
            | Self::NodeBackoff { .. } // Another node may be free before.
            | Self::Masked { .. }
            | Self::OldAgent { .. }
            | Self::NoMatchingNode { .. }
            | Self::NodesCordoned { .. }
            | Self::Draining { .. }
            | Self::Suspect { .. }
            | Self::Unanswered { .. }
            | Self::Behind { .. }
            | Self::KindPaused
            | Self::NotReaped { .. }
            | Self::Impossible { .. }
            | Self::Broken
            | Self::WaitingChildren { .. }
            | Self::Blocked { .. }
            | Self::ConcurrencyKey { .. }
            | Self::WarmingUp
            | Self::Ready => None,
        }
    }

    /// The node that gave it, if one did.
    pub(crate) fn node(&self) -> Option<&NodeName> {
        match self {
            Self::SlotBusy { node, .. } | Self::Earmarked { node, .. } => node.as_ref(),
            Self::NodePressure { node, .. }
            | Self::Masked { node, .. }
            | Self::NodeBackoff { node, .. }
            | Self::OldAgent { node }
            | Self::NodesCordoned { node }
            | Self::Draining { node }
            | Self::Suspect { node }
            | Self::Unanswered { node, .. }
            | Self::NotReaped { node } => Some(node),
            Self::NoMatchingNode { .. }
            | Self::Behind { .. }
            | Self::ConcurrencyKey { .. }
            | Self::KindPaused
            | Self::SlotPaused { .. }
            | Self::RateLimit { .. }
            | Self::Budget { .. }
            | Self::Impossible { .. }
            | Self::Broken
            | Self::WarmingUp
            | Self::Backoff { .. }
            | Self::RunAt { .. }
            | Self::WaitingChildren { .. }
            | Self::Blocked { .. }
            | Self::Ready => None,
        }
    }

    /// Its parameters by name, as text.
    #[must_use]
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::SlotBusy { slot, node, used, capacity } => {
                let mut all = vec![
                    ("slot", slot.to_string()),
                    ("used", used.to_string()),
                    ("capacity", capacity.to_string()),
                ];
                all.extend(node.as_ref().map(|node| ("node", node.to_string())));
                all
            }
            Self::Earmarked { slot, node, job } => {
                let mut all = vec![("slot", slot.to_string())];
                all.extend(job.as_ref().map(|job| ("job", job.to_string())));
                all.extend(node.as_ref().map(|node| ("node", node.to_string())));
                all
            }
            Self::NodePressure { node, rule, observed, threshold } => vec![
                ("node", node.to_string()),
                ("rule", rule.to_string()),
                ("observed", observed.to_string()),
                ("threshold", threshold.to_string()),
            ],
            Self::Masked { node, rule } => vec![("node", node.to_string()), ("rule", rule.to_string())],
            Self::NodeBackoff { node, until } => {
                vec![("node", node.to_string()), ("until_us", until.0.to_string())]
            }
            Self::NoMatchingNode { selector } => vec![("selector", selector.to_string())],
            Self::OldAgent { node }
            | Self::NodesCordoned { node }
            | Self::Draining { node }
            | Self::Suspect { node }
            | Self::NotReaped { node } => vec![("node", node.to_string())],
            Self::Unanswered { node, grants } => {
                vec![("node", node.to_string()), ("grants", grants.to_string())]
            }
            Self::Behind { jobs } => vec![("jobs", jobs.to_string())],
            Self::ConcurrencyKey { key, limit } => {
                vec![("key", key.to_string()), ("limit", limit.to_string())]
            }
            Self::SlotPaused { slot, until } | Self::RateLimit { slot, until } => {
                let mut all = vec![("slot", slot.to_string())];
                all.extend(until.map(|until| ("until_us", until.0.to_string())));
                all
            }
            Self::Budget { counter, until } => {
                vec![("name", counter.to_string()), ("until_us", until.0.to_string())]
            }
            Self::Impossible { slot, asked, most } => {
                vec![("slot", slot.to_string()), ("asked", asked.to_string()), ("most", most.to_string())]
            }
            Self::Backoff { until } | Self::RunAt { until } => vec![("until_us", until.0.to_string())],
            Self::WaitingChildren { children } => vec![("children", children.to_string())],
            Self::Blocked { predecessors } => vec![("predecessors", predecessors.to_string())],
            Self::KindPaused | Self::Broken | Self::WarmingUp | Self::Ready => Vec::new(),
        }
    }

    /// The same for somebody who may know of no other job.
    #[must_use]
    pub fn without_others(mut self) -> Self {
        if let Self::Earmarked { job, .. } = &mut self {
            *job = None;
        }
        self
    }

    /// As a sentence that everybody may read: in the history of a class, whoever has a job in it, and in summaries.
    pub(crate) fn for_everybody(&self) -> String {
        self.clone().without_others().to_string()
    }

    /// Whether the other says the same with other figures. Time and tries of such reasons are added up.
    #[must_use]
    pub fn is_same_reason(&self, other: &Self) -> bool {
        self.name() == other.name() && self.subject() == other.subject()
    }

    /// The reason and what it names, without figures: "slot anthropic", "uid_procs on mini-1".
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Self::SlotBusy { slot, node: None, .. } => format!("slot {slot}"),
            Self::SlotBusy { slot, node: Some(node), .. } => format!("slot {slot} on {node}"),
            Self::Earmarked { slot, node: None, .. } => format!("slot {slot} earmarked"),
            Self::Earmarked { slot, node: Some(node), .. } => format!("slot {slot} on {node} earmarked"),
            Self::NodePressure { node, rule, .. } => format!("{rule} on {node}"),
            Self::Masked { node, rule } => format!("returned by {node} ({rule})"),
            Self::NodeBackoff { node, .. } => format!("{node} backs off after failures"),
            Self::OldAgent { node } => format!("agent of {node} too old for its inputs"),
            Self::NoMatchingNode { .. } => "no matching node".into(),
            Self::NodesCordoned { node } => format!("{node} cordoned"),
            Self::Draining { node } => format!("{node} draining"),
            Self::Suspect { node } => format!("{node} silent"),
            Self::Unanswered { node, .. } => format!("{node} behind with its messages"),
            Self::Behind { .. } => "behind others".into(),
            Self::ConcurrencyKey { .. } => "concurrency key".into(),
            Self::KindPaused => "kind paused".into(),
            Self::SlotPaused { slot, .. } => format!("slot {slot} paused"),
            Self::RateLimit { slot, .. } => format!("rate of slot {slot}"),
            Self::Budget { counter, .. } => format!("budget of {counter} spent"),
            Self::NotReaped { node } => format!("earlier execution on {node} not gone"),
            Self::Impossible { slot, .. } => format!("slot {slot} impossible"),
            Self::Broken => "set aside".into(),
            Self::WarmingUp => "server warming up".into(),
            Self::Backoff { .. } => "back-off".into(),
            Self::RunAt { .. } => "start time".into(),
            Self::WaitingChildren { .. } => "children".into(),
            Self::Blocked { .. } => "members before it".into(),
            Self::Ready => "next turn".into(),
        }
    }
}

/// The reason and its parameters as one sentence.
impl fmt::Display for Deferral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SlotBusy { used, capacity, .. } => write!(f, "{} {used}/{capacity}", self.subject()),
            Self::Earmarked { job: Some(job), .. } => write!(f, "{} for {job}", self.subject()),
            Self::NodePressure { node, rule, .. } if &**rule == NO_WORKER => {
                write!(f, "no worker process is attached on {node}")
            }
            Self::NodePressure { observed, threshold, .. } => {
                write!(f, "{} ({observed}, closes at {threshold})", self.subject())
            }
            Self::NoMatchingNode { selector } if selector.is_empty() => f.write_str("no node runs this kind"),
            Self::NoMatchingNode { selector } => write!(f, "no node runs this kind with {selector}"),
            Self::Unanswered { grants, .. } => write!(f, "{} ({grants} grants unanswered)", self.subject()),
            Self::Behind { jobs } => write!(f, "behind {jobs} others"),
            Self::Blocked { predecessors: 1 } => f.write_str("waits for 1 member of its workflow"),
            Self::Blocked { predecessors } => write!(f, "waits for {predecessors} members of its workflow"),
            Self::WaitingChildren { children: 1 } => f.write_str("waits for 1 child"),
            Self::WaitingChildren { children } => write!(f, "waits for {children} children"),
            Self::ConcurrencyKey { key, limit } => {
                write!(f, "{limit} with key {key} {}", if *limit == 1 { "runs" } else { "run" })
            }
            Self::Impossible { slot, asked, most } => {
                write!(f, "needs {asked} of slot {slot}, the most is {most}")
            }
            Self::Earmarked { job: None, .. }
            | Self::Masked { .. }
            | Self::NodeBackoff { .. }
            | Self::OldAgent { .. }
            | Self::NodesCordoned { .. }
            | Self::Draining { .. }
            | Self::Suspect { .. }
            | Self::KindPaused
            | Self::SlotPaused { .. }
            | Self::RateLimit { .. }
            | Self::Budget { .. }
            | Self::NotReaped { .. }
            | Self::Broken
            | Self::WarmingUp
            | Self::Backoff { .. }
            | Self::RunAt { .. }
            | Self::Ready => f.write_str(&self.subject()),
        }
    }
}

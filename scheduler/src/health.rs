//! The health of queues: arithmetic over the state, for the snapshot that is published after a commit.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    cron::{COALESCED, MissedFiring},
    deferral::Deferral,
    ids::SlotName,
    lease::{Phase, Stage},
    place::{
        classes::{Class, ClassKey},
        fit,
    },
    slots::{Count, Scope},
    state::{KindEntry, NodeEntry, Stand, State, nodes::undeclared},
    time::{Now, Wall},
    view::{KindHealth, NodeState, NodeView, QueueSignal, SlotView, Snapshot},
};

/// A head that has waited for this long while nothing of its kind started is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// A queue at least this deep, and younger than [`BURST_WITHIN`], is a burst.
const BURST_DEPTH: usize = 10;
/// See [`BURST_DEPTH`].
const BURST_WITHIN: Duration = Duration::from_secs(60);
/// An old head is worth a look even while its kind moves.
const OLD: Duration = Duration::from_secs(15 * 60);
/// A delivery that has not arrived for so long is worth a look.
const UNDELIVERED: Duration = Duration::from_secs(5 * 60);
/// For how long a missed firing is worth a look, and an end that a webhook was not told.
const MISSED_LATELY: Duration = Duration::from_secs(24 * 3600);

impl State {
    /// Everything that lists and health need, on committed state.
    #[must_use]
    pub fn snapshot(&self, now: Now) -> Snapshot {
        let health: Vec<KindHealth> = self.kinds.values().map(|entry| self.kind_health(now, entry)).collect();
        let mut kept = self.earmarks_by_node(now);
        let view = |entry: &NodeEntry| NodeView {
            earmarks: kept.remove(&entry.node.name).unwrap_or_default(),
            ..self.node_view(now, entry)
        };
        let nodes: Vec<NodeView> = self.nodes.values().map(view).collect();
        let mut attention = self.attention(&health, &nodes);
        attention.extend(self.cron_attention(now));
        attention.extend(self.webhook_attention(now));
        Snapshot {
            kinds: self.kinds.values().map(|entry| entry.kind.clone()).collect(),
            health,
            slots: self.slot_views(),
            nodes,
            tenants: self.tenant_views(),
            crons: self.crons().collect(),
            webhooks: self.webhooks().collect(),
            attention,
            live_jobs: self.live_jobs(),
            leases: self.leases.len() as u64,
        }
    }

    /// Firings that were missed lately, and entries that are paused.
    fn cron_attention(&self, now: Now) -> impl Iterator<Item = Arc<str>> {
        let lately = move |at| now.wall.since(at) < MISSED_LATELY;
        let missed = self.crons().filter_map(move |entry| {
            // Where one firing stands for others nothing is amiss.
            let told = |missed: &&MissedFiring| lately(missed.at) && &*missed.reason != COALESCED;
            let missed = entry.recent.iter().find(told)?;
            let firings = if missed.count == 1 { "firing" } else { "firings" };
            let (count, message) = (missed.count, &missed.message);
            Some(format!("cron entry {} missed {count} {firings}: {message}", entry.name).into())
        });
        let paused = self.crons().filter_map(|entry| {
            let pause = entry.paused.as_ref()?;
            Some(format!("cron entry {} is paused by {}", entry.name, pause.by).into())
        });
        missed.chain(paused)
    }

    /// Webhooks whose receiver is gone, for which something has waited for long, or to which something was lately not told or
    /// given up.
    fn webhook_attention(&self, now: Now) -> impl Iterator<Item = Arc<str>> {
        self.webhooks().filter_map(move |view| {
            let name = &view.webhook.name;
            let age = view.oldest.map_or(Duration::ZERO, |oldest| now.wall.since(oldest));
            let waits = view.waiting;
            if view.webhook.gone.is_some() {
                let told = format!(
                    "the receiver of webhook {name} says that it is gone (410); {waits} deliveries wait"
                );
                return Some(told.into());
            }
            let lately = |at: Option<Wall>| at.is_some_and(|at| now.wall.since(at) < MISSED_LATELY);
            if lately(view.dropped_at) {
                let dropped = view.dropped;
                return Some(
                    format!("webhook {name} was not told of {dropped} ends: too much waited for it").into(),
                );
            }
            if age >= UNDELIVERED {
                let minutes = age.as_secs() / 60;
                return Some(
                    format!("{waits} deliveries wait for webhook {name}, the oldest for {minutes} min")
                        .into(),
                );
            }
            if lately(view.failed_at) {
                let failed = view.failed;
                let told = format!(
                    "{failed} deliveries to webhook {name} were given up; they may be wanted again (redeliver)"
                );
                return Some(told.into());
            }
            None
        })
    }

    fn kind_health(&self, now: Now, entry: &KindEntry) -> KindHealth {
        let oldest_age = entry.queued.first().map(|(since, _)| now.wall.since(*since));
        let last_grant_ago = entry.last_grant.map(|at| now.mono.since(at));
        let head = self.head_reason(entry);
        KindHealth {
            kind: entry.kind.name.clone(),
            depth: entry.queued.len() as u64,
            oldest_age,
            running: entry.running,
            scheduled: entry.scheduled,
            waiting: entry.waiting,
            blocked: entry.blocked,
            nodes_able: self.nodes_able(entry),
            dead_by_day: entry.kind.dead_by_day.iter().rev().map(|(day, count)| (*day, *count)).collect(),
            signal: signal(entry, oldest_age, last_grant_ago, head.as_ref()),
            head,
            paused: entry.kind.paused,
            arrivals_per_minute: entry.arrivals.per_minute(now.mono),
            grants_per_minute: entry.grants.per_minute(now.mono),
            completions_per_minute: entry.completions.per_minute(now.mono),
            last_grant_ago,
        }
    }

    /// Why the oldest queued job of a kind does not run.
    fn head_reason(&self, entry: &KindEntry) -> Option<Deferral> {
        let job = entry.queued.first().and_then(|(_, id)| self.jobs.get(id))?;
        if let Some(reason) = self.hold_reason(job) {
            return Some(reason);
        }
        let Stand::Class(class) = job.stand else { return None };
        let class = self.classes.get(class)?;
        Some(class.failed.as_ref().map_or(Deferral::Ready, |failed| failed.reason.clone()))
    }

    /// Nodes that are heard and could run a job of the kind if they were empty.
    fn nodes_able(&self, entry: &KindEntry) -> u32 {
        let policy = &entry.kind.policy;
        let key = ClassKey {
            kind: entry.kind.name.clone(),
            needs: policy.needs.clone(),
            selector: policy.selector.clone(),
            tenant: crate::ids::Tenant::new("default"),
            within: None,
            inputs: false,
        };
        let class = Class::new(key, &self.slots);
        if class.fleet.iter().any(|(slot, amount)| self.fleet.count(slot).capacity < amount) {
            return 0;
        }
        let able = self.nodes.values().filter(|node| {
            node.live.as_ref().is_some_and(|live| !live.suspect)
                && fit::matches(&class, node)
                && fit::could_hold(&class, node)
        });
        u32::try_from(able.count()).unwrap_or(u32::MAX)
    }

    /// One pass over the nodes that are heard and one over the classes, however many slots there are.
    fn slot_views(&self) -> Vec<SlotView> {
        let mut counts: BTreeMap<&SlotName, Count> = BTreeMap::new();
        for node in self.nodes.values().filter(|node| node.live.is_some()) {
            for (slot, count) in node.ledger.iter() {
                let sum = counts.entry(slot).or_default();
                sum.capacity = sum.capacity.saturating_add(count.capacity);
                sum.used = sum.used.saturating_add(count.used);
            }
        }
        let mut waiting: BTreeMap<&SlotName, u64> = BTreeMap::new();
        for (_, class) in self.classes.iter() {
            let queued = class.queue.len() as u64;
            class.key.needs.iter().for_each(|(slot, _)| *waiting.entry(slot).or_default() += queued);
        }
        let view = |slot: &crate::slots::Slot| SlotView {
            slot: slot.clone(),
            count: match slot.scope {
                Scope::Fleet { .. } => self.fleet.count(&slot.name),
                Scope::Node => counts.get(&slot.name).copied().unwrap_or_default(),
            },
            waiting: waiting.get(&slot.name).copied().unwrap_or_default(),
        };
        self.slots.values().map(view).collect()
    }

    /// But for the earmarks on it.
    fn node_view(&self, now: Now, entry: &NodeEntry) -> NodeView {
        let leases = || entry.leases.iter().filter_map(|token| self.leases.get(token));
        let count = |live: bool| {
            let all = leases().filter(|entry| entry.lease.stage.is_live() == live).count();
            u32::try_from(all).unwrap_or(u32::MAX)
        };
        NodeView {
            node: entry.node.clone(),
            state: match &entry.live {
                None => NodeState::Away,
                Some(live) if live.suspect => NodeState::Suspect,
                Some(_) => NodeState::Live,
            },
            leaving: entry.live.as_ref().is_some_and(|live| live.leaving),
            slots: entry.ledger.iter().map(|(slot, count)| (slot.clone(), count)).collect(),
            running: count(true),
            unreaped: count(false),
            silent_for: (!entry.presumed_open).then(|| now.mono.since(entry.heard)),
            closed: entry.live.as_ref().map(|live| live.pressure.closed.clone()).unwrap_or_default(),
            warnings: if entry.live.is_some() { undeclared(self, &entry.node) } else { Vec::new() },
            backoffs: entry.backoffs.iter().filter_map(|(kind, backoff)| backoff.view(kind, now)).collect(),
            earmarks: Vec::new(),
        }
    }

    /// What a person should look at, the worst first.
    fn attention(&self, health: &[KindHealth], nodes: &[NodeView]) -> Vec<Arc<str>> {
        let mut all: Vec<String> = Vec::new();
        for (kind, reason) in health.iter().filter_map(|kind| Some((kind, kind.head.as_ref()?))) {
            match kind.signal {
                QueueSignal::Stuck => {
                    all.push(format!("kind {} is stuck: {} queued, {reason}", kind.kind, kind.depth))
                }
                QueueSignal::Idle | QueueSignal::Moving | QueueSignal::Burst
                    if kind.oldest_age.is_some_and(|age| age >= OLD) =>
                {
                    all.push(format!("kind {} has waited for over 15 min: {reason}", kind.kind));
                }
                QueueSignal::Idle | QueueSignal::Moving | QueueSignal::Burst => {}
            }
        }
        if self.aside > 0 {
            all.push(format!(
                "{} jobs are set aside after a failed write: requeue or delete them",
                self.aside
            ));
        }
        for entry in self.leases.values().filter(|entry| entry.watch.kept) {
            all.push(format!(
                "the end of job {} could not be written: it keeps its slots until node {} reports its end or is forgotten",
                entry.lease.job, entry.lease.node
            ));
        }
        for entry in self.leases.values().filter(|entry| entry.watch.phase == Phase::Unkillable) {
            all.push(format!("job {} cannot be killed on node {}", entry.lease.job, entry.lease.node));
        }
        let unreaped = self.leases.values().filter(|entry| entry.lease.stage == Stage::Unreaped).count();
        if unreaped > 0 {
            all.push(format!(
                "{unreaped} ended leases still charge their nodes: their processes are not known to be gone"
            ));
        }
        for node in nodes {
            match node.state {
                NodeState::Suspect => all.push(format!("node {} is silent", node.node.name)),
                NodeState::Away if node.running > 0 => {
                    all.push(format!("node {} is away and holds {} leases", node.node.name, node.running));
                }
                NodeState::Away | NodeState::Live => {}
            }
            for closed in &node.closed {
                all.push(format!("node {} refuses {}: rule {}", node.node.name, closed.group, closed.rule));
            }
        }
        for kind in health.iter().filter(|kind| kind.paused.is_some()) {
            all.push(format!("kind {} is paused", kind.kind));
        }
        for slot in self.slots.values().filter(|slot| slot.paused.is_some()) {
            all.push(format!("slot {} is paused", slot.name));
        }
        for slot in self.slots.values().filter(|slot| slot.throttled_until.is_some()) {
            all.push(format!("slot {} is throttled: its provider wants no more for a while", slot.name));
        }
        all.into_iter().map(Into::into).collect()
    }
}

/// Whether a head waits for a time that somebody set: it is kept, not stuck.
fn is_kept(head: Option<&Deferral>) -> bool {
    matches!(
        head,
        Some(
            Deferral::SlotPaused { .. }
                | Deferral::RateLimit { until: Some(_), .. }
                | Deferral::Budget { .. }
        )
    )
}

fn signal(
    entry: &KindEntry,
    oldest: Option<Duration>,
    last_grant_ago: Option<Duration>,
    head: Option<&Deferral>,
) -> QueueSignal {
    let Some(oldest) = oldest else { return QueueSignal::Idle };
    let nothing_started = last_grant_ago.is_none_or(|ago| ago >= STUCK_AFTER);
    // A full slot whose holders of this kind are still at work is being used, not stuck.
    let at_work = entry.running > 0 && matches!(head, Some(Deferral::SlotBusy { .. }));
    if oldest >= STUCK_AFTER && nothing_started && !at_work && !is_kept(head) {
        QueueSignal::Stuck
    } else if entry.queued.len() >= BURST_DEPTH && oldest < BURST_WITHIN {
        QueueSignal::Burst
    } else {
        QueueSignal::Moving
    }
}

//! Apply: makes the kinds, slots, tenants and cron entries those of a fleet file, or lists every conflict. Applying twice changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    cron::{CronEntry, CronPolicy},
    effect::{Message, Reply},
    event::Event,
    ids::{FencingToken, KindName, NodeName, SlotName},
    job::Job,
    kind::{Fleet, Kind, KindPolicy},
    rate::RateLimit,
    refusal::Refusal,
    slots::{Scope, Slot},
    state::State,
    step::Step,
    time::Wall,
    webhook::{Webhook, WebhookPolicy},
};

impl Step<'_> {
    pub(super) fn apply_fleet(&mut self, fleet: &Fleet, validate_only: bool) -> Result<(), Refusal> {
        let conflicts = conflicts(self.state, fleet);
        if !conflicts.is_empty() {
            return Err(Refusal::FleetConflict { conflicts });
        }
        let (events, changes) = difference(self.state, fleet, self.now.wall);
        if fleet.webhooks_stay {
            let (mut events, mut lines) = (Vec::new(), Vec::new());
            webhooks(self.state, fleet, &mut events, &mut lines);
            if !events.is_empty() {
                return Err(Refusal::WebhooksNotAllowed { changes: lines.join("; ") });
            }
        }
        if !validate_only {
            let before = intervals(self.state);
            events.into_iter().for_each(|event| self.emit(event));
            self.configure(&before);
        }
        self.reply(Reply::Applied { changes });
        Ok(())
    }

    /// Tells the nodes whose heartbeat interval is another one now.
    fn configure(&mut self, before: &BTreeMap<NodeName, Duration>) {
        for (node, heartbeat_interval) in intervals(self.state) {
            if before.get(&node) != Some(&heartbeat_interval) {
                self.send(&node, Message::Configure { heartbeat_interval });
            }
        }
    }
}

/// How often the connected nodes send heartbeats.
fn intervals(state: &State) -> BTreeMap<NodeName, Duration> {
    let live = state.nodes.iter().filter_map(|(name, node)| Some((name, node.live.as_ref()?)));
    live.map(|(name, live)| (name.clone(), live.interval)).collect()
}

/// What would orphan something.
fn conflicts(state: &State, fleet: &Fleet) -> Vec<String> {
    let mut conflicts = Vec::new();
    for (kind, policy) in &fleet.kinds {
        for (slot, _) in policy.needs.iter().filter(|(slot, _)| !fleet.slots.contains_key(*slot)) {
            conflicts.push(format!("kind {kind} needs slot {slot}, which is not declared"));
        }
        for (slot, amount) in policy.needs.iter() {
            if let Some(rate) = fleet.rates.get(slot).filter(|rate| rate.burst < amount) {
                conflicts.push(format!(
                    "kind {kind} needs {amount} of slot {slot}, whose rate lets {} start at once (its burst)",
                    rate.burst
                ));
            }
        }
        for slot in policy.keep_on_wait.iter().filter(|slot| !fleet.slots.contains_key(*slot)) {
            conflicts.push(format!("kind {kind} keeps slot {slot}, which is not declared"));
        }
    }
    for (entry, policy) in &fleet.crons {
        if !fleet.kinds.contains_key(&policy.kind) {
            conflicts.push(format!("cron {entry} enqueues kind {}, which is not declared", policy.kind));
        }
        let needs = policy.job.needs.iter().flat_map(|needs| needs.iter());
        for (slot, _) in needs.filter(|(slot, _)| !fleet.slots.contains_key(*slot)) {
            conflicts.push(format!("cron {entry} needs slot {slot}, which is not declared"));
        }
    }
    for (webhook, policy) in &fleet.webhooks {
        let kinds = policy.kinds.iter().flatten();
        for kind in kinds.filter(|kind| !fleet.kinds.contains_key(*kind)) {
            conflicts.push(format!("webhook {webhook} wants to hear of kind {kind}, which is not declared"));
        }
    }
    for kind in state.kinds.keys().filter(|kind| !fleet.kinds.contains_key(*kind)) {
        // Counted one by one: jobs that were set aside are in no figure of their kind.
        let of_kind = |job: &Job| job.kind == *kind && !job.state.is_final();
        let live = state.jobs.values().filter(|entry| of_kind(&entry.job)).count();
        if live > 0 {
            conflicts.push(format!("kind {kind} is gone from the file and has {live} live jobs"));
        }
    }
    let offered: BTreeSet<&SlotName> = state
        .nodes
        .values()
        .filter(|entry| entry.live.is_some())
        .flat_map(|entry| entry.node.slots.keys())
        .collect();
    for (slot, scope) in &fleet.slots {
        let known = state.slots.get(slot).map(|slot| slot.scope);
        let becomes_fleet =
            matches!(scope, Scope::Fleet { .. }) && !matches!(known, Some(Scope::Fleet { .. }));
        // A node that reports a slot which is a fleet slot already was warned; it must not stand in the way.
        if becomes_fleet && offered.contains(slot) {
            conflicts.push(format!(
                "slot {slot} is a fleet slot in the file, and connected nodes report it as their own"
            ));
        }
        let moves = known.is_some_and(|known| matches!(known, Scope::Node) != matches!(scope, Scope::Node));
        if moves && is_held(state, slot) {
            conflicts.push(format!("slot {slot} changes between node and fleet while leases hold it"));
        }
    }
    // The slot of a kind may go while it is held: what runs runs on, and nothing asks for it any more.
    let gone = |slot: &&SlotName| !slot.is_of_kind() && !fleet.slots.contains_key(*slot);
    for slot in state.slots.keys().filter(gone) {
        if let Some(entry) = slot.cron_entry() {
            let single = fleet.crons.iter().any(|(name, policy)| name.as_str() == entry && policy.singleton);
            let needed = state.jobs.values().filter(|job| {
                !job.job.state.is_final() && job.job.needs.as_ref().is_some_and(|n| n.amount(slot) > 0)
            });
            let needed = if single { 0 } else { needed.count() };
            if needed > 0 {
                conflicts.push(format!(
                    "cron {entry} is gone from the file, or is no singleton any more, and {needed} live jobs of it \
                     need its slot"
                ));
            }
            continue;
        }
        if is_held(state, slot) {
            conflicts.push(format!("slot {slot} is gone from the file while leases hold it"));
        }
        let needed = state.jobs.values().filter(|entry| {
            !entry.job.state.is_final()
                && entry.job.needs.as_ref().is_some_and(|needs| needs.amount(slot) > 0)
        });
        let needed = needed.count();
        if needed > 0 {
            conflicts.push(format!("slot {slot} is gone from the file and {needed} live jobs need it"));
        }
    }
    conflicts
}

fn is_held(state: &State, slot: &SlotName) -> bool {
    state.leases.values().any(|entry| {
        let yielded = entry.lease.waits().map(|parked| &parked.yielded);
        let all = [Some(&entry.lease.reservation), yielded];
        // What a parked lease gave it takes again.
        all.into_iter().flatten().any(|held| held.node.amount(slot) + held.fleet.amount(slot) > 0)
    })
}

/// The events that make the state that of the file, and a line for each.
fn difference(state: &State, fleet: &Fleet, now: Wall) -> (Vec<Event>, Vec<String>) {
    let (mut events, mut lines) = (Vec::new(), Vec::new());
    let slots = fleet.all_slots();
    for (name, scope) in &slots {
        let known = state.slots.get(name);
        let slot = slot_with(state, known, name, *scope, fleet.rates.get(name).copied());
        if known == Some(&slot) {
            continue;
        }
        lines.push(match known {
            None => format!("slot {name} declared: {}", slot_text(&slot)),
            Some(known) => format!("slot {name}: {} -> {}", slot_text(known), slot_text(&slot)),
        });
        events.push(Event::SlotPut(slot));
    }
    for (name, policy) in &fleet.kinds {
        let known = state.kinds.get(name);
        if known.is_some_and(|entry| entry.kind.policy == *policy) {
            continue;
        }
        lines.push(match known {
            None => format!("kind {name} declared"),
            Some(entry) => format!("kind {name}: {}", changed_fields(&entry.kind.policy, policy).join(", ")),
        });
        events.push(Event::KindPut(Box::new(kind_with(known.map(|entry| &entry.kind), name, policy))));
    }
    for name in state.kinds.keys().filter(|name| !fleet.kinds.contains_key(*name)) {
        lines.push(format!("kind {name} removed"));
        events.push(Event::KindRemoved(name.clone()));
    }
    for name in state.slots.keys().filter(|name| !slots.contains_key(*name)) {
        lines.push(format!("slot {name} removed"));
        events.push(Event::SlotRemoved(name.clone()));
    }
    tenants(state, fleet, &mut events, &mut lines);
    crons(state, fleet, now, (&mut events, &mut lines));
    webhooks(state, fleet, &mut events, &mut lines);
    (events, lines)
}

/// An entry that is changed keeps what it has done. A timetable or zone that is changed counts from now on.
fn crons(state: &State, fleet: &Fleet, now: Wall, (events, lines): (&mut Vec<Event>, &mut Vec<String>)) {
    for (name, policy) in &fleet.crons {
        let Some(known) = state.crons.get(name).map(|cron| &cron.entry) else {
            lines.push(format!("cron {name} declared: {} {}", policy.when, policy.zone));
            events.push(Event::CronPut(Box::new(CronEntry::new(name.clone(), policy.clone(), now))));
            continue;
        };
        if known.policy == *policy {
            continue;
        }
        lines.push(format!("cron {name}: {}", changed_of_cron(&known.policy, policy).join(", ")));
        let same = (&known.policy.when, &known.policy.zone) == (&policy.when, &policy.zone);
        let last_instant = if same { known.last_instant } else { known.last_instant.max(now) };
        let entry = CronEntry { policy: policy.clone(), last_instant, ..known.clone() };
        events.push(Event::CronPut(Box::new(entry)));
    }
    for name in state.crons.keys().filter(|name| !fleet.crons.contains_key(*name)) {
        lines.push(format!("cron {name} removed"));
        events.push(Event::CronRemoved(name.clone()));
    }
}

/// One that is changed is believed to be there again.
fn webhooks(state: &State, fleet: &Fleet, events: &mut Vec<Event>, lines: &mut Vec<String>) {
    for (name, policy) in &fleet.webhooks {
        let known = state.webhook(name);
        if known.is_some_and(|known| known.policy == *policy) {
            continue;
        }
        lines.push(match known {
            None => format!("webhook {name} declared"),
            Some(known) => {
                format!("webhook {name}: {}", changed_of_webhook(&known.policy, policy).join(", "))
            }
        });
        let webhook = Webhook { name: name.clone(), policy: policy.clone(), gone: None };
        events.push(Event::WebhookPut(Box::new(webhook)));
    }
    for name in state.outbox.webhooks.keys().filter(|name| !fleet.webhooks.contains_key(*name)) {
        lines.push(match state.outbox.of(name).len() {
            0 => format!("webhook {name} removed"),
            kept => format!("webhook {name} removed with {kept} deliveries that have not arrived"),
        });
        events.push(Event::WebhookRemoved(name.clone()));
    }
}

fn changed_of_webhook(old: &WebhookPolicy, new: &WebhookPolicy) -> Vec<&'static str> {
    let fields = [
        ("url", old.url != new.url),
        ("secret", old.secret != new.secret),
        ("events", old.events != new.events),
        ("kinds", old.kinds != new.kinds),
        ("workflows", old.workflows != new.workflows),
    ];
    fields.into_iter().filter_map(|(name, changed)| changed.then_some(name)).collect()
}

fn changed_of_cron(old: &CronPolicy, new: &CronPolicy) -> Vec<String> {
    let mut changed = Vec::new();
    for (name, old, new) in [("when", &old.when, &new.when), ("zone", &old.zone, &new.zone)] {
        if old != new {
            changed.push(format!("{name} {old} -> {new}"));
        }
    }
    let (job, of_new) = (&old.job, &new.job);
    let fields = [
        ("kind", old.kind != new.kind),
        ("missed", old.missed != new.missed),
        ("jitter", old.jitter != new.jitter),
        ("singleton", old.singleton != new.singleton),
        ("payload", job.payload != of_new.payload),
        ("content_type", job.content_type != of_new.content_type),
        ("tenant", job.tenant != of_new.tenant),
        ("priority", job.priority != of_new.priority),
        ("labels", job.labels != of_new.labels),
        ("needs", job.needs != of_new.needs),
        ("selector", job.selector != of_new.selector),
        ("stale_after", job.stale_after != of_new.stale_after),
        ("hard_time_limit", job.hard_time_limit != of_new.hard_time_limit),
        ("concurrency_key", job.concurrency_key != of_new.concurrency_key),
    ];
    changed.extend(fields.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name.to_owned()));
    changed
}

fn slot_with(
    state: &State,
    known: Option<&Slot>,
    name: &SlotName,
    scope: Scope,
    rate: Option<RateLimit>,
) -> Slot {
    let as_it_was = known.filter(|known| known.scope == scope);
    Slot {
        name: name.clone(),
        scope,
        paused: known.and_then(|slot| slot.paused),
        capacity_since: as_it_was.map_or_else(|| newest(state), |known| known.capacity_since),
        throttled_until: known
            .and_then(|slot| slot.throttled_until)
            .filter(|_| matches!(scope, Scope::Fleet { .. })),
        rate: rate.filter(|_| matches!(scope, Scope::Fleet { .. })),
        full_at: known.and_then(|slot| slot.full_at),
    }
}

/// Any name is a tenant, so nothing keeps one from being declared or not.
fn tenants(state: &State, fleet: &Fleet, events: &mut Vec<Event>, lines: &mut Vec<String>) {
    for (name, policy) in &fleet.tenants {
        let known = state.tenants.get(name).and_then(|entry| entry.declared);
        if known == Some(*policy) {
            continue;
        }
        lines.push(match known {
            None => format!("tenant {name} declared: weight {}", policy.weight),
            Some(known) => format!("tenant {name}: weight {} -> {}", known.weight, policy.weight),
        });
        events.push(Event::TenantPut { tenant: name.clone(), policy: *policy });
    }
    for (name, _) in state.tenants.declared().filter(|(name, _)| !fleet.tenants.contains_key(*name)) {
        lines.push(format!("tenant {name} removed"));
        events.push(Event::TenantRemoved(name.clone()));
    }
}

fn kind_with(known: Option<&Kind>, name: &KindName, policy: &KindPolicy) -> Kind {
    Kind {
        name: name.clone(),
        policy: policy.clone(),
        paused: known.and_then(|kind| kind.paused),
        dead_by_day: known.map(|kind| kind.dead_by_day.clone()).unwrap_or_default(),
        spent: known.map(|kind| kind.spent_under(policy.budget.as_ref())).unwrap_or_default(),
    }
}

/// The newest token of this epoch: whoever was granted later was granted under the new capacity.
pub(crate) fn newest(state: &State) -> FencingToken {
    FencingToken::mint(state.epoch, state.grants)
}

fn slot_text(slot: &Slot) -> String {
    match (slot.scope, slot.rate) {
        (Scope::Node, _) => "node".into(),
        (Scope::Fleet { capacity }, None) => capacity.to_string(),
        (Scope::Fleet { capacity }, Some(rate)) => format!("{capacity} at {rate}"),
    }
}

fn changed_fields(old: &KindPolicy, new: &KindPolicy) -> Vec<&'static str> {
    let fields = [
        ("needs", old.needs != new.needs),
        ("selector", old.selector != new.selector),
        ("prefer", old.prefer != new.prefer),
        ("node_backoff", old.node_backoff != new.node_backoff),
        ("lease", old.lease != new.lease),
        ("max_failures", old.max_failures != new.max_failures),
        ("max_losses", old.max_losses != new.max_losses),
        ("retry", old.retry != new.retry),
        ("permanent_exit_codes", old.permanent_exit_codes != new.permanent_exit_codes),
        ("hard_time_limit", old.hard_time_limit != new.hard_time_limit),
        ("soft_time_limit", old.soft_time_limit != new.soft_time_limit),
        ("progress_timeout", old.progress_timeout != new.progress_timeout),
        ("queue_cap", old.queue_cap != new.queue_cap),
        ("max_running", old.max_running != new.max_running),
        ("concurrency", old.concurrency != new.concurrency),
        ("fifo", old.fifo != new.fifo),
        ("reserve_after", old.reserve_after != new.reserve_after),
        ("budget", old.budget != new.budget),
        ("stale_after", old.stale_after != new.stale_after),
        ("dedupe", old.dedupe != new.dedupe),
        ("placement", old.placement != new.placement),
        ("priority", old.priority != new.priority),
        ("result_ttl", old.result_ttl != new.result_ttl),
        ("retention", old.retention != new.retention),
        ("keep_on_wait", old.keep_on_wait != new.keep_on_wait),
        ("reacquire_timeout", old.reacquire_timeout != new.reacquire_timeout),
    ];
    fields.into_iter().filter_map(|(name, changed)| changed.then_some(name)).collect()
}

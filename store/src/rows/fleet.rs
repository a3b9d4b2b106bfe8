//! Kinds, slots, tenants, nodes, and the timelines of classes.

use std::collections::BTreeMap;

use tenure_scheduler::{
    Capacity, ClassEntry, ClassRow, Host, Kind, KindName, KindPolicy, Node, NodeName, Pause, PausePolicy,
    RateLimit, Scope, Slot, SlotName, Tenant, TenantPolicy,
};

use super::{
    At, Error, Fields, Json, int,
    json::{CapacityJson, ClassEntryJson, HostJson, PolicyJson},
    json_text, length_us, mapped,
};

mapped! {
/// The columns of a kind, to be written.
pub(crate) struct KindRow<'a> {
    name: &'a str,
    policy: Json,
    paused: Option<&'static str>,
    dead_by_day: Json,
}
}

impl<'a> From<&'a Kind> for KindRow<'a> {
    fn from(kind: &'a Kind) -> Self {
        let days: BTreeMap<i64, i64> =
            kind.dead_by_day.iter().map(|(day, dead)| (*day, int(*dead))).collect();
        Self {
            name: kind.name.as_str(),
            policy: json_text(&PolicyJson::from(&kind.policy)),
            paused: kind.paused.map(pause_name),
            dead_by_day: json_text(&days),
        }
    }
}

/// Reads a kind from name, policy, paused, dead_by_day.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_kind(row: &mut Fields<'_>) -> Result<Kind, Error> {
    let name = row.name("name", KindName::new)?;
    row.set_key(&name);
    Ok(Kind {
        name,
        policy: KindPolicy::from(row.json::<PolicyJson>("policy")?),
        paused: {
            let known = |name: &str| PAUSES.into_iter().find(|policy| pause_name(*policy) == name);
            match row.opt_text("paused", known)? {
                Some(None) => return Err(row.wrong("paused", &"is none that this version knows")),
                Some(policy) => policy,
                None => None,
            }
        },
        dead_by_day: row.json("dead_by_day")?,
    })
}

const PAUSES: [PausePolicy; 2] = [PausePolicy::Hold, PausePolicy::Reject];

fn pause_name(policy: PausePolicy) -> &'static str {
    match policy {
        PausePolicy::Hold => "hold",
        PausePolicy::Reject => "reject",
    }
}

mapped! {
/// The columns of a slot, to be written.
pub(crate) struct SlotRow<'a> {
    name: &'a str,
    scope: &'static str,
    capacity: Option<u32>,
    capacity_since: i64,
    paused: bool,
    paused_until: Option<At>,
    rate_tokens: Option<u32>,
    rate_per_us: Option<i64>,
    rate_burst: Option<u32>,
    rate_full_at: Option<At>,
}
}

impl<'a> From<&'a Slot> for SlotRow<'a> {
    fn from(slot: &'a Slot) -> Self {
        let (scope, capacity) = match slot.scope {
            Scope::Node => ("node", None),
            Scope::Fleet { capacity } => ("fleet", Some(capacity)),
        };
        Self {
            name: slot.name.as_str(),
            scope,
            capacity,
            capacity_since: int(slot.capacity_since.0),
            paused: slot.paused.is_some(),
            paused_until: slot.paused.and_then(|pause| pause.until).map(At::from),
            rate_tokens: slot.rate.map(|rate| rate.tokens),
            rate_per_us: slot.rate.map(|rate| length_us(rate.per)),
            rate_burst: slot.rate.map(|rate| rate.burst),
            rate_full_at: slot.full_at.map(At::from),
        }
    }
}

/// Reads a slot from name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst,
/// rate_full_at.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_slot(row: &mut Fields<'_>) -> Result<Slot, Error> {
    let name = row.name("name", SlotName::new)?;
    row.set_key(&name);
    let scope = row.name("scope", |scope| scope)?;
    let capacity = row.opt_int("capacity")?;
    let scope = match &*scope {
        "node" => Scope::Node,
        "fleet" => Scope::Fleet { capacity: row.some("capacity", capacity)? },
        _ => return Err(row.wrong("scope", &"is none that this version knows")),
    };
    let capacity_since = row.token("capacity_since")?;
    let paused = row.flag("paused")?;
    let until = row.opt_wall("paused_until")?;
    let rate = rate(row)?;
    let full_at = row.opt_wall("rate_full_at")?;
    Ok(Slot { name, scope, paused: paused.then_some(Pause { until }), capacity_since, rate, full_at })
}

fn rate(row: &mut Fields<'_>) -> Result<Option<RateLimit>, Error> {
    let tokens = row.opt_int("rate_tokens")?;
    let per = row.opt_length("rate_per_us")?;
    let burst = row.opt_int("rate_burst")?;
    let Some(tokens) = tokens else { return Ok(None) };
    let (per, burst) = (row.some("rate_per_us", per)?, row.some("rate_burst", burst)?);
    Ok(Some(RateLimit { tokens, per, burst }))
}

mapped! {
/// The columns of a declared tenant, to be written.
pub(crate) struct TenantRow<'a> {
    name: &'a str,
    weight: u32,
}
}

impl<'a> From<&'a (Tenant, TenantPolicy)> for TenantRow<'a> {
    fn from((name, policy): &'a (Tenant, TenantPolicy)) -> Self {
        Self { name: name.as_str(), weight: policy.weight }
    }
}

/// Reads a declared tenant from name, weight.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_tenant(row: &mut Fields<'_>) -> Result<(Tenant, TenantPolicy), Error> {
    let name = row.name("name", Tenant::new)?;
    row.set_key(&name);
    Ok((name, TenantPolicy { weight: row.int("weight")? }))
}

mapped! {
/// The columns of a node, to be written.
pub(crate) struct NodeRow<'a> {
    name: &'a str,
    instance: &'a str,
    boot_id: &'a str,
    incarnation: i64,
    stream: i64,
    labels: Json,
    slots: Json,
    kinds: Json,
    host: Json,
    agent_version: &'a str,
    cordoned: bool,
    draining_us: Option<i64>,
    last_seen_at: At,
}
}

impl<'a> From<&'a Node> for NodeRow<'a> {
    fn from(node: &'a Node) -> Self {
        let slots: BTreeMap<&str, CapacityJson> =
            node.slots.iter().map(|(slot, capacity)| (slot.as_str(), (*capacity).into())).collect();
        let kinds: Vec<&str> = node.kinds.iter().map(KindName::as_str).collect();
        Self {
            name: node.name.as_str(),
            instance: &node.instance,
            boot_id: &node.boot_id,
            incarnation: int(node.incarnation),
            stream: int(node.stream),
            labels: json_text(&node.labels),
            slots: json_text(&slots),
            kinds: json_text(&kinds),
            host: json_text(&HostJson::from(&node.host)),
            agent_version: &node.agent_version,
            cordoned: node.cordoned,
            draining_us: node.draining.map(length_us),
            last_seen_at: node.last_seen.into(),
        }
    }
}

/// Reads a node from name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version,
/// cordoned, draining_us, last_seen_at.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_node(row: &mut Fields<'_>) -> Result<Node, Error> {
    let name = row.name("name", NodeName::new)?;
    row.set_key(&name);
    Ok(Node {
        name,
        instance: row.text("instance", |text| text.into())?,
        boot_id: row.text("boot_id", |text| text.into())?,
        incarnation: row.int("incarnation")?,
        stream: row.int("stream")?,
        labels: row.json("labels")?,
        slots: {
            let slots = row.json::<BTreeMap<String, CapacityJson>>("slots")?;
            slots
                .into_iter()
                .map(|(slot, capacity)| (SlotName::new(slot), Capacity::from(capacity)))
                .collect()
        },
        kinds: row.json::<Vec<String>>("kinds")?.into_iter().map(KindName::new).collect(),
        host: Host::from(row.json::<HostJson<'_>>("host")?),
        agent_version: row.text("agent_version", |text| text.into())?,
        cordoned: row.flag("cordoned")?,
        draining: row.opt_length("draining_us")?,
        last_seen: row.wall("last_seen_at")?,
    })
}

mapped! {
/// The columns of a class, to be written.
pub(crate) struct TimelineRow<'a> {
    class: &'a str,
    timeline: Json,
}
}

impl<'a> From<&'a ClassRow> for TimelineRow<'a> {
    fn from(row: &'a ClassRow) -> Self {
        let entries: Vec<ClassEntryJson<'_>> = row.timeline.iter().map(ClassEntryJson::from).collect();
        Self { class: &row.class, timeline: json_text(&entries) }
    }
}

/// Reads a class from class, timeline.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_class(row: &mut Fields<'_>) -> Result<ClassRow, Error> {
    let class: String = row.text("class", |text| text.into())?;
    row.set_key(&class);
    let entries = row.json::<Vec<ClassEntryJson<'_>>>("timeline")?;
    Ok(ClassRow { class, timeline: entries.into_iter().map(ClassEntry::from).collect() })
}

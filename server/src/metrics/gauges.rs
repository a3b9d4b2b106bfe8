//! Gauges: made anew from the published snapshot for each scrape, so that nothing that is gone lingers.

use std::{collections::BTreeMap, time::Duration};

use prometheus::{CounterVec, GaugeVec, Opts, core::Collector as _, proto::MetricFamily};
use tenure_scheduler::{KindHealth, NodeState};

use super::{Figure, Scrape, Shape};

/// All tenants that the fleet file does not declare: whoever enqueues may make one up.
const UNDECLARED: &str = "other";

/// The families of one scrape.
pub(super) fn of(scrape: &Scrape) -> Result<Vec<MetricFamily>, prometheus::Error> {
    let snapshot = &*scrape.snapshot;
    let mut all = Gauges(Vec::new());
    let kinds = || snapshot.health.iter();
    all.put(
        Figure::Jobs,
        kinds().flat_map(|k| {
            [
                ("queued", k.depth),
                ("scheduled", k.scheduled),
                ("running", k.running),
                ("waiting", k.waiting),
                ("blocked", k.blocked),
            ]
            .map(|(state, count)| (vec![k.kind.as_str(), state], float(count)))
        }),
    )?;
    all.put(
        Figure::OldestAge,
        kinds().map(|k| (vec![k.kind.as_str()], k.oldest_age.unwrap_or_default().as_secs_f64())),
    )?;
    all.put(
        Figure::DeadToday,
        kinds().map(|k| (vec![k.kind.as_str()], float(dead_on(k, scrape.now.day())))),
    )?;
    all.put(Figure::NodesAble, kinds().map(|k| (vec![k.kind.as_str()], f64::from(k.nodes_able))))?;
    all.put(
        Figure::KindPaused,
        kinds().map(|k| (vec![k.kind.as_str()], f64::from(u8::from(k.paused.is_some())))),
    )?;

    let slots = || snapshot.slots.iter();
    all.put(Figure::SlotUsed, slots().map(|s| (vec![s.slot.name.as_str()], f64::from(s.count.used))))?;
    all.put(
        Figure::SlotCapacity,
        slots().map(|s| (vec![s.slot.name.as_str()], f64::from(s.count.capacity))),
    )?;
    all.put(Figure::SlotWaiting, slots().map(|s| (vec![s.slot.name.as_str()], float(s.waiting))))?;

    let (mut used, mut queued) = (BTreeMap::new(), BTreeMap::new());
    for view in &snapshot.tenants {
        let tenant = if view.declared { view.tenant.as_str() } else { UNDECLARED };
        *queued.entry(tenant).or_insert(0) += view.queued;
        for (slot, count) in &view.used {
            *used.entry((tenant, slot.as_str())).or_insert(0) += u64::from(count.used);
        }
    }
    all.put(
        Figure::TenantUsed,
        used.into_iter().map(|((tenant, slot), units)| (vec![tenant, slot], float(units))),
    )?;
    all.put(Figure::TenantQueued, queued.into_iter().map(|(tenant, jobs)| (vec![tenant], float(jobs))))?;

    let nodes = || snapshot.nodes.iter();
    let in_state = |state| nodes().filter(|n| n.state == state).count();
    all.put(
        Figure::Nodes,
        [("live", NodeState::Live), ("suspect", NodeState::Suspect), ("away", NodeState::Away)]
            .map(|(word, state)| (vec![word], float(in_state(state) as u64))),
    )?;
    all.put(Figure::NodeLeases, nodes().map(|n| (vec![n.node.name.as_str()], f64::from(n.running))))?;
    all.put(Figure::NodeUnreaped, nodes().map(|n| (vec![n.node.name.as_str()], f64::from(n.unreaped))))?;
    all.put(
        Figure::NodeClosedGroups,
        nodes().map(|n| (vec![n.node.name.as_str()], float(n.closed.len() as u64))),
    )?;

    let webhooks = || snapshot.webhooks.iter();
    all.put(Figure::WebhookWaiting, webhooks().map(|w| (vec![w.webhook.name.as_str()], float(w.waiting))))?;
    all.put(
        Figure::WebhookOldestAge,
        webhooks().map(|w| {
            let age = w.oldest.map_or(Duration::ZERO, |oldest| scrape.now.since(oldest));
            (vec![w.webhook.name.as_str()], age.as_secs_f64())
        }),
    )?;
    all.put(Figure::WebhookFailed, webhooks().map(|w| (vec![w.webhook.name.as_str()], float(w.failed))))?;
    all.put(
        Figure::WebhookGone,
        webhooks().map(|w| (vec![w.webhook.name.as_str()], f64::from(u8::from(w.webhook.gone.is_some())))),
    )?;

    all.one(Figure::LiveJobs, float(snapshot.live_jobs))?;
    all.one(Figure::Leases, float(snapshot.leases))?;
    all.one(Figure::Sessions, float(scrape.sessions))?;
    all.one(Figure::Epoch, float(scrape.epoch))?;
    all.one(Figure::Leader, f64::from(u8::from(scrape.leader)))?;
    all.one(Figure::Reloads, float(scrape.reloads))?;
    all.one(Figure::Terms, float(scrape.terms))?;
    all.put(Figure::RenewalAge, scrape.renewed_ago.map(|age| (vec![], age.as_secs_f64())))?;
    all.put(Figure::SnapshotAge, scrape.snapshot_age.map(|age| (vec![], age.as_secs_f64())))?;
    all.one(Figure::Uptime, scrape.uptime.as_secs_f64())?;
    all.put(Figure::BuildInfo, [(vec![env!("CARGO_PKG_VERSION")], 1.0)])?;
    Ok(all.0)
}

/// Families, as they are made.
struct Gauges(Vec<MetricFamily>);

impl Gauges {
    fn put<'a>(
        &mut self,
        figure: Figure,
        values: impl IntoIterator<Item = (Vec<&'a str>, f64)>,
    ) -> Result<(), prometheus::Error> {
        let spec = figure.spec();
        if spec.shape == Shape::Counter {
            let vec = CounterVec::new(Opts::new(spec.name, spec.help), spec.labels)?;
            for (labels, value) in values {
                vec.with_label_values(&labels).inc_by(value);
            }
            self.extend(vec.collect());
            return Ok(());
        }
        let vec = GaugeVec::new(Opts::new(spec.name, spec.help), spec.labels)?;
        for (labels, value) in values {
            vec.with_label_values(&labels).set(value);
        }
        self.extend(vec.collect());
        Ok(())
    }

    /// The text format knows no family without a value.
    fn extend(&mut self, families: Vec<MetricFamily>) {
        self.0.extend(families.into_iter().filter(|family| !family.get_metric().is_empty()));
    }

    fn one(&mut self, figure: Figure, value: f64) -> Result<(), prometheus::Error> {
        self.put(figure, [(vec![], value)])
    }
}

/// Jobs of the kind that became dead on a day since 1970, UTC.
fn dead_on(kind: &KindHealth, day: i64) -> u64 {
    kind.dead_by_day.iter().find(|&&(at, _)| at == day).map_or(0, |&(_, count)| count)
}

/// Exact up to 2⁵³, which no count of ours reaches.
fn float(count: u64) -> f64 {
    count as f64
}

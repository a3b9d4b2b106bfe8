//! Figures for Prometheus: counters and histograms that grow as turns go by, and gauges that are made from the
//! published snapshot when somebody asks, so that they can never disagree with `tenure health`.
//!
//! Not responsible for: serving them (`http.rs`), or deciding anything by them. Nothing here reads a clock.
//! Invariant: every label value is a declared name, a word of a closed set, or capped.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use opentelemetry::{
    KeyValue,
    metrics::{Histogram, Meter},
};
use prometheus::{
    HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder, proto::MetricFamily,
};
use tenure_scheduler::{
    AttemptEnd, DeliveryState, Effect, Event, JobState, Message, Outcome, Reply, Snapshot, Verdict, Wall,
    WebhookName,
};
use tenure_store::{Violation, inbox::InboxState, reader};

mod figure;
mod gauges;
mod otlp;
mod results;
#[cfg(test)]
mod tests;

pub(crate) use otlp::export;

pub use figure::{Figure, Shape, Spec};

/// A node names the rules of its returns itself: this many are told apart, the rest count as `other`.
const MOST_RULES: usize = 64;

/// What may become of a call that is handed on: the leader answered it, is gone, or was not asked as too many are on
/// their way.
pub(crate) const HANDED_ON: [&str; 3] = ["answered", "gone", "busy"];

/// What the driver says of one turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct TurnFigures {
    /// Commands that were applied, ticks included.
    pub commands: u64,
    /// Looks of placement at a class, and at a node for it.
    pub evaluations: u64,
    /// From the first command collected to the last effect released.
    pub turn: Duration,
    /// Of its commit; none if there was nothing to commit.
    pub commit: Option<Duration>,
}

/// What gauges are made from.
#[derive(Debug, Clone)]
pub struct Scrape {
    /// As published.
    pub snapshot: Arc<Snapshot>,
    /// How old that is; none where nothing is published, such as while another server leads.
    pub snapshot_age: Option<Duration>,
    /// The present, for the day that counts as today.
    pub now: Wall,
    /// The leadership number in force.
    pub epoch: u64,
    /// Whether this server leads.
    pub leader: bool,
    /// Takeovers from itself since the start.
    pub reloads: u64,
    /// How often it began to lead since the start.
    pub terms: u64,
    /// How long ago the newest good renewal was sent; none where nobody else can lead, or while another does.
    pub renewed_ago: Option<Duration>,
    /// Sessions of agents.
    pub sessions: u64,
    /// Since the start.
    pub uptime: Duration,
}

/// Why figures cannot be made or written: a bug in the table of names.
#[derive(Debug, thiserror::Error)]
#[error("the figures cannot be made")]
pub struct Error(#[from] prometheus::Error);

/// All counters and histograms. Cheap to share behind an `Arc`.
pub struct Metrics {
    registry: Registry,
    enqueues: IntCounterVec,
    duplicates: IntCounterVec,
    grants: IntCounterVec,
    attempts: IntCounterVec,
    final_jobs: IntCounterVec,
    returns: IntCounterVec,
    stale_reports: IntCounterVec,
    refusals: IntCounterVec,
    failed_handshakes: IntCounterVec,
    handed_on: IntCounterVec,
    uploads: IntCounterVec,
    object_bytes: IntCounterVec,
    swept_objects: IntCounterVec,
    missing_objects: IntGaugeVec,
    firings: IntCounterVec,
    missed_firings: IntCounterVec,
    deliveries: IntCounterVec,
    ingested: IntCounterVec,
    deduplicated_rows: IntCounterVec,
    refused_rows: IntCounterVec,
    inbox_rows: IntGaugeVec,
    inbox_age: IntGaugeVec,
    deferrals: IntCounterVec,
    commands: IntCounterVec,
    evaluations: IntCounterVec,
    violations: IntGaugeVec,
    turn_seconds: Distribution,
    commit_seconds: Distribution,
    query_seconds: Distribution,
    wait_seconds: Distribution,
    delivery_seconds: Distribution,
    rules: Mutex<BTreeSet<Arc<str>>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// All figures at zero.
    ///
    /// # Errors
    /// A bug in the table of names.
    pub fn new() -> Result<Self, Error> {
        let registry = Registry::new();
        let counter = |figure| counter(&registry, figure);
        let histogram = |figure| histogram(&registry, figure);
        let metrics = Self {
            enqueues: counter(Figure::Enqueues)?,
            duplicates: counter(Figure::Duplicates)?,
            grants: counter(Figure::Grants)?,
            attempts: counter(Figure::Attempts)?,
            final_jobs: counter(Figure::FinalJobs)?,
            returns: counter(Figure::Returns)?,
            stale_reports: counter(Figure::StaleReports)?,
            refusals: counter(Figure::Refusals)?,
            failed_handshakes: counter(Figure::FailedHandshakes)?,
            handed_on: counter(Figure::HandedOn)?,
            uploads: counter(Figure::Uploads)?,
            object_bytes: counter(Figure::ObjectBytes)?,
            swept_objects: counter(Figure::SweptObjects)?,
            missing_objects: results::missing_objects(&registry)?,
            firings: counter(Figure::Firings)?,
            missed_firings: counter(Figure::MissedFirings)?,
            deliveries: counter(Figure::Deliveries)?,
            ingested: counter(Figure::Ingested)?,
            deduplicated_rows: counter(Figure::DeduplicatedRows)?,
            refused_rows: counter(Figure::RefusedRows)?,
            inbox_rows: sampled(&registry, Figure::InboxRows)?,
            inbox_age: sampled(&registry, Figure::InboxAge)?,
            deferrals: counter(Figure::Deferrals)?,
            commands: counter(Figure::Commands)?,
            evaluations: counter(Figure::Evaluations)?,
            violations: sampled(&registry, Figure::Violations)?,
            turn_seconds: histogram(Figure::TurnSeconds)?,
            commit_seconds: histogram(Figure::CommitSeconds)?,
            query_seconds: histogram(Figure::QuerySeconds)?,
            wait_seconds: histogram(Figure::WaitSeconds)?,
            delivery_seconds: histogram(Figure::DeliverySeconds)?,
            rules: Mutex::default(),
            registry,
        };
        metrics.observe_violations(&[]);
        metrics.observe_inbox(&InboxState::default());
        for outcome in Outcome::ALL {
            metrics.attempts.with_label_values(&[outcome.name()]);
        }
        for state in ["succeeded", "dead", "cancelled", "expired"] {
            metrics.final_jobs.with_label_values(&[state]);
        }
        for failure in tenure_tls::Failure::ALL {
            metrics.failed_handshakes.with_label_values(&[failure.name()]);
        }
        for outcome in HANDED_ON {
            metrics.handed_on.with_label_values(&[outcome]);
        }
        metrics.begin_results();
        Ok(metrics)
    }

    /// Takes over what the views over leases showed.
    pub fn observe_violations(&self, found: &[Violation]) {
        for name in reader::OF_LEASES {
            let rows = found.iter().filter(|violation| violation.invariant == name).count();
            self.violations.with_label_values(&[name]).set(i64::try_from(rows).unwrap_or(i64::MAX));
        }
    }

    /// Takes over how the inbox of the database stands.
    pub(crate) fn observe_inbox(&self, state: &InboxState) {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.inbox_rows.with_label_values::<&str>(&[]).set(number(state.waiting));
        self.inbox_age.with_label_values::<&str>(&[]).set(number(state.oldest.unwrap_or_default().as_secs()));
    }

    /// Counts rows of the inbox that became jobs, and those of them whose key was that of another job.
    pub(crate) fn observe_ingested(&self, rows: u64, deduplicated: u64) {
        self.ingested.with_label_values::<&str>(&[]).inc_by(rows);
        self.deduplicated_rows.with_label_values::<&str>(&[]).inc_by(deduplicated);
    }

    /// Counts a row of the inbox that became no job.
    pub(crate) fn observe_refused_row(&self, reason: &'static str) {
        self.refused_rows.with_label_values(&[reason]).inc();
    }

    /// Counts what a turn did. Called by the driver once a turn, after its commit.
    pub fn observe_turn(&self, turn: &TurnFigures, events: &[Event], effects: &[Effect]) {
        self.commands.with_label_values::<&str>(&[]).inc_by(turn.commands);
        self.evaluations.with_label_values::<&str>(&[]).inc_by(turn.evaluations);
        self.turn_seconds.observe(&[], turn.turn.as_secs_f64());
        if let Some(commit) = turn.commit {
            self.commit_seconds.observe(&[], commit.as_secs_f64());
        }
        for event in events {
            self.observe_event(event);
        }
        for effect in effects {
            self.observe_effect(effect);
        }
    }

    /// Counts a question that the driver answered, by how long that held it up.
    pub fn observe_query(&self, took: Duration) {
        self.query_seconds.observe(&[], took.as_secs_f64());
    }

    /// Counts a call that was refused, by its reason.
    pub fn observe_refusal(&self, reason: &'static str) {
        self.refusals.with_label_values(&[reason]).inc();
    }

    /// Counts a connection that ended before it was served.
    pub fn observe_handshake(&self, failure: tenure_tls::Failure) {
        self.failed_handshakes.with_label_values(&[failure.name()]).inc();
    }

    /// A call was handed on to the leader; the outcome is one of [`HANDED_ON`].
    pub(crate) fn observe_handed_on(&self, outcome: &'static str) {
        self.handed_on.with_label_values(&[outcome]).inc();
    }

    /// All figures as Prometheus text.
    ///
    /// # Errors
    /// A bug in the table of names.
    pub fn text(&self, scrape: &Scrape) -> Result<String, Error> {
        Ok(TextEncoder::new().encode_to_string(&self.families(scrape)?)?)
    }

    /// All figures.
    fn families(&self, scrape: &Scrape) -> Result<Vec<MetricFamily>, Error> {
        let mut families = self.registry.gather();
        families.extend(gauges::of(scrape)?);
        Ok(families)
    }

    /// From here on values of histograms are told to the meter as well.
    fn export_histograms(&self, meter: &Meter) {
        for distribution in [
            &self.turn_seconds,
            &self.commit_seconds,
            &self.query_seconds,
            &self.wait_seconds,
            &self.delivery_seconds,
        ] {
            distribution.twin.get_or_init(|| otlp::histogram(meter, distribution.figure));
        }
    }

    fn observe_event(&self, event: &Event) {
        // Only the lifecycle of jobs is counted; the snapshot shows everything else.
        if let Event::Enqueued(job) = event {
            self.enqueues.with_label_values(&[job.kind.as_str()]).inc();
        } else if let Event::Granted { lease, waits } = event {
            self.grants.with_label_values(&[lease.kind.as_str()]).inc();
            let waited: Duration = waits.iter().map(|wait| wait.duration).sum();
            self.wait_seconds.observe(&[lease.kind.as_str()], waited.as_secs_f64());
        } else if let Event::AttemptEnded(end) | Event::LossReplaced(end) = event {
            self.observe_end(end);
        } else if let Event::Ended { state, .. } = event {
            self.observe_state(state);
        } else if let Event::CronFired { entry, .. } = event {
            self.firings.with_label_values(&[entry.as_str()]).inc();
        } else if let Event::CronMissed { entry, missed } = event {
            self.missed_firings.with_label_values(&[entry.as_str(), &missed.reason]).inc_by(missed.count);
        } else if let Event::DeliveryRemoved { webhook, arrived: true, .. } = event {
            self.observe_try(webhook, "delivered");
        } else if let Event::DeliveryDropped { webhook, .. } = event {
            self.observe_try(webhook, "dropped");
        } else if let Event::DeliveryChanged(delivery) = event {
            match delivery.state {
                DeliveryState::Failed { .. } => self.observe_try(&delivery.webhook, "given_up"),
                // One that was not tried is wanted again by an operator.
                DeliveryState::Waiting { .. } if delivery.tries > 0 => {
                    self.observe_try(&delivery.webhook, "failed");
                }
                DeliveryState::Waiting { .. } => {}
            }
        } else if let Event::Deferred { reason, .. } = event {
            self.deferrals.with_label_values(&[reason.name()]).inc();
        }
    }

    fn observe_try(&self, webhook: &WebhookName, outcome: &'static str) {
        self.deliveries.with_label_values(&[webhook.as_str(), outcome]).inc();
    }

    /// A webhook was told something, so long after it ended.
    pub(crate) fn observe_delivery(&self, after: Duration) {
        self.delivery_seconds.observe(&[], after.as_secs_f64());
    }

    fn observe_end(&self, end: &AttemptEnd) {
        self.attempts.with_label_values(&[end.outcome.name()]).inc();
        if end.outcome == Outcome::Returned {
            self.returns.with_label_values(&[&*self.rule(&end.cause)]).inc();
        }
        self.observe_state(&end.next);
    }

    fn observe_state(&self, state: &JobState) {
        if state.is_final() {
            self.final_jobs.with_label_values(&[state.name()]).inc();
        }
    }

    fn observe_effect(&self, effect: &Effect) {
        if let Effect::Reply(Reply::Enqueued { deduplicated: true, .. }) = effect {
            self.duplicates.with_label_values::<&str>(&[]).inc();
        } else if let Effect::Send { message: Message::Stored(stored), .. } = effect
            && let Verdict::LeaseLost(cause) = stored.verdict
        {
            self.stale_reports.with_label_values(&[cause.name()]).inc();
        }
    }

    /// The rule as a label: itself while few are known, else `other`.
    fn rule(&self, rule: &Arc<str>) -> Arc<str> {
        let mut known = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(rule) {
            if known.len() >= MOST_RULES {
                return "other".into();
            }
            known.insert(Arc::clone(rule));
        }
        Arc::clone(rule)
    }
}

fn counter(registry: &Registry, figure: Figure) -> Result<IntCounterVec, prometheus::Error> {
    let spec = figure.spec();
    let vec = IntCounterVec::new(Opts::new(spec.name, spec.help), spec.labels)?;
    if spec.labels.is_empty() {
        vec.with_label_values::<&str>(&[]); // shown as zero from the start
    }
    registry.register(Box::new(vec.clone()))?;
    Ok(vec)
}

/// What stays from sample to sample: it is no part of the snapshot.
fn sampled(registry: &Registry, figure: Figure) -> Result<IntGaugeVec, prometheus::Error> {
    let spec = figure.spec();
    let vec = IntGaugeVec::new(Opts::new(spec.name, spec.help), spec.labels)?;
    registry.register(Box::new(vec.clone()))?;
    Ok(vec)
}

fn histogram(registry: &Registry, figure: Figure) -> Result<Distribution, prometheus::Error> {
    let spec = figure.spec();
    let mut options = HistogramOpts::new(spec.name, spec.help);
    if let Shape::Histogram(bounds) = spec.shape {
        options = options.buckets(bounds.to_vec());
    }
    let vec = HistogramVec::new(options, spec.labels)?;
    registry.register(Box::new(vec.clone()))?;
    Ok(Distribution { figure, vec, twin: OnceLock::new() })
}

/// A histogram, and its twin by OTLP, if figures are exported.
struct Distribution {
    figure: Figure,
    vec: HistogramVec,
    twin: OnceLock<Histogram<f64>>,
}

impl Distribution {
    fn observe(&self, labels: &[&str], value: f64) {
        self.vec.with_label_values(labels).observe(value);
        if let Some(twin) = self.twin.get() {
            let names = self.figure.spec().labels.iter();
            let attributes: Vec<KeyValue> =
                names.zip(labels).map(|(&name, &label)| KeyValue::new(name, label.to_owned())).collect();
            twin.record(value, &attributes);
        }
    }
}

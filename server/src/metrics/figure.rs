//! The names of all figures, once. `/metrics`, the documents and the alert rules say what this table says.

/// A figure of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Jobs stored.
    Enqueues,
    /// Enqueues that an earlier job answered.
    Duplicates,
    /// Leases granted.
    Grants,
    /// Executions that ended.
    Attempts,
    /// Jobs that became final.
    FinalJobs,
    /// Executions that a node gave back.
    Returns,
    /// Reports about a lease that was gone.
    StaleReports,
    /// Calls that were refused.
    Refusals,
    /// Connections that ended before they were served.
    FailedHandshakes,
    /// Calls that were handed on to the leader.
    HandedOn,
    /// Results that nodes sent by UploadResult.
    Uploads,
    /// Bytes of results in and out of object storage.
    ObjectBytes,
    /// Objects that were removed because nothing names them.
    SweptObjects,
    /// Objects that rows name and that are not there.
    MissingObjects,
    /// Jobs that were enqueued for cron entries.
    Firings,
    /// Instants of cron entries that did not become a job.
    MissedFirings,
    /// Tries to tell webhooks something.
    Deliveries,
    /// Classes that placement looked at and could not place.
    Deferrals,
    /// Commands applied.
    Commands,
    /// Looks of placement at a class, and at a node for it.
    Evaluations,
    /// Length of a turn.
    TurnSeconds,
    /// Length of a commit.
    CommitSeconds,
    /// How long a query held up the driver.
    QuerySeconds,
    /// What a job waited for its slots.
    WaitSeconds,
    /// From the end of a job to its arrival at a webhook.
    DeliverySeconds,
    /// Jobs that are not final.
    Jobs,
    /// Age of the head of a queue.
    OldestAge,
    /// Jobs that became dead today.
    DeadToday,
    /// Nodes that could run a kind.
    NodesAble,
    /// Whether a kind is paused.
    KindPaused,
    /// Units of a slot that are taken.
    SlotUsed,
    /// Units of a slot in all.
    SlotCapacity,
    /// Queued jobs that need a slot.
    SlotWaiting,
    /// Units of a slot that the leases of a tenant take.
    TenantUsed,
    /// Queued jobs of a tenant.
    TenantQueued,
    /// Nodes by state.
    Nodes,
    /// Leases in force on a node.
    NodeLeases,
    /// Leases on a node whose processes are not known to be gone.
    NodeUnreaped,
    /// Groups that the pressure rules of a node closed.
    NodeClosedGroups,
    /// Deliveries that wait for a webhook.
    WebhookWaiting,
    /// Since when the oldest of them waits.
    WebhookOldestAge,
    /// Deliveries that were given up.
    WebhookFailed,
    /// Whether the receiver of a webhook is gone.
    WebhookGone,
    /// Jobs in memory.
    LiveJobs,
    /// Lease rows.
    Leases,
    /// Sessions of agents.
    Sessions,
    /// The leadership number.
    Epoch,
    /// Whether this server leads.
    Leader,
    /// Takeovers from itself after a commit that failed.
    Reloads,
    /// Rows that views show which must show none.
    Violations,
    /// How often it began to lead.
    Terms,
    /// Since the newest renewal.
    RenewalAge,
    /// How old the figures of kinds, slots and nodes are.
    SnapshotAge,
    /// Since the start of the process.
    Uptime,
    /// Versions.
    BuildInfo,
    /// Rows of the inbox that became jobs.
    Ingested,
    /// Rows of the inbox whose key was that of another job.
    DeduplicatedRows,
    /// Rows of the inbox that became no job.
    RefusedRows,
    /// Rows in the inbox.
    InboxRows,
    /// How long the first row of the inbox has waited.
    InboxAge,
}

/// How a figure behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Only grows.
    Counter,
    /// Goes up and down; made from the snapshot when somebody asks.
    Gauge,
    /// A distribution, with these upper bounds in seconds.
    Histogram(&'static [f64]),
}

/// What the table says of one figure.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// The name on `/metrics`.
    pub name: &'static str,
    /// For people.
    pub help: &'static str,
    /// How it behaves.
    pub shape: Shape,
    /// Its labels. Their values are bounded: declared names, closed sets of words, or capped.
    pub labels: &'static [&'static str],
}

/// Of questions to the driver: from microseconds to what no question should take.
const QUERY_BOUNDS: &[f64] = &[0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0];

/// From a fast fsync to a store that is in trouble.
const STORE_BOUNDS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
/// From "at once" to a day.
const WAIT_BOUNDS: &[f64] = &[0.01, 0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 28_800.0, 86_400.0];

impl Figure {
    /// All of them, in the order of the documents.
    pub const ALL: [Self; 60] = [
        Self::Enqueues,
        Self::Duplicates,
        Self::Grants,
        Self::Attempts,
        Self::FinalJobs,
        Self::Returns,
        Self::StaleReports,
        Self::Refusals,
        Self::FailedHandshakes,
        Self::HandedOn,
        Self::Uploads,
        Self::ObjectBytes,
        Self::SweptObjects,
        Self::MissingObjects,
        Self::Firings,
        Self::MissedFirings,
        Self::Deliveries,
        Self::Deferrals,
        Self::Commands,
        Self::Evaluations,
        Self::TurnSeconds,
        Self::CommitSeconds,
        Self::QuerySeconds,
        Self::WaitSeconds,
        Self::DeliverySeconds,
        Self::Jobs,
        Self::OldestAge,
        Self::DeadToday,
        Self::NodesAble,
        Self::KindPaused,
        Self::SlotUsed,
        Self::SlotCapacity,
        Self::SlotWaiting,
        Self::TenantUsed,
        Self::TenantQueued,
        Self::Nodes,
        Self::NodeLeases,
        Self::NodeUnreaped,
        Self::NodeClosedGroups,
        Self::WebhookWaiting,
        Self::WebhookOldestAge,
        Self::WebhookFailed,
        Self::WebhookGone,
        Self::LiveJobs,
        Self::Leases,
        Self::Sessions,
        Self::Epoch,
        Self::Leader,
        Self::Reloads,
        Self::Violations,
        Self::Terms,
        Self::RenewalAge,
        Self::SnapshotAge,
        Self::Uptime,
        Self::BuildInfo,
        Self::Ingested,
        Self::DeduplicatedRows,
        Self::RefusedRows,
        Self::InboxRows,
        Self::InboxAge,
    ];

    /// Its line of the table.
    #[must_use]
    pub fn spec(self) -> Spec {
        use Shape::{Counter, Gauge, Histogram};
        let (name, shape, labels, help): (_, _, &'static [&'static str], _) = match self {
            Self::Enqueues => ("tenure_enqueues_total", Counter, &["kind"], "Jobs stored."),
            Self::Duplicates => (
                "tenure_duplicates_total",
                Counter,
                &[],
                "Enqueues answered by a job that was there already.",
            ),
            Self::Grants => ("tenure_grants_total", Counter, &["kind"], "Leases granted."),
            Self::Attempts => {
                ("tenure_attempts_total", Counter, &["outcome"], "Executions that ended, by outcome.")
            }
            Self::FinalJobs => {
                ("tenure_final_jobs_total", Counter, &["state"], "Jobs that became final, by state.")
            }
            Self::Returns => {
                ("tenure_returns_total", Counter, &["rule"], "Executions given back, by rule or reason.")
            }
            Self::StaleReports => (
                "tenure_stale_reports_total",
                Counter,
                &["cause"],
                "Reports about a lease that was gone; they changed nothing.",
            ),
            Self::Refusals => ("tenure_refusals_total", Counter, &["reason"], "Calls refused, by reason."),
            Self::FailedHandshakes => (
                "tenure_failed_handshakes_total",
                Counter,
                &["cause"],
                "Connections that ended before they were served, by cause.",
            ),
            Self::HandedOn => (
                "tenure_handed_on_total",
                Counter,
                &["outcome"],
                "Calls that this server handed on to the leader, by outcome: answered, gone, busy.",
            ),
            Self::Uploads => (
                "tenure_result_uploads_total",
                Counter,
                &["outcome"],
                "Results over the inline limit that nodes sent, by outcome: stored, refused, failed.",
            ),
            Self::ObjectBytes => (
                "tenure_result_object_bytes_total",
                Counter,
                &["way"],
                "Bytes of results into and out of object storage, by way: written, read.",
            ),
            Self::SweptObjects => (
                "tenure_result_objects_swept_total",
                Counter,
                &[],
                "Objects removed from object storage because no result names them any more.",
            ),
            Self::MissingObjects => (
                "tenure_result_objects_missing",
                Gauge,
                &[],
                "Results whose bytes object storage has lost, as the last sweep found.",
            ),
            Self::Firings => {
                ("tenure_cron_firings_total", Counter, &["entry"], "Jobs enqueued for the cron entry.")
            }
            Self::MissedFirings => (
                "tenure_cron_missed_total",
                Counter,
                &["entry", "reason"],
                "Instants of the cron entry that did not become a job, by reason.",
            ),
            Self::Deliveries => (
                "tenure_webhook_deliveries_total",
                Counter,
                &["webhook", "outcome"],
                "What became of deliveries to the webhook: delivered, failed (to be tried again), given_up, dropped (too much waited, or ended at once).",
            ),
            Self::Deferrals => (
                "tenure_deferrals_total",
                Counter,
                &["reason"],
                "Times that a class of jobs was looked at and not placed, by reason.",
            ),
            Self::Commands => ("tenure_commands_total", Counter, &[], "Commands applied."),
            Self::Evaluations => (
                "tenure_evaluations_total",
                Counter,
                &[],
                "Looks of placement at a class of waiting jobs, and at a node for it.",
            ),
            Self::TurnSeconds => (
                "tenure_turn_seconds",
                Histogram(STORE_BOUNDS),
                &[],
                "Length of a turn of the driver, commit included.",
            ),
            Self::CommitSeconds => {
                ("tenure_commit_seconds", Histogram(STORE_BOUNDS), &[], "Length of a commit that succeeded.")
            }
            Self::QuerySeconds => (
                "tenure_query_seconds",
                Histogram(QUERY_BOUNDS),
                &[],
                "How long one question to the driver held it up; between two turns at most 10 are answered.",
            ),
            Self::WaitSeconds => (
                "tenure_wait_seconds",
                Histogram(WAIT_BOUNDS),
                &["kind"],
                "Time that a job was deferred before its grant.",
            ),
            Self::DeliverySeconds => (
                "tenure_webhook_delivery_seconds",
                Histogram(WAIT_BOUNDS),
                &[],
                "Time from the end of a job or workflow to its arrival at a webhook.",
            ),
            Self::Jobs => (
                "tenure_jobs",
                Gauge,
                &["kind", "state"],
                "Jobs that are not final, by kind and state; `waiting`: parents that wait for their children; `blocked`: members of workflows that wait for others.",
            ),
            Self::OldestAge => (
                "tenure_oldest_age_seconds",
                Gauge,
                &["kind"],
                "Age of the oldest queued job since it became ready.",
            ),
            Self::DeadToday => {
                ("tenure_dead_today_jobs", Gauge, &["kind"], "Jobs that became dead since midnight UTC.")
            }
            Self::NodesAble => (
                "tenure_able_nodes",
                Gauge,
                &["kind"],
                "Live nodes that could run a job of the kind if they were empty.",
            ),
            Self::KindPaused => ("tenure_kind_paused", Gauge, &["kind"], "1 while the kind is paused."),
            Self::SlotUsed => ("tenure_slot_used", Gauge, &["slot"], "Units of the slot that are taken."),
            Self::SlotCapacity => ("tenure_slot_capacity", Gauge, &["slot"], "Units of the slot in all."),
            Self::SlotWaiting => {
                ("tenure_slot_waiting_jobs", Gauge, &["slot"], "Queued jobs that need the slot.")
            }
            Self::TenantUsed => (
                "tenure_tenant_used",
                Gauge,
                &["tenant", "slot"],
                "Units of the slot that leases of the tenant take; those that the fleet file does not declare as `other`.",
            ),
            Self::TenantQueued => (
                "tenure_tenant_queued_jobs",
                Gauge,
                &["tenant"],
                "Queued jobs of the tenant; of those that the fleet file does not declare as `other`.",
            ),
            Self::Nodes => ("tenure_nodes", Gauge, &["state"], "Known nodes: live, suspect, away."),
            Self::NodeLeases => ("tenure_node_leases", Gauge, &["node"], "Leases in force on the node."),
            Self::NodeUnreaped => (
                "tenure_node_unreaped_leases",
                Gauge,
                &["node"],
                "Leases that are over and whose processes are not known to be gone.",
            ),
            Self::NodeClosedGroups => (
                "tenure_node_closed_groups",
                Gauge,
                &["node"],
                "Groups of grants that the pressure rules of the node closed.",
            ),
            Self::WebhookWaiting => (
                "tenure_webhook_waiting_deliveries",
                Gauge,
                &["webhook"],
                "Deliveries that wait for the webhook, to be sent or to be tried again.",
            ),
            Self::WebhookOldestAge => (
                "tenure_webhook_oldest_age_seconds",
                Gauge,
                &["webhook"],
                "How long the oldest delivery that waits for the webhook has been tried.",
            ),
            Self::WebhookFailed => (
                "tenure_webhook_failed_deliveries",
                Gauge,
                &["webhook"],
                "Deliveries to the webhook that were given up and are kept.",
            ),
            Self::WebhookGone => (
                "tenure_webhook_gone",
                Gauge,
                &["webhook"],
                "1 while the receiver of the webhook says that it is gone: nothing is sent to it.",
            ),
            Self::LiveJobs => ("tenure_live_jobs", Gauge, &[], "Jobs in memory: all that are not final."),
            Self::Leases => ("tenure_leases", Gauge, &[], "Leases in force or not reaped."),
            Self::Sessions => ("tenure_sessions", Gauge, &[], "Sessions of agents."),
            Self::Epoch => ("tenure_epoch", Gauge, &[], "The leadership number in force."),
            Self::Leader => ("tenure_leader", Gauge, &[], "1 while this server leads."),
            Self::Reloads => (
                "tenure_reloads_total",
                Counter,
                &[],
                "Takeovers of the server from itself, each after a commit that failed or stayed unknown.",
            ),
            Self::Violations => (
                "tenure_invariant_violations",
                Gauge,
                &["invariant"],
                "Rows of the views over leases that must show none, at most 100 each; sampled every 30 s.",
            ),
            Self::Terms => {
                ("tenure_terms_total", Counter, &[], "How often this server began to lead since its start.")
            }
            Self::RenewalAge => (
                "tenure_renewal_age_seconds",
                Gauge,
                &[],
                "Since the newest good renewal of its leadership was sent; absent if it does not lead, or nobody else can.",
            ),
            Self::SnapshotAge => (
                "tenure_snapshot_age_seconds",
                Gauge,
                &[],
                "Age of the figures of kinds, slots and nodes; absent if the server does not lead.",
            ),
            Self::Uptime => ("tenure_uptime_seconds", Gauge, &[], "Time since the start of the server."),
            Self::BuildInfo => {
                ("tenure_build_info", Gauge, &["version"], "Always 1; its label names the version.")
            }
            Self::Ingested => (
                "tenure_inbox_ingested_total",
                Counter,
                &[],
                "Rows of the database's inbox that became jobs, or were answered by one that was there already.",
            ),
            Self::DeduplicatedRows => (
                "tenure_inbox_deduplicated_total",
                Counter,
                &[],
                "Rows of the database's inbox whose dedupe key belonged to another job: there is none under the id that the producer was told.",
            ),
            Self::RefusedRows => (
                "tenure_inbox_refused_total",
                Counter,
                &["reason"],
                "Rows of the database's inbox that became no job, by reason.",
            ),
            Self::InboxRows => (
                "tenure_inbox_rows",
                Gauge,
                &[],
                "Rows that wait in the database's inbox, a million at the most; sampled every 10 s by the leader.",
            ),
            Self::InboxAge => (
                "tenure_inbox_oldest_seconds",
                Gauge,
                &[],
                "How long the first of the rows in the database's inbox has waited; sampled every 10 s by the leader.",
            ),
        };
        Spec { name, help, shape, labels }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What labels may be called. Each is bounded: declared names, closed sets of words, or capped (`Metrics::rule`).
    /// `job` and `instance` are Prometheus's own.
    const LABELS: [&str; 14] = [
        "cause",
        "entry",
        "invariant",
        "kind",
        "node",
        "outcome",
        "reason",
        "rule",
        "slot",
        "state",
        "tenant",
        "version",
        "way",
        "webhook",
    ];

    /// What no name holds: other units than the base ones, and the endings of a histogram's series.
    const FORBIDDEN: [&str; 16] = [
        "ms",
        "us",
        "ns",
        "millis",
        "milliseconds",
        "microseconds",
        "minutes",
        "hours",
        "days",
        "kb",
        "mb",
        "kib",
        "mib",
        "percent",
        "count",
        "sum",
    ];

    #[test]
    fn names_follow_the_conventions_and_are_unique() {
        let mut seen = BTreeSet::new();
        for figure in Figure::ALL {
            let Spec { name, help, shape, labels } = figure.spec();
            assert!(seen.insert(name), "{name} twice");
            let words: Vec<&str> = name.split('_').collect();
            assert!(words.len() >= 2 && words[0] == "tenure", "{name}");
            assert!(
                words.iter().all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase())),
                "{name}"
            );
            assert!(!words.iter().any(|word| FORBIDDEN.contains(word)), "{name}");
            assert!(help.ends_with('.') && help.starts_with(|c: char| c.is_ascii_alphanumeric()), "{name}");
            assert_eq!(name.ends_with("_total"), shape == Shape::Counter, "{name}");
            assert_eq!(name.ends_with("_info"), name == "tenure_build_info", "{name}");
            assert!(
                labels.iter().all(|label| LABELS.contains(label)),
                "{name}: say how {labels:?} are bounded"
            );
            assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), labels.len(), "{name}");
            if let Shape::Histogram(bounds) = shape {
                assert!(name.ends_with("_seconds"), "{name}");
                assert!(bounds.windows(2).all(|w| w[0] < w[1]) && bounds.len() <= 16, "{name}");
            }
        }
    }

    #[test]
    fn the_document_says_what_the_table_says() {
        let document = include_str!("../../../docs/metrics.md");
        let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| `tenure_")).collect();
        let table = Figure::ALL.map(|figure| {
            let Spec { name, help, shape, labels } = figure.spec();
            let shape = match shape {
                Shape::Counter => "counter",
                Shape::Gauge => "gauge",
                Shape::Histogram(_) => "histogram",
            };
            format!("| `{name}` | {shape} | {} | {help} |", labels.join(", "))
        });
        assert_eq!(rows, table);
    }
}

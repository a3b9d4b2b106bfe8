//! What one commit writes: a handful of set-based statements whatever the batch, in the order deletes, updates, inserts.
//! A batch of rows is one array per column. What most turns write goes in two round trips: what ends, then what is new.

pub(super) mod batch;
pub(super) mod statements;

use sqlx::PgConnection;
use tenure_scheduler::{CronName, KindName, NodeName, SlotName, Tenant, WebhookName};
use uuid::Uuid;

pub(super) use self::batch::Batch;
use self::statements::{
    ATTEMPT_UPSERT, CHECKPOINT_UPSERT, CLASS_DELETE, CLASS_INSERT, CRON_DELETE, CRON_UPSERT, INBOX_DELETE,
    JOB_DELETE, JOB_INSERT, JOB_UPDATE, KIND_DELETE, KIND_UPSERT, LEASE_DELETE, LEASE_UPSERT, NODE_DELETE,
    NODE_UPSERT, PAYLOAD_INSERT, RESULT_DELETE, RESULT_INSERT, SLOT_DELETE, SLOT_UPSERT, TENANT_DELETE,
    TENANT_UPSERT, WORKFLOW_DELETE, WORKFLOW_UPSERT,
};
use super::{log_tails, outbox};
use crate::{
    journal::Error,
    rows::{
        Arrays, At, AttemptRow, CronRow, DeliveryChangeRow, DeliveryRow, JobRow, KindRow, LeaseRow, NodeRow,
        SlotRow, TenantRow, TimelineRow, WebhookRow, WorkflowRow, int,
    },
    turn::{Turn, count},
};

/// Writes a turn into a transaction that has checked its epoch.
///
/// # Errors
/// If a statement fails, or affects another number of rows than it was sent.
pub(super) async fn write(connection: &mut PgConnection, turn: &Turn<'_>) -> Result<(), Error> {
    delete(connection, turn).await?;
    update(connection, turn).await?;
    insert(connection, turn).await
}

async fn delete(connection: &mut PgConnection, turn: &Turn<'_>) -> Result<(), Error> {
    let changes = turn.changes;
    // Not counted: the result may have gone with its job, and a timeline need not have been saved yet.
    let results = Batch::new("RESULT_DELETE", RESULT_DELETE, count(&changes.results_deleted))
        .column(changes.results_deleted.iter().map(|(job, _)| job.0).collect::<Vec<_>>())
        .column(changes.results_deleted.iter().map(|(_, token)| int(token.0)).collect::<Vec<_>>());
    results.run_uncounted(connection).await?;
    // A timeline that is put is deleted first: see CLASS_INSERT.
    let put = changes.classes_put.iter().map(|row| &*row.class);
    let classes: Vec<&str> = changes.classes_deleted.iter().map(|class| &**class).chain(put).collect();
    Batch::new("CLASS_DELETE", CLASS_DELETE, count(&classes))
        .column(classes)
        .run_uncounted(connection)
        .await?;
    // Payloads, attempts and results go with their job.
    let jobs: Vec<Uuid> = turn.deleted.iter().map(|job| job.0).collect();
    Batch::new("JOB_DELETE", JOB_DELETE, count(&jobs)).column(jobs).run_all(connection).await?;
    let kinds: Vec<&str> = changes.kinds_deleted.iter().map(KindName::as_str).collect();
    Batch::new("KIND_DELETE", KIND_DELETE, count(&kinds)).column(kinds).run_all(connection).await?;
    let slots: Vec<&str> = changes.slots_deleted.iter().map(SlotName::as_str).collect();
    Batch::new("SLOT_DELETE", SLOT_DELETE, count(&slots)).column(slots).run_all(connection).await?;
    let tenants: Vec<&str> = changes.tenants_deleted.iter().map(Tenant::as_str).collect();
    Batch::new("TENANT_DELETE", TENANT_DELETE, count(&tenants)).column(tenants).run_all(connection).await?;
    let nodes: Vec<&str> = changes.nodes_deleted.iter().map(NodeName::as_str).collect();
    Batch::new("NODE_DELETE", NODE_DELETE, count(&nodes)).column(nodes).run_all(connection).await?;
    let crons: Vec<&str> = changes.crons_deleted.iter().map(CronName::as_str).collect();
    Batch::new("CRON_DELETE", CRON_DELETE, count(&crons)).column(crons).run_all(connection).await?;
    let deliveries: Vec<i64> = changes.deliveries_deleted.iter().map(|id| int(id.0)).collect();
    Batch::new("DELIVERY_DELETE", outbox::DELIVERY_DELETE, count(&deliveries))
        .column(deliveries)
        .run_all(connection)
        .await?;
    let webhooks: Vec<&str> = changes.webhooks_deleted.iter().map(WebhookName::as_str).collect();
    Batch::new("WEBHOOK_DELETE", outbox::WEBHOOK_DELETE, count(&webhooks))
        .column(webhooks)
        .run_all(connection)
        .await?;
    let workflows: Vec<Uuid> = changes.workflows_deleted.iter().map(|workflow| workflow.0).collect();
    Batch::new("WORKFLOW_DELETE", WORKFLOW_DELETE, count(&workflows))
        .column(workflows)
        .run_all(connection)
        .await?;
    // Not counted: a row whose turn took long may have been handed in again. It is the same job then, by its id.
    let rows = turn.inbox;
    Batch::new("INBOX_DELETE", INBOX_DELETE, count(rows)).column(rows).run_uncounted(connection).await
}

async fn update(connection: &mut PgConnection, turn: &Turn<'_>) -> Result<(), Error> {
    let changes = turn.changes;
    let leases: Vec<i64> = changes.leases_deleted.iter().map(|token| int(token.0)).collect();
    let ends = Batch::new("LEASE_DELETE", LEASE_DELETE, count(&leases)).column(leases);
    // Those that free a key before those that may take it.
    let (first, then) = if turn.updated_free.is_empty() {
        (&turn.updated_held, &turn.updated_free)
    } else {
        (&turn.updated_free, &turn.updated_held)
    };
    let [first, then] = [first, then].map(|jobs| jobs.iter().map(|(was, job)| JobRow::update(*was, job)));
    ends.and_rows("JOB_UPDATE", JOB_UPDATE, first).run_all(connection).await?;
    put(connection, "JOB_UPDATE", JOB_UPDATE, then).await?;
    put(connection, "KIND_UPSERT", KIND_UPSERT, changes.kinds_put.iter().map(KindRow::from)).await?;
    put(connection, "SLOT_UPSERT", SLOT_UPSERT, changes.slots_put.iter().map(SlotRow::from)).await?;
    put(connection, "TENANT_UPSERT", TENANT_UPSERT, changes.tenants_put.iter().map(TenantRow::from)).await?;
    put(connection, "NODE_UPSERT", NODE_UPSERT, changes.nodes_put.iter().map(NodeRow::from)).await?;
    put(connection, "CRON_UPSERT", CRON_UPSERT, changes.crons_put.iter().map(CronRow::from)).await?;
    let webhooks = changes.webhooks_put.iter().map(WebhookRow::from);
    put(connection, "WEBHOOK_UPSERT", outbox::WEBHOOK_UPSERT, webhooks).await?;
    let deliveries = changes.deliveries_put.iter().map(DeliveryChangeRow::from);
    put(connection, "DELIVERY_UPDATE", outbox::DELIVERY_UPDATE, deliveries).await?;
    put(connection, "CLASS_INSERT", CLASS_INSERT, changes.classes_put.iter().map(TimelineRow::from)).await?;
    let workflows = changes.workflows_put.iter().map(WorkflowRow::from);
    put(connection, "WORKFLOW_UPSERT", WORKFLOW_UPSERT, workflows).await
}

async fn insert(connection: &mut PgConnection, turn: &Turn<'_>) -> Result<(), Error> {
    let jobs = turn.inserted.iter().map(|job| JobRow::insert(job));
    let payloads = &turn.payloads;
    let leases = turn.leases.iter().map(|lease| LeaseRow::from(*lease));
    let attempts = turn.changes.attempts_put.iter().map(AttemptRow::from);
    let results = &turn.results;
    Batch::rows("JOB_INSERT", JOB_INSERT, jobs)
        .and("PAYLOAD_INSERT", PAYLOAD_INSERT, count(payloads))
        .column(payloads.iter().map(|(job, _)| job.0).collect::<Vec<_>>())
        .column(payloads.iter().map(|(_, payload)| &*payload.data).collect::<Vec<_>>())
        .column(payloads.iter().map(|(_, payload)| &*payload.content_type).collect::<Vec<_>>())
        .and_rows("LEASE_UPSERT", LEASE_UPSERT, leases)
        .and_rows("ATTEMPT_UPSERT", ATTEMPT_UPSERT, attempts)
        .and("RESULT_INSERT", RESULT_INSERT, count(results))
        .column(results.iter().map(|(put, _)| put.job.0).collect::<Vec<_>>())
        .column(results.iter().map(|(put, _)| int(put.token.0)).collect::<Vec<_>>())
        .column(results.iter().map(|(_, result)| &*result.data).collect::<Vec<_>>())
        .column(results.iter().map(|(_, result)| &*result.content_type).collect::<Vec<_>>())
        .column(results.iter().map(|(put, _)| At::from(put.created_at)).collect::<Vec<_>>())
        .column(results.iter().map(|(put, _)| At::from(put.expires_at)).collect::<Vec<_>>())
        .column(results.iter().map(|(put, _)| put.of_wait).collect::<Vec<_>>())
        .column(results.iter().map(|(put, _)| put.partial).collect::<Vec<_>>())
        .column(
            results
                .iter()
                .map(|(_, result)| result.object.as_ref().map(|it| int(it.size)))
                .collect::<Vec<_>>(),
        )
        .column(
            results
                .iter()
                .map(|(_, result)| result.object.as_ref().map(|it| it.sha256.to_string()))
                .collect::<Vec<_>>(),
        )
        .run_all(connection)
        .await?;
    let checkpoints = &turn.checkpoints;
    Batch::new("CHECKPOINT_UPSERT", CHECKPOINT_UPSERT, count(checkpoints))
        .column(checkpoints.iter().map(|(put, _)| put.job.0).collect::<Vec<_>>())
        .column(checkpoints.iter().map(|(put, _)| int(put.token.0)).collect::<Vec<_>>())
        .column(checkpoints.iter().map(|(_, data)| &***data).collect::<Vec<_>>())
        .column(checkpoints.iter().map(|(put, _)| At::from(put.created_at)).collect::<Vec<_>>())
        .run_all(connection)
        .await?;
    log_tails::put(connection, turn).await?;
    let deliveries = turn.deliveries.iter().map(|(delivery, body)| DeliveryRow::new(delivery, body));
    put(connection, "DELIVERY_INSERT", outbox::DELIVERY_INSERT, deliveries).await
}

/// Runs a statement over rows, unless there are none; rows affected must equal rows sent.
async fn put<R: Arrays>(
    connection: &mut PgConnection,
    name: &'static str,
    statement: &'static str,
    rows: impl Iterator<Item = R>,
) -> Result<(), Error> {
    Batch::rows(name, statement, rows).run_all(connection).await
}

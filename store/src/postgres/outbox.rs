//! Webhooks and the outbox: the statements, and reading what is to be sent.

use std::collections::BTreeMap;

use sqlx::{Row, postgres::PgRow};
use tenure_scheduler::DeliveryId;

use super::reader::{PostgresReader, unreadable};
use crate::{reader::Error, rows::int};

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 8] = [
    DELIVERY_DELETE,
    WEBHOOK_DELETE,
    WEBHOOK_UPSERT,
    DELIVERY_UPDATE,
    DELIVERY_INSERT,
    WEBHOOK_LOAD,
    DELIVERY_LOAD,
    BODY_GET,
];

pub(super) const DELIVERY_DELETE: &str = "delete from outbox where id = any($1::bigint[])";

pub(super) const WEBHOOK_DELETE: &str = "delete from webhooks where name = any($1::text[])";

pub(super) const WEBHOOK_UPSERT: &str = "
insert into webhooks (name, policy, gone_at)
select name, policy, gone_at
from unnest($1::text[], $2::jsonb[], $3::timestamptz[]) as new (name, policy, gone_at)
on conflict (name) do update set
  policy = excluded.policy,
  gone_at = excluded.gone_at";

// What it tells, and to whom, is not written again.
pub(super) const DELIVERY_UPDATE: &str = "
update outbox
set
  since_at = new.since_at,
  tries = new.tries,
  next_at = new.next_at,
  failed_at = new.failed_at,
  error = new.error
from unnest($1::bigint[], $2::timestamptz[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::text[])
  as new (id, since_at, tries, next_at, failed_at, error)
where outbox.id = new.id";

pub(super) const DELIVERY_INSERT: &str = "
insert into outbox (
  id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error)
select
  id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error
from unnest(
  $1::bigint[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::timestamptz[], $7::timestamptz[], $8::bigint[],
  $9::timestamptz[], $10::timestamptz[], $11::text[])
  as new (
    id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error)";

pub(super) const WEBHOOK_LOAD: &str = "select name, policy, gone_at from webhooks";

// Without the bodies: a leader holds those of none.
pub(super) const DELIVERY_LOAD: &str = "
select id, webhook, event, subject_id, created_at, since_at, tries, next_at, failed_at, error
from outbox";

pub(super) const BODY_GET: &str = "select id, body from outbox where id = any($1::bigint[])";

impl PostgresReader {
    pub(crate) async fn bodies(&self, ids: &[DeliveryId]) -> Result<BTreeMap<DeliveryId, String>, Error> {
        let ids: Vec<i64> = ids.iter().map(|id| int(id.0)).collect();
        let rows = self.rows(|| sqlx::query(BODY_GET).bind(&ids)).await?;
        let read = |row: &PgRow| -> Result<(DeliveryId, String), sqlx::Error> {
            let id: i64 = row.try_get(0)?;
            Ok((DeliveryId(u64::try_from(id).unwrap_or(0)), row.try_get(1)?))
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| unreadable("outbox", &error))
    }
}

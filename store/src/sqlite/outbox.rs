//! Webhooks and the outbox: the statements, and reading what is to be sent.

use std::collections::BTreeMap;

use sqlx::{Row, sqlite::SqliteRow};
use tenure_scheduler::DeliveryId;

use super::reader::{SqliteReader, unreadable};
use crate::{
    reader::Error,
    rows::{batch, int},
};

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

pub(super) const DELIVERY_DELETE: &str = "delete from outbox where id in (select value from json_each($1))";

pub(super) const WEBHOOK_DELETE: &str =
    "delete from webhooks where name in (select value from json_each($1))";

pub(super) const WEBHOOK_UPSERT: &str = "
insert into webhooks (name, policy, gone_at)
select new.value ->> 'name', new.value ->> 'policy', new.value ->> 'gone_at'
from json_each($1) as new
where true
on conflict (name) do update set
  policy = excluded.policy,
  gone_at = excluded.gone_at";

// What it tells, and to whom, is not written again.
pub(super) const DELIVERY_UPDATE: &str = "
update outbox
set
  since_at = new.value ->> 'since_at',
  tries = new.value ->> 'tries',
  next_at = new.value ->> 'next_at',
  failed_at = new.value ->> 'failed_at',
  error = new.value ->> 'error'
from json_each($1) as new
where outbox.id = new.value ->> 'id'";

pub(super) const DELIVERY_INSERT: &str = "
insert into outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error)
select
  new.value ->> 'id', new.value ->> 'webhook', new.value ->> 'event', new.value ->> 'subject_id',
  new.value ->> 'body', new.value ->> 'created_at', new.value ->> 'since_at', new.value ->> 'tries',
  new.value ->> 'next_at', new.value ->> 'failed_at', new.value ->> 'error'
from json_each($1) as new";

pub(super) const WEBHOOK_LOAD: &str = "select name, policy, gone_at from webhooks";

// Without the bodies: a leader holds those of none.
pub(super) const DELIVERY_LOAD: &str = "
select id, webhook, event, subject_id, created_at, since_at, tries, next_at, failed_at, error
from outbox";

pub(super) const BODY_GET: &str = "select id, body from outbox where id in (select value from json_each($1))";

impl SqliteReader {
    pub(crate) async fn bodies(&self, ids: &[DeliveryId]) -> Result<BTreeMap<DeliveryId, String>, Error> {
        let ids = batch("outbox", ids.iter().map(|id| int(id.0)))?;
        let rows = self.rows(sqlx::query(BODY_GET).bind(ids.text)).await?;
        let read = |row: &SqliteRow| -> Result<(DeliveryId, String), sqlx::Error> {
            let id: i64 = row.try_get(0)?;
            Ok((DeliveryId(u64::try_from(id).unwrap_or(0)), row.try_get(1)?))
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| unreadable("outbox", &error))
    }
}

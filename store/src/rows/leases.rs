//! Leases.

use tenure_scheduler::{ConcurrencyKey, JobId, KindName, Lease, NodeName, Reservation, Stage, Tenant};

use super::{
    At, Error, Fields, Json, Text, families::ParkedJson, int, json::ReservationJson, json_text, length_us,
    positional,
};

positional! {
/// The columns of a lease, to be written.
pub(crate) struct LeaseRow<'a> {
    token: i64,
    job_id: Text<JobId>,
    kind: &'a str,
    node: &'a str,
    length_us: i64,
    reservation: Json,
    attempt: u32,
    round: u32,
    granted_at: At,
    phase: &'static str,
    orphaned: bool,
    tenant: &'a str,
    concurrency_key: Option<&'a str>,
    parked: Option<Json>,
}
}

impl<'a> From<&'a Lease> for LeaseRow<'a> {
    fn from(lease: &'a Lease) -> Self {
        Self {
            token: int(lease.token.0),
            job_id: Text(lease.job),
            kind: lease.kind.as_str(),
            node: lease.node.as_str(),
            length_us: length_us(lease.length),
            reservation: json_text(&ReservationJson::from(&lease.reservation)),
            attempt: lease.attempt,
            round: lease.round,
            granted_at: lease.granted_at.into(),
            phase: lease.stage.name(),
            orphaned: lease.orphaned,
            tenant: lease.tenant.as_str(),
            concurrency_key: lease.concurrency_key.as_ref().map(ConcurrencyKey::as_str),
            parked: lease.parked.as_ref().map(|parked| json_text(&ParkedJson::from(&**parked))),
        }
    }
}

/// Reads a lease from token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase,
/// orphaned, tenant, concurrency_key, parked.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_lease(row: &mut Fields<'_>) -> Result<Lease, Error> {
    let token = row.token("token")?;
    row.set_key(&token);
    Ok(Lease {
        token,
        job: row.id("job_id")?,
        kind: row.name("kind", KindName::new)?,
        node: row.name("node", NodeName::new)?,
        length: row.length("length_us")?,
        reservation: Reservation::from(row.json::<ReservationJson>("reservation")?),
        attempt: row.int("attempt")?,
        round: row.int("round")?,
        granted_at: row.wall("granted_at")?,
        stage: {
            let known = |name: &str| STAGES.into_iter().find(|stage| stage.name() == name);
            row.text("phase", known)?.ok_or_else(|| row.wrong("phase", &"is none that this version knows"))?
        },
        orphaned: row.flag("orphaned")?,
        tenant: row.name("tenant", Tenant::new)?,
        concurrency_key: row.opt_text("concurrency_key", |key| ConcurrencyKey::new(key))?,
        parked: row.opt_json::<ParkedJson>("parked")?.map(|json| Box::new(json.into())),
    })
}

const STAGES: [Stage; 3] = [Stage::Granted, Stage::Finished, Stage::Unreaped];

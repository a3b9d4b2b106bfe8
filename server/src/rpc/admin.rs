//! The server itself: what it is, and whether its invariants hold.

use std::time::Duration;

use tenure_proto::v1::{self, admin_service_server::AdminService};
use tenure_scheduler::{Checked, Checking, Wall};
use tenure_store::reader;
use tonic::{Request, Response, Status, async_trait};

use super::{api::Api, convert, status::No};
use crate::results::OBJECTS_EXIST;

/// The most violations that are shown; one is enough to be wrong.
const MOST_VIOLATIONS: usize = 1000;

/// What the clocks of server and database may differ by without a word.
const MOST_SKEW: Duration = Duration::from_secs(2);

/// Of invariants that only a leader can evaluate.
const NOBODY_LEADS: &str =
    "no leader is to be reached: only what is stored was looked at, not what a leader keeps in memory";

/// What a read of one row may take without a word.
const MOST_TAKEN: Duration = Duration::from_millis(100);

/// How many jobs one question to the driver looks at, so that it stays under a millisecond.
const JOBS_A_QUESTION: usize = 512;

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Admin(pub(crate) Api);

#[async_trait]
impl AdminService for Admin {
    async fn get_server_info(
        &self,
        _: Request<v1::GetServerInfoRequest>,
    ) -> Result<Response<v1::GetServerInfoResponse>, Status> {
        self.0.answer(server_info(&self.0).await)
    }

    async fn check_invariants(
        &self,
        _: Request<v1::CheckInvariantsRequest>,
    ) -> Result<Response<v1::CheckInvariantsResponse>, Status> {
        self.0.answer(check_invariants(&self.0).await)
    }
}

async fn server_info(api: &Api) -> Result<v1::GetServerInfoResponse, No> {
    let reader = api.handle.reader();
    let schema_version = api.read(reader.schema_version().await)?;
    let durability = api.read(reader.durability().await)?;
    let info = api.handle.info();
    let published = api.published();
    let standing = api.handle.standing();
    Ok(v1::GetServerInfoResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        store: reader.store_name().to_owned(),
        schema_version,
        epoch: info.epoch,
        leader: info.leading,
        start_time: Some(convert::timestamp(info.started_at)),
        uptime: Some(convert::age(api.handle.uptime())),
        live_jobs: published.snapshot.live_jobs,
        leases: published.snapshot.leases,
        sessions: info.sessions,
        reloads: info.reloads,
        durability: durability.name().to_owned(),
        leader_address: standing
            .leader()
            .and_then(|leader| leader.addr.as_deref())
            .unwrap_or_default()
            .to_owned(),
        standing: standing.to_string(),
        terms: info.terms,
        renewal_age: api.handle.renewed_ago().map(convert::age),
    })
}

async fn check_invariants(api: &Api) -> Result<v1::CheckInvariantsResponse, No> {
    let stored = api.read(api.handle.reader().violations().await)?;
    let clock = api.handle.clock();
    let began = clock.steady();
    api.read(api.handle.reader().ping().await)?;
    let took = clock.steady().saturating_sub(began);
    let asked = api.now();
    let mut examined = api.read(api.handle.reader().examine().await)?;
    examined.findings.extend(examined.wall.and_then(|theirs| skew(asked, theirs, api.now())));
    examined.findings.extend(slow(took));
    // Nobody leads, or this server would not be asked: what is stored can be looked at all the same.
    let checked = if api.handle.standing().leads() {
        in_memory(api).await?
    } else {
        examined.findings.push(NOBODY_LEADS.to_owned());
        Checked::default()
    };
    let stored = stored.into_iter().map(|violation| v1::InvariantViolation {
        invariant: violation.invariant,
        subject: violation.subject,
        detail: violation.detail,
    });
    let in_memory = checked.violations.into_iter().map(|violation| v1::InvariantViolation {
        invariant: violation.invariant.to_owned(),
        subject: violation.subject,
        detail: violation.detail,
    });
    let lost = api.read(api.results.lost(api.handle.reader()).await)?;
    let lost = lost.into_iter().map(|name| v1::InvariantViolation {
        invariant: OBJECTS_EXIST.to_owned(),
        subject: name.job.to_string(),
        detail: format!("object storage has lost its result, {name}"),
    });
    let objects = (api.results.most() > 0).then_some(&OBJECTS_EXIST);
    let checked = reader::INVARIANTS.iter().chain(&checked.names).chain(objects).map(ToString::to_string);
    Ok(v1::CheckInvariantsResponse {
        violations: stored.chain(in_memory).chain(lost).take(MOST_VIOLATIONS).collect(),
        checked: checked.collect(),
        findings: examined.findings,
    })
}

/// The scheduler's own, in slices that hold up no turn for long.
async fn in_memory(api: &Api) -> Result<Checked, No> {
    let mut checking = Checking::default();
    loop {
        let mut slice = checking;
        let asked = api.query(move |state, _| {
            let checked = state.check_slice(&mut slice, JOBS_A_QUESTION);
            (slice, checked)
        });
        let (slice, checked) = asked.await?;
        match checked {
            Some(checked) => return Ok(checked),
            None => checking = slice,
        }
    }
}

/// How long a small question took, if that was long: every commit is several.
fn slow(took: Duration) -> Option<String> {
    (took > MOST_TAKEN).then(|| {
        let most = MOST_TAKEN.as_millis();
        format!(
            "the store took {} ms to answer a small question, and should take {most} at the most",
            took.as_millis()
        )
    })
}

/// What the clocks differ by, if it is much: theirs was read between two readings of ours.
fn skew(before: Wall, theirs: Wall, after: Wall) -> Option<String> {
    let skew = before.since(theirs).max(theirs.since(after));
    (skew > MOST_SKEW).then(|| {
        format!(
            "the clocks of server and database differ by {} s: no lease depends on them, times that people see do",
            skew.as_secs()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_answers_slowly_is_told() {
        assert_eq!(slow(MOST_TAKEN), None);
        assert!(slow(Duration::from_millis(340)).is_some_and(|text| text.contains("340 ms")));
    }

    #[test]
    fn clocks_that_differ_much_are_told() {
        let at = |seconds: i64| Wall(seconds * 1_000_000);
        assert_eq!(skew(at(100), at(101), at(104)), None, "a slow answer is no skew");
        assert_eq!(skew(at(100), at(98), at(101)), None);
        assert!(skew(at(100), at(40), at(101)).is_some_and(|text| text.contains("60 s")));
        assert!(skew(at(100), at(200), at(101)).is_some_and(|text| text.contains("99 s")));
    }
}

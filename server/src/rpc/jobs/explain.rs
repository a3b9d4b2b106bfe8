//! Why a job does not run yet: asked of the driver in slices, so that a fleet of ten thousand nodes holds up no turn.

use std::time::Duration;

use tenure_proto::v1;
use tenure_scheduler::{Explaining, Explanation, JobId};

use super::read::{self, Now};
use crate::rpc::{api::Api, auth::Caller, convert, status::No};

/// How much the first question to the driver looks at; the next ones by how long that took.
const WORK_A_QUESTION: usize = 256;

/// How much any of them looks at, at least and at most.
const WORK: (usize, usize) = (32, 2048);

/// How long a question should hold the driver at most: well under the millisecond that nobody may hold it, since the next
/// one may take longer.
const HELD: Duration = Duration::from_micros(400);

/// The most attempts that an explanation shows.
const EXPLAINED_ATTEMPTS: u32 = 100;

pub(super) async fn explain(
    api: &Api,
    caller: &Caller,
    request: &v1::ExplainJobRequest,
) -> Result<v1::ExplainJobResponse, No> {
    let id = read::required_id(&request.job_id)?;
    let mut now = read::look(api, caller, id).await?;
    let mut response = v1::ExplainJobResponse::default();
    if !now.job.state.is_final() {
        match ask(api, caller, id).await? {
            Some((as_explained, explanation)) => {
                now = as_explained;
                response = convert::explain::explanation(explanation);
            }
            // It became final meanwhile.
            None => now = read::look(api, caller, id).await?,
        }
    }
    if caller.sees_only().is_some() {
        // What stands before it may be others' work: how much of it is told, and not which.
        response.earmarks.iter_mut().for_each(|earmark| earmark.job_id.clear());
        for holder in response.slots.iter_mut().flat_map(|slot| &mut slot.holders) {
            (holder.job_id, holder.kind) = Default::default();
        }
    }
    response.attempts = read::attempts_page(api, &now.job, None, EXPLAINED_ATTEMPTS).await?.0;
    response.job = Some(now.shown());
    Ok(response)
}

/// The explanation, and the job as it stood at the last slice of it; none: it does not live.
async fn ask(api: &Api, caller: &Caller, id: JobId) -> Result<Option<(Now, Explanation)>, No> {
    let confined = caller.sees_only().is_some();
    let mut explaining = Explaining::new(id);
    let mut work = WORK_A_QUESTION;
    loop {
        let mut slice = explaining;
        let clock = api.handle.clock().clone();
        let asked = api.query(move |state, now| {
            let begun = clock.steady();
            let answer = state.explain_slice(now, &mut slice, work);
            let whole = answer.map(|answer| Some((Now::seen(state, now, id)?, answer?)));
            (slice, whole, clock.steady().saturating_sub(begun))
        });
        let (slice, whole, took) = asked.await?;
        work = next_work(work, took);
        match whole {
            Some(Some((now, explanation))) if confined => {
                return Ok(Some((now.confined(), explanation.without_others())));
            }
            Some(whole) => return Ok(whole),
            None => explaining = slice,
        }
    }
}

/// How much the next question looks at, if one of so much took so long.
fn next_work(work: usize, took: Duration) -> usize {
    let (least, most) = WORK;
    if took > HELD {
        (work / 2).max(least)
    } else if took < HELD / 3 {
        (work * 2).min(most)
    } else {
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_question_goes_by_how_long_the_one_before_took() {
        // A look takes so many nanoseconds: the work settles where the driver is held for no longer than it should be.
        for nanos in [100, 300, 1_000, 3_000, 10_000] {
            let mut work = WORK_A_QUESTION;
            let length = |work: usize| Duration::from_nanos(nanos * work as u64);
            for _ in 0..8 {
                work = next_work(work, length(work));
            }
            assert!(length(work) <= HELD, "{nanos} ns a look: {work}");
            assert!(work == WORK.1 || length(work) > HELD / 4, "{nanos} ns a look: {work}");
        }
        assert_eq!(next_work(WORK.0, Duration::from_secs(1)), WORK.0);
    }
}

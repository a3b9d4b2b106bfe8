//! Why a job does not run yet: asked of the driver in slices, so that a fleet of ten thousand nodes holds up no turn.

use tenure_proto::v1;
use tenure_scheduler::{Explaining, Explanation, JobId};

use super::read::{self, Now};
use crate::rpc::{api::Api, auth::Caller, convert, status::No};

/// How much one question to the driver looks at, so that it stays under a millisecond.
pub(crate) const WORK_A_QUESTION: usize = 512;

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
    loop {
        let mut slice = explaining;
        let asked = api.query(move |state, now| {
            let answer = state.explain_slice(now, &mut slice, WORK_A_QUESTION);
            let whole = answer.map(|answer| Some((Now::seen(state, now, id)?, answer?)));
            (slice, whole)
        });
        let (slice, whole) = asked.await?;
        match whole {
            Some(Some((now, explanation))) if confined => {
                return Ok(Some((now.confined(), explanation.without_others())));
            }
            Some(whole) => return Ok(whole),
            None => explaining = slice,
        }
    }
}

//! Children of running jobs.

use std::sync::Arc;

use tenure_proto::node::v1::{EnqueueChildrenRequest, EnqueueChildrenResponse};
use tenure_scheduler::{Command, Refusal, TraceContext};

use crate::rpc::{
    api::Api,
    auth::Caller,
    check::Checks,
    convert::spec,
    convert_node,
    jobs::{batch, check_count, fresh_id},
    nodes::check_lease,
    status::No,
};

/// Stores children of the job that a lease runs. They are its producer's, since it speaks for that; the commands that a
/// node runs are those of its operator, so what a producer may enqueue from outside does not bound them.
pub(super) async fn enqueue(
    api: &Api,
    caller: &Caller,
    trace: Option<Arc<TraceContext>>,
    request: EnqueueChildrenRequest,
) -> Result<EnqueueChildrenResponse, No> {
    let mut checks = Checks::default();
    let lease = convert_node::lease(&mut checks, request.lease.as_ref());
    checks.finish()?;
    check_count(request.jobs.len())?;
    let Some(lease) = lease else { return Err(No::invalid_field("lease", "is required")) };
    check_lease(api, caller, &lease).await?;
    let parent = lease.job;
    let whose =
        api.query(move |state, _| state.job(parent).map(|job| (job.producer.clone(), job.tenant.clone())));
    let Some((producer, tenant)) = whose.await? else {
        return Err(No::internal()); // a live lease has a live job
    };
    let submission = |spec| {
        let made = spec::submission(Some(spec), (&producer, &tenant), trace.clone(), || fresh_id(api));
        let mut submission = made?;
        if let Command::Enqueue(enqueue) = &mut submission.command {
            if let Some(named) = enqueue.parent.filter(|named| *named != parent) {
                return Err(Refusal::ParentNotLive { parent: named }.into());
            }
            enqueue.parent = Some(parent);
            enqueue.lease = Some(lease.clone());
        }
        Ok(submission)
    };
    let items = batch(api, Some(&producer), request.jobs, submission).await?;
    Ok(EnqueueChildrenResponse { items })
}

//! Following one workflow: a message as it stands, then one after each change that is seen, until it is final.
//!
//! As of jobs (`rpc/jobs/watch.rs`): a message is made when the transport has room for it. A workflow may change with each
//! of its members, so that it is looked at once in a while at the most.

use std::{pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt as _, stream};
use tenure_proto::v1;
use tenure_scheduler::{JobId, WorkflowId};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{required_id, row, wire};
use crate::{
    outbox::JobWatch,
    rpc::{
        api::Api,
        auth::Caller,
        jobs::{Place, Room},
        status::No,
    },
};

/// At the most this often.
const LEAST: Duration = Duration::from_millis(100);

/// The messages of one watch.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<v1::WatchWorkflowResponse, Status>> + Send>>;

struct Watch {
    api: Api,
    caller: Caller,
    workflow: WorkflowId,
    changes: JobWatch,
    /// Cancelled when this server leads no more, or ends.
    over: CancellationToken,
    /// What was sent last; none: nothing yet.
    sent: Option<v1::Workflow>,
    last: bool,
    _place: Place,
}

/// Opens a watch.
///
/// # Errors
/// If the workflow is not there for this caller, or it has too many watches open.
pub(super) async fn open(
    api: &Api,
    room: &Room,
    caller: Caller,
    request: &v1::WatchWorkflowRequest,
) -> Result<Messages, No> {
    let workflow = required_id(&request.workflow_id)?;
    let over = api.handle.ways()?.over;
    row(api, &caller, workflow).await?;
    let place = room.place(caller.enqueues_as().as_str(), caller.most_watches())?;
    // It watches from here on and reads afterwards: a change between the two is told by the watch.
    let changes = api.handle.watch_job(JobId(workflow.0))?;
    let api_of = api.clone();
    let watch =
        Watch { api: api_of, caller, workflow, changes, over, sent: None, last: false, _place: place };
    let api = api.clone();
    let messages = stream::try_unfold(watch, async |mut watch| {
        let workflow = watch.next().await?;
        Ok(workflow.map(|workflow| (v1::WatchWorkflowResponse { workflow: Some(workflow) }, watch)))
    });
    Ok(Box::pin(messages.map(move |message| {
        message.map_err(|no: No| {
            api.count(&no);
            no.into_status()
        })
    })))
}

impl Watch {
    /// The workflow after its next change; none after a final state.
    async fn next(&mut self) -> Result<Option<v1::Workflow>, No> {
        loop {
            if self.last {
                return Ok(None);
            }
            if self.sent.is_some() {
                self.changed().await?;
            }
            let now = row(&self.api, &self.caller, self.workflow).await?;
            let counts = self.api.read(self.api.handle.reader().member_counts(&[self.workflow]).await)?;
            let shown = wire::workflow(&now, &counts.get(&self.workflow).cloned().unwrap_or_default());
            if self.sent.as_ref() != Some(&shown) {
                self.last = now.state.is_final();
                self.sent = Some(shown.clone());
                return Ok(Some(shown));
            }
        }
    }

    async fn changed(&mut self) -> Result<(), No> {
        // All only wait, so that losing one of them loses nothing.
        tokio::select! {
            biased;
            () = self.over.cancelled() => Err(self.api.handle.elsewhere().into()),
            () = async { self.changes.changed().await; tokio::time::sleep(LEAST).await } => Ok(()),
        }
    }
}

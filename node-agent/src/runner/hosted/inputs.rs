//! What an attempt in a worker goes on from: fetched page by page, and told to the worker before it is told of the attempt.
//!
//! Responsible for going on through a server that is away. Not responsible for who they are (the server knows), nor for
//! files: those are for commands (`runner/inputs.rs`).
//!
//! Invariants: the worker gets all of them, in order, or is not told of the attempt; no more than a few pages of a worker are
//! in memory.

use std::time::Duration;

use tenure_proto::node::v1::{GetChildResultsResponse, Grant, WorkInputs};
use tonic::Status;

use super::Hosted;
use crate::own_rule::OwnRule;
use crate::runner::bounds::unless_over;
use crate::runner::socket::{Calls, Lease, is_away};
use crate::workers::Place;

/// Between two tries to fetch a page.
const AGAIN: Duration = Duration::from_millis(500);

impl Hosted {
    /// Tells the worker what an attempt goes on from: how many ends of other jobs. None: it goes on from nothing.
    pub(super) async fn give_inputs(&mut self, grant: &Grant, place: &Place) -> Result<Option<u32>, OwnRule> {
        if grant.input_results.is_none() {
            return Ok(None);
        }
        let lease = Lease { job: grant.job_id.clone(), token: self.token };
        let calls = self.shared.options.calls.clone();
        let (mut from, mut given) = (0, 0_u32);
        loop {
            let fetched = self.unless_over(page(&calls, &lease, from)).await?;
            let page = fetched.map_err(|error| {
                tracing::warn!(%error, "what an attempt goes on from is not there; its grant is given back");
                OwnRule::Revoked
            })?;
            given = given.saturating_add(u32::try_from(page.results.len()).unwrap_or(u32::MAX));
            from = page.next_index;
            let inputs = WorkInputs { token: self.token.0, results: page.results, state: page.state };
            if !self.unless_over(place.give(inputs)).await? {
                return Err(OwnRule::Worker);
            }
            if from == 0 {
                return Ok(Some(given));
            }
        }
    }

    async fn unless_over<T>(&self, what: impl Future<Output = T>) -> Result<T, OwnRule> {
        unless_over(&self.orders, self.shared.options.clock, what).await
    }
}

/// One page, for as long as it takes.
async fn page(calls: &Calls, lease: &Lease, from: u32) -> Result<GetChildResultsResponse, Status> {
    loop {
        match calls.child_results(lease, Vec::new(), (from, false)).await {
            Err(status) if is_away(&status) => {
                tracing::debug!(%status, "what an attempt goes on from cannot be fetched; again soon");
                tokio::time::sleep(AGAIN).await;
            }
            page => return page,
        }
    }
}

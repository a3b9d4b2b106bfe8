//! What the commands of a turn name and memory does not hold, looked up before they are applied.

use tenure_scheduler::{Epoch, Job, Workflow, WorkflowId};
use tenure_store::{Journal, election::Trust, journal};
use tokio::time::sleep;

use super::{
    Driver, Leader, PATIENCE, Signals,
    batch::Item,
    prior::{self, Asked},
};

impl<J: Journal> Driver<J> {
    /// Looks up what the items name and memory does not hold.
    pub(super) async fn ask(
        &mut self,
        leader: &Leader,
        items: &mut [Item],
        signals: &Signals,
    ) -> Result<(), journal::Error> {
        let epoch = leader.state.epoch();
        let workflows = prior::workflows(items, &leader.state);
        if !workflows.is_empty() {
            let found = self.prior_workflows(epoch, &workflows, signals).await?;
            prior::fill_workflows(items, &found);
        }
        let asked = Asked::by(items, &leader.state);
        if asked.is_empty() {
            return Ok(());
        }
        let found = self.prior(epoch, &asked, signals).await?;
        prior::fill(items, &leader.state, &asked, found);
        // Which key a job gave up is known only now.
        let keys = Asked::by_found(items, &leader.state);
        if !keys.is_empty() {
            let holders = self.prior(epoch, &keys, signals).await?;
            prior::fill_taken(items, &holders);
        }
        Ok(())
    }

    async fn prior(
        &mut self,
        epoch: Epoch,
        asked: &Asked,
        signals: &Signals,
    ) -> Result<Vec<Job>, journal::Error> {
        let Self { journal, trust, .. } = self;
        look_up(journal.prior(&asked.ids, &asked.keys), trust, epoch, signals).await
    }

    async fn prior_workflows(
        &mut self,
        epoch: Epoch,
        ids: &[WorkflowId],
        signals: &Signals,
    ) -> Result<Vec<Workflow>, journal::Error> {
        let Self { journal, trust, .. } = self;
        look_up(journal.prior_workflows(ids), trust, epoch, signals).await
    }
}

/// Waits for a look-up of the journal, for as long as this server leads.
async fn look_up<T>(
    lookup: impl Future<Output = Result<T, journal::Error>>,
    trust: &Trust,
    epoch: Epoch,
    signals: &Signals,
) -> Result<T, journal::Error> {
    let unavailable = |doing| Err(journal::Error::Unavailable { doing, source: None });
    let mut lookup = std::pin::pin!(lookup);
    let mut slow = std::pin::pin!(sleep(PATIENCE));
    loop {
        // A lookup that hangs is dropped: the takeover that follows is what the journal asks for then.
        tokio::select! {
            biased;
            found = &mut lookup => return found,
            () = signals.lost.cancelled() => return Err(journal::Error::Deposed { epoch }), // cancel-safe
            () = &mut slow => return unavailable("looking up jobs"), // cancel-safe: it stays where it is
            () = sleep(trust.left()) => {} // cancel-safe: it is made anew
        }
        if !trust.holds() {
            return unavailable("looking up jobs while nothing proves that this server leads");
        }
    }
}

//! What nodes say of epochs above the present one.
//!
//! A failover to a standby that had lost a takeover lets an epoch be used twice, and nodes remember what they saw: the
//! leader takes over from itself above that, so that no token is given twice (rule 11 of `docs/protocol.md`).
//!
//! Invariant: a node that claims so again and again costs three reloads an hour and no more.

use std::{collections::BTreeMap, time::Duration};

use tenure_scheduler::{Epoch, NodeName, Refusal};

use super::batch::Batch;
use crate::rpc::status::No;

/// How far above its own epoch a leader believes a node. The scheduler refuses what is further.
const MOST_AHEAD: u64 = 1000;

/// How often one node is believed in [`WINDOW`]: no fleet loses more failovers than that in an hour and goes on.
const MOST_BELIEVED: u32 = 3;

/// Counted from the first claim of a node.
const WINDOW: Duration = Duration::from_secs(3600);

/// Between two lines of the log about nodes that are not believed.
const ALARM_EVERY: Duration = Duration::from_secs(60);

/// Who claimed what, over all states of one term. As large as the fleet at the most: a node speaks for its own name.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Since when, and how often.
    believed: BTreeMap<NodeName, (Duration, u32)>,
    /// When it was last said that a node is not believed.
    alarmed: Option<Duration>,
}

impl Claims {
    /// Above which epoch to take over, if a node has seen one that is higher than the present. Hellos of nodes that said
    /// so too often are refused, and taken out of the batch.
    pub(super) fn judge(&mut self, batch: &mut Batch, epoch: Epoch, steady: Duration) -> Option<Epoch> {
        let ahead: Vec<_> = batch
            .hellos()
            .filter(|hello| hello.max_epoch_seen > epoch.0)
            .map(|hello| (hello.session, hello.node.clone(), hello.max_epoch_seen))
            .collect();
        if ahead.is_empty() {
            return None;
        }
        self.believed.retain(|_, &mut (since, _)| steady.saturating_sub(since) < WINDOW);
        let mut highest = None;
        for (session, node, seen) in ahead {
            if seen > epoch.0.saturating_add(MOST_AHEAD) {
                // The scheduler refuses it. Nobody but an operator knows which of the two is right.
                self.alarm(steady, || {
                    tracing::error!(
                        %epoch, seen, node.id = %node,
                        "a node claims an epoch too far ahead to be believed, and is refused: this database is an old \
                         backup, or the node was with another fleet"
                    );
                });
                continue;
            }
            let (_, times) = self.believed.entry(node.clone()).or_insert((steady, 0));
            if *times >= MOST_BELIEVED {
                self.alarm(steady, || {
                    tracing::error!(
                        %epoch, seen, node.id = %node,
                        "a node claims a higher epoch again and again, and is refused for an hour: its agent is broken, \
                         or somebody else speaks for it"
                    );
                });
                let status = No::from(Refusal::EpochAhead { seen, epoch: epoch.0 }).into_status();
                batch.take_session(session).into_iter().for_each(|from| from.refuse(status.clone()));
                continue;
            }
            *times += 1;
            tracing::warn!(%epoch, seen, node.id = %node, "a node saw a higher epoch; taking over above it");
            highest = highest.max(Some(Epoch(seen)));
        }
        highest
    }

    fn alarm(&mut self, steady: Duration, say: impl FnOnce()) {
        if self.alarmed.is_none_or(|at| steady.saturating_sub(at) >= ALARM_EVERY) {
            self.alarmed = Some(steady);
            say();
        }
    }
}

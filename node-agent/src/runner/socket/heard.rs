//! Signs of life of a command that cannot give any: it waits for a server.
//!
//! Invariant: nobody is stalled for as long as a call of it is not answered because the server is asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::desk::Desk;

/// Half of the shortest `progress_timeout`.
const EVERY: Duration = Duration::from_millis(500);

/// The command has said something whose answer is not in its hands. Until this is dropped, its silence is none.
pub(super) fn while_asked(desk: &Arc<Desk>) -> JoinSet<()> {
    let desk = Arc::clone(desk);
    let mut words = JoinSet::new();
    words.spawn(async move {
        loop {
            desk.heard();
            tokio::time::sleep(EVERY).await;
        }
    });
    words
}

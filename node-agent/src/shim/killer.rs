//! Kills a tree whose shim is gone or does not do it, from within the agent.
//!
//! Responsible for rounds of SIGKILL off the async threads, until nothing is left. Not responsible for a grace:
//! who comes here has had it.
//! Invariant: `Gone` is said only after two scans in a row that found nobody alive.

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::sweep::{Sweep, Verdict};
use super::tree::Tree;
use crate::clock::Clock;

/// The killing of one tree. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Killer {
    tree: Tree,
    clock: Clock,
    task: JoinSet<()>,
    /// At most two words are ever said, so it is never full.
    words: mpsc::Receiver<Word>,
}

/// What became of it. `Unkillable` at most once, then `Gone`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// It is still there after a minute.
    Unkillable,
    /// It is not there any more.
    Gone,
}

impl Killer {
    /// Begins at once.
    pub(crate) fn start(tree: Tree, clock: Clock) -> Self {
        let (sender, words) = mpsc::channel(2);
        let mut task = JoinSet::new();
        task.spawn(kill(tree.clone(), clock, sender));
        Self { tree, clock, task, words }
    }

    /// The next word. Cancel-safe. Not to be called after `Gone`.
    pub(crate) async fn next(&mut self) -> Word {
        loop {
            if let Some(word) = self.words.recv().await {
                return word;
            }
            let end = self.task.join_next().await;
            tracing::error!(tag = %self.tree.tag, ?end, "the killing of a process tree ended early; it begins anew");
            *self = Self::start(self.tree.clone(), self.clock);
        }
    }
}

async fn kill(tree: Tree, clock: Clock, words: mpsc::Sender<Word>) {
    let mut sweep = Sweep::new(clock.now());
    sweep.kill(clock.now());
    let mut told = false;
    loop {
        let (tree, removed) = (tree.clone(), tree.clone());
        let round = move || {
            let verdict = sweep.round(&tree, clock.now(), true);
            (sweep, verdict)
        };
        let Ok((after, verdict)) = tokio::task::spawn_blocking(round).await else { return };
        sweep = after;
        match verdict {
            Verdict::Gone => {
                // What cannot be removed now is removed by the next agent.
                tokio::task::spawn_blocking(move || removed.remove_cgroup()).await.ok();
                return say(&words, Word::Gone).await;
            }
            Verdict::Alive { unkillable: true, .. } if !told => {
                told = true;
                say(&words, Word::Unkillable).await;
            }
            Verdict::Alive { .. } | Verdict::Wait => {}
        }
        clock.sleep_until(sweep.next_at()).await;
    }
}

/// A listener that has gone needs no word.
async fn say(words: &mpsc::Sender<Word>, word: Word) {
    words.send(word).await.ok();
}

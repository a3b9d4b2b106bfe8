//! What happens to single connections: one is caught at a word, bytes are changed.
//!
//! A word that is split between two chunks is not seen; whoever sends a short message sends it at once.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tokio::sync::watch;

use super::Direction;

/// What is held of a connection that is caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Catch {
    /// The chunk with the word, and what comes behind it.
    Word,
    /// What the server says from then on; the word passes.
    Answer,
}

/// One connection that is caught, or will be.
#[derive(Debug)]
pub struct Caught {
    line: watch::Receiver<Option<Arc<Line>>>,
}

impl Caught {
    /// Waits until there is one.
    ///
    /// # Errors
    /// If the proxy is gone.
    pub async fn caught(&mut self) -> anyhow::Result<()> {
        self.line.wait_for(Option::is_some).await.context("the proxy is gone")?;
        Ok(())
    }

    /// Passes on what was held, if it was caught.
    pub fn release(&self) {
        if let Some(line) = &*self.line.borrow() {
            line.up.send_replace(true);
            line.down.send_replace(true);
        }
    }

    /// Cuts it, if it was caught; what is held is lost.
    pub fn cut(&self) {
        if let Some(line) = &*self.line.borrow() {
            line.cut.send_replace(true);
        }
    }
}

/// The gates of one connection.
#[derive(Debug)]
pub(super) struct Line {
    up: watch::Sender<bool>,
    down: watch::Sender<bool>,
    pub(super) cut: watch::Sender<bool>,
}

impl Default for Line {
    fn default() -> Self {
        Self { up: watch::Sender::new(true), down: watch::Sender::new(true), cut: watch::Sender::new(false) }
    }
}

impl Line {
    pub(super) fn gate(&self, way: Direction) -> &watch::Sender<bool> {
        match way {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Nothing passes any more, and nobody is told.
    pub(super) fn freeze(&self) {
        self.up.send_replace(false);
        self.down.send_replace(false);
    }
}

#[derive(Debug)]
struct Trap {
    after: &'static [u8],
    word: &'static [u8],
    how: Catch,
    /// On which `after` has passed.
    armed: Option<Arc<Line>>,
    caught: watch::Sender<Option<Arc<Line>>>,
}

/// What a proxy looks for in what goes up.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    traps: Mutex<Vec<Trap>>,
    rewrites: Mutex<Vec<(&'static [u8], &'static [u8])>>,
}

impl Hooks {
    pub(super) fn catch(&self, after: &'static [u8], word: &'static [u8], how: Catch) -> Caught {
        let (caught, line) = watch::channel(None);
        let trap = Trap { after, word, how, armed: None, caught };
        self.traps.lock().unwrap_or_else(PoisonError::into_inner).push(trap);
        Caught { line }
    }

    pub(super) fn rewrite(&self, old: &'static [u8], new: &'static [u8]) {
        self.rewrites.lock().unwrap_or_else(PoisonError::into_inner).push((old, new));
    }

    pub(super) fn look(&self, chunk: &mut [u8], line: &Arc<Line>) {
        for (old, new) in &*self.rewrites.lock().unwrap_or_else(PoisonError::into_inner) {
            while let Some(at) = find(chunk, old) {
                chunk.iter_mut().skip(at).zip(*new).for_each(|(byte, new)| *byte = *new);
            }
        }
        let mut traps = self.traps.lock().unwrap_or_else(PoisonError::into_inner);
        traps.retain_mut(|trap| {
            if find(chunk, trap.after).is_some() {
                trap.armed = Some(line.clone());
            }
            let here = trap.armed.as_ref().is_some_and(|armed| Arc::ptr_eq(armed, line));
            if !here || find(chunk, trap.word).is_none() {
                return true;
            }
            match trap.how {
                Catch::Word => line.up.send_replace(false),
                Catch::Answer => line.down.send_replace(false),
            };
            trap.caught.send_replace(Some(line.clone()));
            false
        });
    }
}

/// Where a word begins; an empty one begins everywhere.
fn find(chunk: &[u8], word: &[u8]) -> Option<usize> {
    chunk.windows(word.len().max(1)).position(|window| window.starts_with(word))
}

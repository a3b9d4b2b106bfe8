//! What this node holds: a pure machine of leases, deadlines and the words still to be said about them.
//!
//! Responsible for what a grant, a renewal, a revocation or an answer means, for the node's last word on a grant, for
//! when an accepted job starts, for what a Hello or heartbeat lists, and for what happens when the server is away. Not
//! responsible for processes (`runner.rs`), bytes (`spool.rs`) or the stream (`session.rs`): the caller brings the
//! time, carries out the [`Action`]s and sends the [`Statement`]s.
//!
//! Invariants: a lease is listed from the moment its grant is read until `reaped` or `returned` is said; slots in use
//! never exceed a capacity; `gone_by` only grows; nothing starts before `accepted` was said, nor while cut off.

mod adoption;
mod anchors;
mod last_word;
mod lease;
mod runs;
mod saved;
mod starts;
#[cfg(test)]
mod tests;
mod waits;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use self::anchors::{Anchor, Anchors};
use self::lease::Held;
use self::runs::{gone_by, listed};
use self::saved::Saved;
use self::starts::Starts;
use crate::clock::Mono;
use crate::pressure::rules::Reading;

pub use self::adoption::Adopted;
pub use self::lease::{FencingToken, Phase, Return, Stop, StopReason, Terms};
pub use self::starts::StartRate;
pub use self::waits::{WaitVerdict, Waiting};
pub use self::words::{Action, End, Listed, Statement, Unstored, Verdict, Violation};

/// Unanswered reports whose lease is not known (a restart) are brought back as if their lease were the shortest
/// possible: 10 s, a quarter of it.
const UNANSWERED_RECONNECT: Duration = Duration::from_millis(2_500);

/// What the node file says that matters here.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Capacity by slot.
    pub slots: BTreeMap<String, u32>,
    /// The kinds that run here, each with its grace between SIGTERM and SIGKILL.
    pub kinds: BTreeMap<String, Duration>,
    /// Start limits by slot.
    pub starts: BTreeMap<String, StartRate>,
}

/// The machine. What depends on time takes the present moment; nothing does I/O.
#[derive(Debug)]
pub struct Holdings {
    options: Options,
    leases: BTreeMap<FencingToken, Held>,
    /// Ends in the spool that the server has not answered.
    unstored: BTreeMap<FencingToken, Unstored>,
    pressure: Arc<Reading>,
    spool_full: bool,
    /// The server drains this node.
    drain: Option<Drain>,
    /// The agent ends: nothing that the server says takes this back.
    leaving: Option<Drain>,
    /// The agent ends, and leaves what runs to the next one.
    handing_over: bool,
    starts: Starts,
    link: Link,
    anchors: Anchors,
    /// Our newest `seq` of this stream. 0: none.
    seq: u64,
    /// The server's newest `seq` of this stream that was applied. 0: none.
    seen: u64,
    max_epoch_seen: u64,
    unsaid: VecDeque<(FencingToken, Word)>,
    saved: Saved,
    actions: Vec<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// No stream. Nothing starts, nothing is said.
    Down,
    /// Hello is on its way. Still nothing starts, nothing is said.
    Greeted,
    /// Welcome was read.
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Accepted,
    Started,
    Spooled,
    Returned,
    Reaped,
    Progress,
    Checkpoint,
}

#[derive(Clone, Copy, Debug)]
struct Drain {
    deadline: Mono,
    /// Whether what still ran at the deadline was told to stop.
    enforced: bool,
}

// The stream: what is sent, what is read.
impl Holdings {
    /// Starts with nothing held. `unstored` is what the spool has from before, `max_epoch_seen` from the state
    /// directory.
    pub fn new(options: Options, unstored: BTreeMap<FencingToken, Unstored>, max_epoch_seen: u64) -> Self {
        let starts = Starts::new(options.starts.clone());
        Self {
            options,
            leases: BTreeMap::new(),
            unstored,
            pressure: Arc::default(),
            spool_full: false,
            drain: None,
            leaving: None,
            handing_over: false,
            starts,
            link: Link::Down,
            anchors: Anchors::default(),
            seq: 0,
            seen: 0,
            max_epoch_seen,
            unsaid: VecDeque::new(),
            saved: Saved::default(),
            actions: Vec::new(),
        }
    }

    /// A new stream begins with the Hello that lists this. Everything that is still to be said is queued anew and
    /// follows after [`Holdings::welcomed`]; a listed phase stands for reports that were lost with their stream.
    pub fn hello(&mut self, now: Mono) -> (Vec<Listed>, Vec<(FencingToken, String)>) {
        self.link = Link::Greeted;
        self.anchors = Anchors::default();
        (self.seq, self.seen) = (0, 0);
        self.unsaid.clear();
        self.saved.hello();
        for held in self.leases.values_mut() {
            held.accepted_said = held.phase == Phase::Accepted;
        }
        self.tell_progress_anew();
        self.unsaid.extend(self.unstored.keys().map(|&token| (token, Word::Spooled)));
        for (&token, held) in self.leases.iter().filter(|(_, held)| held.gone) {
            match (&held.give_back, self.unstored.get(&token)) {
                (Some(_), _) => self.unsaid.push_back((token, Word::Returned)),
                // Its spooled `returned` says that the tree is gone.
                (None, Some(Unstored { end: End::Returned, .. })) => {}
                (None, _) => self.unsaid.push_back((token, Word::Reaped)),
            }
        }
        // In `unstored` and not held: that is how a Hello says that the tree is gone.
        let held =
            self.leases.iter().filter(|(token, held)| !(held.gone && self.unstored.contains_key(token)));
        let held = held.map(|(&token, held)| listed(now, token, held)).collect();
        (held, self.unstored.iter().map(|(&token, end)| (token, end.job.clone())).collect())
    }

    /// Every lease held, for a heartbeat.
    pub fn heartbeat(&self, now: Mono) -> Vec<Listed> {
        self.leases.iter().map(|(&token, held)| listed(now, token, held)).collect()
    }

    /// The next thing to say. To be put on the stream before anything else; from then on it counts as said. None
    /// while there is no Welcome.
    pub fn next_statement(&mut self, now: Mono) -> Option<Statement> {
        if self.link != Link::Up {
            return None;
        }
        while let Some((token, word)) = self.unsaid.pop_front() {
            if let Some(statement) = self.say(now, token, word) {
                return Some(statement);
            }
        }
        None
    }

    /// Whether there is a stream, welcomed.
    pub fn is_up(&self) -> bool {
        self.link == Link::Up
    }

    /// Whether [`Holdings::next_statement`] may have something.
    pub fn has_unsaid(&self) -> bool {
        self.link == Link::Up && !self.unsaid.is_empty()
    }

    /// The number of the message that is sent now; deadlines may be anchored at it.
    pub fn next_seq(&mut self, now: Mono) -> u64 {
        self.seq += 1;
        self.anchors.sent(self.seq, now);
        self.seq
    }

    /// The newest `seq` of the server that was applied.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The server's Welcome is about to be applied. What came before it was decided without our Hello and is dropped.
    pub fn receive_first(&mut self, seq: u64) {
        self.seen = seq;
    }

    /// A message of the server is about to be applied; its number has to follow the one before.
    pub fn receive(&mut self, seq: u64) -> Result<(), Violation> {
        if seq != self.seen + 1 {
            return Err(Violation::OutOfOrder { got: seq, seen: self.seen });
        }
        self.seen = seq;
        Ok(())
    }

    /// Whether the server keeps checkpoints, as its Welcome says. Those that it may not have are said.
    pub fn keeps_checkpoints(&mut self, kept: bool) {
        let unsure = self.saved.welcomed(kept).map(|token| (token, Word::Checkpoint));
        self.unsaid.extend(unsure);
    }

    /// The server has applied our messages up to this one.
    pub fn applied(&mut self, seq: u64) {
        self.saved.applied(seq);
    }

    /// Welcome: the epoch in force, and the renewal that answers our Hello. The server's drain is over, unless it is
    /// said again.
    pub fn welcomed(
        &mut self,
        epoch: u64,
        anchor: u64,
        renewed: &[(FencingToken, Duration)],
    ) -> Result<(), Violation> {
        self.renewed(anchor, renewed)?;
        self.link = Link::Up;
        self.max_epoch_seen = self.max_epoch_seen.max(epoch);
        self.drain_over();
        Ok(())
    }

    /// The stream is over. What runs runs on; nothing new starts.
    pub fn disconnected(&mut self) {
        self.link = Link::Down;
        self.unsaid.clear();
    }

    /// A grant was read. Its lease is held from now on, if only until it is given back. True: it is new and is being
    /// prepared.
    pub fn granted(&mut self, now: Mono, anchor: u64, terms: &Terms) -> Result<bool, Violation> {
        let moment = self.anchor(anchor)?;
        self.max_epoch_seen = self.max_epoch_seen.max(terms.token.epoch());
        if self.link != Link::Up || self.leases.contains_key(&terms.token) {
            return Ok(false);
        }
        let (anchored, give_back) = match self.last_word(now, moment, terms) {
            Ok(anchored) => (anchored, None),
            Err(give_back) => (now, Some(self.stamped(give_back))),
        };
        let counted = terms.first_lease.min(terms.lease);
        let held = Held {
            job: terms.job.clone(),
            slots: terms.slots.clone(),
            phase: Phase::Granted,
            whole: terms.lease,
            counted,
            gone_by: gone_by(anchored, counted),
            stale_at: terms.stale_in.map(|left| anchored + left),
            grace: self.options.kinds.get(&terms.kind).copied().unwrap_or_default(),
            stop: None,
            gone: give_back.is_some(),
            accepted_said: false,
            give_back,
            waiting: None,
            waited: 0,
            progress: None,
            progress_unsaid: false,
        };
        let refused = held.gone;
        self.leases.insert(terms.token, held);
        if refused {
            self.unsaid.push_back((terms.token, Word::Returned));
        } else {
            self.actions.push(Action::Prepare { token: terms.token });
        }
        Ok(!refused)
    }

    /// The answer to the heartbeat or Hello `anchor`: these leases live on for so long after it was sent.
    pub fn renewed(&mut self, anchor: u64, renewed: &[(FencingToken, Duration)]) -> Result<(), Violation> {
        let Anchor::At(anchored) = self.anchor(anchor)? else {
            return Ok(()); // Forgotten: it renews nothing.
        };
        for &(token, length) in renewed {
            // A tree of an earlier agent that is being killed has no deadline to move.
            let Some(held) = self.leases.get_mut(&token).filter(|held| !held.gone && !held.whole.is_zero())
            else {
                continue;
            };
            let length = length.min(held.whole);
            let later = gone_by(anchored, length);
            if later <= held.gone_by {
                continue;
            }
            (held.gone_by, held.counted) = (later, length);
            if held.phase.has_tree() {
                self.actions.push(Action::Extend { token, gone_by: later });
            }
        }
        Ok(())
    }

    /// The server takes this lease back. Repeated orders change nothing.
    pub fn revoked(&mut self, token: FencingToken, reason: StopReason) {
        self.stop(token, Stop { reason, at_once: false });
    }

    /// The server answered the report of an end.
    pub fn answered(&mut self, token: FencingToken, end: End, verdict: Verdict) {
        if self.unstored.get(&token).is_none_or(|unstored| unstored.end != end) {
            return;
        }
        self.unstored.remove(&token);
        self.actions.push(match verdict {
            Verdict::Done => Action::Forget { token },
            Verdict::Broken => Action::SetAside { token },
        });
    }

    /// The server drains this node: no more grants are taken, what has not started is given back, and what still runs
    /// at `deadline` is stopped, as a return. A sooner deadline wins.
    pub fn drain(&mut self, now: Mono, deadline: Mono) {
        self.drain = Some(Drain::sooner(self.drain, deadline));
        self.give_back_unstarted(now);
    }

    /// The server's drain is over: grants are taken again. What was stopped or given back stays so.
    pub fn drain_over(&mut self) {
        self.drain = None;
    }

    fn anchor(&self, seq: u64) -> Result<Anchor, Violation> {
        match self.anchors.of(seq) {
            Anchor::NeverSent => Err(Violation::AnchorNeverSent { anchor: seq, sent: self.seq }),
            anchor @ (Anchor::At(_) | Anchor::Forgotten) => Ok(anchor),
        }
    }

    fn say(&mut self, now: Mono, token: FencingToken, word: Word) -> Option<Statement> {
        if word == Word::Spooled {
            let unstored = self.unstored.get(&token)?;
            if unstored.end == End::Returned {
                self.leases.remove(&token);
            }
            return Some(Statement::Spooled { token });
        }
        // A report that does not fit into the next message goes with the one after it.
        let said_by = self.seq + 2;
        let held = self.leases.get_mut(&token)?;
        let job = held.job.clone();
        match word {
            Word::Accepted => {
                held.accepted_said = true;
                Some(Statement::Accepted { job, token })
            }
            Word::Started => {
                let elapsed = now.since(held.phase.started()?);
                Some(Statement::Started { job, token, elapsed })
            }
            Word::Returned => {
                let give_back = self.leases.remove(&token)?.give_back?;
                Some(Statement::Returned { job, token, give_back })
            }
            Word::Reaped => {
                self.leases.remove(&token);
                Some(Statement::Reaped { job, token })
            }
            Word::Progress => {
                held.progress_unsaid = false;
                let running = matches!(held.phase, Phase::Started { .. });
                let (percent, message) = held.progress.clone().filter(|_| running)?;
                Some(Statement::Progress { job, token, percent, message })
            }
            Word::Checkpoint => {
                self.saved.say(token, said_by).then_some(Statement::Checkpoint { job, token })
            }
            Word::Spooled => None,
        }
    }
}

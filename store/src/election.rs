//! When a leader may trust itself, and when a follower may lose patience: the pure part of an election.
//!
//! Responsible for the two limits and what counts towards them. Not for talking to a database (`postgres/election.rs`),
//! and not for keeping a deposed leader from writing: each commit checks the epoch for that. What has no epoch, such as
//! a renewal of leases, rests on the two limits: the leader stops itself before anybody else may take over.
//!
//! Invariant: [`TRUST`] is so much shorter than [`PATIENCE`] that clocks which run 25 % apart keep the order. Both are
//! measured on a clock that counts while the host sleeps, which the server hands in.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// For so long after the send of its last good renewal a leader trusts itself.
pub const TRUST: Duration = Duration::from_millis(2400);

/// For so long a follower must see the same renewal, again and again, before it takes over.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Two good reads of a follower are no further apart; else it has seen nothing.
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// A clock that never falls, and counts while the host sleeps. Only differences mean anything.
#[derive(Clone)]
pub struct Steady(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Steady {
    /// What this function reads.
    pub fn new(read: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The present.
    #[must_use]
    pub fn now(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for Steady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steady(..)")
    }
}

/// Whether a leader may act as one without a commit. Clones share it; looking costs a reading of the clock.
#[derive(Debug, Clone, Default)]
pub struct Trust(Option<Arc<Renewals>>);

#[derive(Debug)]
struct Renewals {
    steady: Steady,
    /// The send of the newest good one, in µs of the clock, plus 1. 0: there is none.
    sent_us: AtomicU64,
}

impl Trust {
    /// Where nobody else can lead.
    #[must_use]
    pub fn always() -> Self {
        Self(None)
    }

    /// Where others can. It begins without any.
    #[must_use]
    pub fn by_renewals(steady: Steady) -> Self {
        Self(Some(Arc::new(Renewals { steady, sent_us: AtomicU64::new(0) })))
    }

    /// A renewal that was sent then went well. Of several the newest counts.
    pub fn renewed(&self, sent: Duration) {
        if let Self(Some(renewals)) = self {
            let sent_us = u64::try_from(sent.as_micros()).unwrap_or(u64::MAX - 1).saturating_add(1);
            renewals.sent_us.fetch_max(sent_us, Ordering::SeqCst);
        }
    }

    /// Another server leads, or none.
    pub fn lose(&self) {
        if let Self(Some(renewals)) = self {
            renewals.sent_us.store(0, Ordering::SeqCst);
        }
    }

    /// For how long it still holds. Zero: it does not.
    #[must_use]
    pub fn left(&self) -> Duration {
        match self.age() {
            Age::NeedsNone => Duration::MAX,
            Age::Of(age) => TRUST.saturating_sub(age),
            Age::Never => Duration::ZERO,
        }
    }

    /// Whether it holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.left().is_zero()
    }

    /// How long ago the newest good renewal was sent. None: there is none, or none is needed.
    #[must_use]
    pub fn renewed_ago(&self) -> Option<Duration> {
        match self.age() {
            Age::Of(age) => Some(age),
            Age::NeedsNone | Age::Never => None,
        }
    }

    fn age(&self) -> Age {
        let Self(Some(renewals)) = self else { return Age::NeedsNone };
        // A leader that trusts itself for ever.
        #[cfg(feature = "failpoints")]
        fail::fail_point!("election::trust", |_| Age::NeedsNone);
        match renewals.sent_us.load(Ordering::SeqCst) {
            0 => Age::Never,
            sent => Age::Of(renewals.steady.now().saturating_sub(Duration::from_micros(sent - 1))),
        }
    }
}

/// What is known of the newest renewal.
enum Age {
    NeedsNone,
    Never,
    Of(Duration),
}

/// One renewal of a leader, as others see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// The epoch that it is of.
    pub epoch: u64,
    /// Its number.
    pub hb: u64,
}

/// What a follower has seen in an unbroken row of good reads.
#[derive(Debug, Clone, Default)]
pub struct Patience {
    same: Option<Same>,
}

#[derive(Debug, Clone)]
struct Same {
    beat: Beat,
    /// When the first read that saw it was answered: the renewal was sent before that.
    since: Duration,
    /// When the newest read was answered.
    last: Duration,
}

impl Patience {
    /// A read that was asked and answered then saw this. True: patience is over, this renewal may be deposed.
    pub fn saw(&mut self, beat: Beat, (asked, answered): (Duration, Duration)) -> bool {
        let goes_on = |same: &Same| same.beat == beat && answered.saturating_sub(same.last) <= LONGEST_GAP;
        match self.same.as_mut().filter(|same| goes_on(same)) {
            Some(same) => {
                same.last = answered;
                // What the read saw was so when it was asked at the earliest.
                asked.saturating_sub(same.since) >= PATIENCE
            }
            None => {
                self.same = Some(Same { beat, since: answered, last: answered });
                false
            }
        }
    }

    /// A read failed, or this server did something else meanwhile: an outage of the database is not a dead leader.
    pub fn missed(&mut self) {
        self.same = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn beat(hb: u64) -> Beat {
        Beat { epoch: 1, hb }
    }

    /// Reads at these times, in ms, each answered 10 ms later. The first at which patience is over.
    fn lost_at(reads: impl IntoIterator<Item = (u32, u64)>) -> Option<u32> {
        let mut patience = Patience::default();
        let over = |&(at, hb): &(u32, u64)| patience.saw(beat(hb), (at * MS, (at + 10) * MS));
        reads.into_iter().find(over).map(|(at, _)| at)
    }

    #[test]
    fn patience_is_over_after_three_seconds_of_the_same_and_never_while_it_changes() {
        assert_eq!(lost_at((0..100).map(|n| (n * 300, 7))), Some(3300));
        assert_eq!(lost_at((0..1000).map(|n| (n * 300, u64::from(n) / 9))), None, "renewed every 2.7 s");
    }

    #[test]
    fn another_epoch_with_the_same_number_is_another_renewal() {
        let mut patience = Patience::default();
        for at in 0..20 {
            let beat = Beat { epoch: u64::from(at) / 10, hb: 5 };
            let at = at * 300 * MS;
            assert!(!patience.saw(beat, (at, at)), "each epoch was seen for 2.7 s");
        }
    }

    #[test]
    fn a_gap_or_a_failed_read_starts_it_anew() {
        // 1.3 s of nothing in the midst: frozen, or slow reads.
        let gap = (0..10).map(|n| n * 300).chain((0..20).map(|n| 4000 + n * 300));
        assert_eq!(lost_at(gap.map(|at| (at, 7))), Some(4000 + 3300));
        let mut patience = Patience::default();
        for n in 0..30 {
            if n % 9 == 8 {
                patience.missed(); // such as while the database restarts
            }
            let at = n * 300 * MS;
            assert!(!patience.saw(beat(7), (at, at)));
        }
    }

    #[test]
    fn a_slow_first_answer_counts_from_its_end_and_a_slow_last_one_from_its_beginning() {
        let mut patience = Patience::default();
        assert!(!patience.saw(beat(7), (Duration::ZERO, 700 * MS)));
        for at in [1400, 2100, 2800, 3500] {
            assert!(!patience.saw(beat(7), (at * MS - 600 * MS, at * MS)));
        }
        assert!(!patience.saw(beat(7), (3600 * MS, 4200 * MS)), "2.9 s before it was asked");
        assert!(patience.saw(beat(7), (4200 * MS, 4210 * MS)));
    }

    fn scripted() -> (Trust, Arc<AtomicU64>) {
        let now = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&now);
        (Trust::by_renewals(Steady::new(move || Duration::from_millis(read.load(Ordering::SeqCst)))), now)
    }

    /// Run by `scripts/test` with the feature, which no other of its builds has.
    #[cfg(feature = "failpoints")]
    #[test]
    fn failpoints_make_a_leader_trust_itself_for_ever() {
        let (trust, now) = scripted();
        trust.renewed(Duration::ZERO);
        now.store(60_000, Ordering::SeqCst);
        let scenario = fail::FailScenario::setup();
        assert!(!trust.holds(), "a point that nobody switched on does nothing");
        fail::cfg("election::trust", "return").unwrap();
        assert!(trust.holds() && trust.left() == Duration::MAX);
        fail::cfg("election::trust", "1*off->return").unwrap();
        assert_eq!((trust.holds(), trust.holds()), (false, true), "the second time");
        scenario.teardown();
        assert!(!trust.holds());
    }

    #[test]
    fn trust_ends_so_long_after_the_send_of_the_last_good_renewal() {
        let (trust, now) = scripted();
        assert!(!trust.holds(), "nothing was renewed yet");
        trust.renewed(Duration::ZERO);
        now.store(2399, Ordering::SeqCst);
        assert_eq!((trust.holds(), trust.left()), (true, MS));
        now.store(2400, Ordering::SeqCst);
        assert!(!trust.holds());
        // It was frozen meanwhile: the answer to a renewal that was sent long ago does not help.
        now.store(60_000, Ordering::SeqCst);
        trust.renewed(800 * MS);
        assert!(!trust.holds());
        trust.renewed(59_000 * MS);
        trust.renewed(58_000 * MS);
        assert_eq!(trust.renewed_ago(), Some(1000 * MS), "of several the newest counts");
        trust.clone().lose();
        assert!(!trust.holds());
        assert!(Trust::always().holds() && Trust::always().left() == Duration::MAX);
    }

    /// Whatever the two clocks do within the tolerated drift, the leader has stopped before patience can be over.
    #[test]
    fn a_leader_stops_before_a_follower_whose_clock_runs_a_fifth_fast_takes_over() {
        let (trust, now) = scripted();
        let mut patience = Patience::default();
        trust.renewed(Duration::ZERO);
        let over = (0_u64..10_000).find(|&ms| {
            now.store(ms, Ordering::SeqCst);
            let theirs = Duration::from_millis(ms * 6 / 5);
            ms % 10 == 0 && patience.saw(beat(1), (theirs, theirs))
        });
        assert!(over.is_some() && !trust.holds(), "{over:?}");
    }
}

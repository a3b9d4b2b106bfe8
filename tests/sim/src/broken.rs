//! Rules broken on purpose, so that tests can see the oracles bite.

/// A rule that a history does without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Broken {
    /// None.
    #[default]
    Nothing,
    /// Servers end leases in about half of their time.
    HalfLease,
    /// Shims do not end what nobody renews.
    NoGoneBy,
    /// Commits do not check the epoch.
    NoEpochCheck,
    /// Effects and replies leave before the commit.
    EarlyRelease,
    /// A leader goes on for as long as nobody tells it not to.
    NoTrust,
    /// After a failover epochs go on as if nothing had been lost.
    NoLeap,
    /// A takeover does not wait for commits in flight.
    NoTakeoverLock,
    /// The row of a cron entry is not stored with the job that it fired.
    NoCronRow,
    /// A leader that loads members that wait for others lets them begin.
    NoGates,
}

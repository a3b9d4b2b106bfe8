//! Which database this is, and which line of its history: a failover that lost its tail must not let an epoch, and with it
//! tokens, be given twice.
//!
//! Each promotion of a standby begins a new timeline. The row of `leader_fence` keeps on which one it was taken over; a
//! takeover on a later one may find the row of before the newest takeover, whose epoch is in use. So it leaps, further
//! than the takeovers that may be lost. Not responsible for what is lost besides (a node's `max_epoch_seen` is the other
//! wall), nor for a database that is set back without a promotion, as by a snapshot of its disk.
//!
//! Invariant: what cannot be found out keeps nobody from leading.

use std::{fmt, str::FromStr, sync::Once};

use sqlx::{PgConnection, Row};

/// How far a takeover leaps for each timeline that it comes later: further than the takeovers that one failover may have
/// lost. By their number, since the first leap may be lost itself. Ten of them are what nodes may be ahead of a leader
/// and still be believed.
const LEAP: u64 = 100;

/// So many timelines are counted at the most: an odd number must not use up the epochs, of which there are 8 million.
const MOST_TIMELINES: u32 = 1_000;

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 3] = [SYSTEM_GET, TIMELINE_GET, IDENTITY_KNOWN];

const SYSTEM_GET: &str = "select system_identifier::text from pg_control_system()";

// Not from `pg_control_checkpoint()`: that names the old timeline until the first checkpoint after a promotion.
const TIMELINE_GET: &str = "select pg_walfile_name(pg_current_wal_lsn())";

// Under the lock of the takeover.
const IDENTITY_KNOWN: &str = "select db_ident from leader_fence";

/// A database cluster, on one line of its history. As text, `system/timeline`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// Chosen at random when the cluster was made; its standbys have the same. None: it may not be read.
    system: Option<String>,
    /// From 1, and a higher one with each promotion.
    timeline: u32,
}

impl Identity {
    /// In the place of a system identifier that may not be read.
    const UNKNOWN: &'static str = "?";

    /// Of the database behind this connection, which is a primary's. None if it does not tell; the log says so, once.
    ///
    /// # Errors
    /// If the connection is gone.
    pub(super) async fn read(connection: &mut PgConnection) -> Result<Option<Self>, sqlx::Error> {
        let file = match told(connection, TIMELINE_GET).await? {
            Ok(file) => file,
            Err(error) => {
                warn_once(&error);
                return Ok(None);
            }
        };
        // Eight hexadecimal digits of the timeline come first.
        let timeline = file.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let Some(timeline) = timeline else {
            warn_once(&format!("{file:?} is not the name of a file of the write-ahead log"));
            return Ok(None);
        };
        // Without it the timelines still tell a failover.
        let system = told(connection, SYSTEM_GET).await?.ok();
        Ok(Some(Self { system, timeline }))
    }

    /// What the newest takeover wrote. None: nothing, or nothing that can be read.
    ///
    /// # Errors
    /// What the database says.
    pub(super) async fn known(connection: &mut PgConnection) -> Result<Option<Self>, sqlx::Error> {
        let row = sqlx::query(IDENTITY_KNOWN).fetch_optional(connection).await?;
        let text: Option<String> = row.map(|row| row.try_get(0)).transpose()?.flatten();
        Ok(text.and_then(|text| text.parse().ok()))
    }
}

/// How far above the highest epoch that is known the next one lies, at least 1, on a database that is `now`, if the
/// newest takeover that it knows was on `then`.
pub(super) fn leap(then: Option<&Identity>, now: Option<&Identity>) -> u64 {
    let (Some(then), Some(now)) = (then, now) else { return 1 };
    let other = then.system.as_ref().zip(now.system.as_ref()).is_some_and(|(then, now)| then != now);
    let later = if other {
        // The row came by a copy, into a cluster whose timelines all came later.
        now.timeline.max(1)
    } else if now.timeline < then.timeline {
        // Set back from outside: another line all the same.
        1
    } else {
        now.timeline - then.timeline
    };
    (u64::from(later.min(MOST_TIMELINES)) * LEAP).max(1)
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.system.as_deref().unwrap_or(Self::UNKNOWN), self.timeline)
    }
}

impl FromStr for Identity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (system, timeline) = text.split_once('/').ok_or(())?;
        let timeline = timeline.parse().map_err(drop)?;
        Ok(Self { system: (system != Self::UNKNOWN).then(|| system.to_owned()), timeline })
    }
}

/// What one statement tells: the inner error is the database's, which refuses it to this role or does not have it.
async fn told(
    connection: &mut PgConnection,
    statement: &'static str,
) -> Result<Result<String, String>, sqlx::Error> {
    let row = sqlx::query(statement).fetch_one(connection).await;
    match row.and_then(|row| row.try_get(0)) {
        Ok(text) => Ok(Ok(text)),
        Err(sqlx::Error::Database(error)) => Ok(Err(error.message().to_owned())),
        Err(error) => Err(error),
    }
}

fn warn_once(error: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::warn!(
            error,
            "the database does not tell its timeline: a failover that lost a takeover may repeat its tokens"
        );
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn is(text: &str) -> Option<Identity> {
        let identity: Option<Identity> = text.parse().ok();
        assert!(identity.as_ref().is_none_or(|identity| identity.to_string() == text), "{text}");
        identity
    }

    #[test]
    fn an_epoch_leaps_by_the_timelines_that_the_row_is_behind() {
        for (then, now, expected) in [
            ("7/3", "7/3", 1),
            ("7/3", "7/4", 100),
            ("7/3", "7/5", 200),
            ("7/5", "7/3", 100),
            // Another cluster.
            ("7/3", "8/1", 100),
            ("7/3", "8/3", 300),
            ("7/3", "8/0", 100),
            // Half known.
            ("?/3", "7/3", 1),
            ("7/3", "?/4", 100),
            // Not known, on either side.
            ("", "7/4", 1),
            ("7/3", "", 1),
            ("", "", 1),
            ("7", "7/4", 1),
            ("7/x", "7/4", 1),
            ("7/-1", "7/4", 1),
            // Odd.
            ("7/1", "7/4294967295", 100_000),
        ] {
            assert_eq!(leap(is(then).as_ref(), is(now).as_ref()), expected, "{then} {now}");
        }
    }

    #[test]
    fn two_takeovers_on_different_timelines_never_meet_whatever_was_lost_between() {
        let on = |timeline| Identity { system: Some("7".into()), timeline };
        // From the same row each time: a takeover, and those from oneself after it.
        let mut given = BTreeSet::from_iter(5..5 + LEAP);
        for timeline in 2..=20 {
            let first = 5 + leap(Some(&on(1)), Some(&on(timeline)));
            for epoch in first..first + LEAP {
                assert!(given.insert(epoch), "{timeline}: {epoch}");
            }
        }
    }
}

//! Cron entries: timetables that the fleet file declares, and what becomes of each of their instants.
//!
//! Which instants a timetable has depends on a zone database, so they come from outside: the driver asks
//! [`State::unplanned_crons`](crate::State::unplanned_crons), and says them by a [`CronPlan`]. Everything else is decided
//! here, from the plan and from `now`: when an instant is due, whether it is too late, and what its policy makes of it.
//!
//! Invariant: no instant at or before `last_instant` fires, and it moves on in the commit that enqueues, so an instant fires
//! at most once whatever fails over.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use uuid::Uuid;

use crate::{
    command::Enqueue,
    ids::{ConcurrencyKey, CronName, Fingerprint, JobId, KindName, Producer, Sequence, SlotName, Tenant},
    kind::KindPolicy,
    retry::mix,
    selector::Selector,
    slots::Needs,
    time::{Wall, micros},
};

/// An instant is late, and no more than that, until the next one of its entry; but for at least the first of these, which a
/// change of leaders may take, and for at most the second. After that it is missed.
const GRACE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// Missed firings that an entry remembers, the newest.
const MOST_REMEMBERED: usize = 10;

/// The most that [`MissedPolicy::CatchUp`] may name.
pub const MOST_CAUGHT_UP: u32 = 100;

/// The label that tells a job the instant for which it was enqueued, as RFC 3339 in UTC.
pub const INSTANT_LABEL: &str = "cron.instant";

/// Who paused an entry of which a firing could not be stored.
const SET_ASIDE_BY: &str = "the leader, since a firing could not be stored";

/// The reason of instants that came too late to be fired.
pub(crate) const LATE: &str = "LATE";

/// The reason of instants for which one later firing stands.
pub(crate) const COALESCED: &str = "COALESCED";

/// What the fleet file says of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronPolicy {
    /// The kind of its jobs.
    pub kind: KindName,
    /// The timetable: five fields, or six with seconds before them.
    pub when: Arc<str>,
    /// The IANA name of the zone in whose local time the timetable is meant.
    pub zone: Arc<str>,
    /// What becomes of instants that nobody fired in time.
    pub missed: MissedPolicy,
    /// Each firing is put off by up to this, by a hash of entry and instant. At most 24 h.
    pub jitter: Duration,
    /// At most one of its jobs runs at once: each needs the fleet slot [`SlotName::of_cron`].
    pub singleton: bool,
    /// What its jobs are.
    pub job: CronJob,
}

/// What the jobs of an entry are, beside their kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronJob {
    /// The bytes of each. It is configuration, which is why it may be here.
    pub payload: Arc<str>,
    /// What the payload is.
    pub content_type: Arc<str>,
    /// Whose work it is.
    pub tenant: Tenant,
    /// Instead of the kind's.
    pub priority: Option<i8>,
    /// For people and filters.
    pub labels: BTreeMap<String, String>,
    /// Instead of the kind's.
    pub needs: Option<Needs>,
    /// Node labels, and-ed with the kind's.
    pub selector: Selector,
    /// Instead of the kind's.
    pub stale_after: Option<Duration>,
    /// May only shorten the kind's.
    pub hard_time_limit: Option<Duration>,
    /// What they share with jobs that may not all run at once.
    pub concurrency_key: Option<ConcurrencyKey>,
}

/// What becomes of instants that nobody fired in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedPolicy {
    /// They are recorded as missed.
    Skip,
    /// One firing stands for all of them; an instant that is fired in time does, too.
    Coalesce,
    /// So many of them, the newest, are fired now. 1 to [`MOST_CAUGHT_UP`].
    CatchUp(u32),
}

/// An entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronEntry {
    /// Its name.
    pub name: CronName,
    /// What the fleet file says.
    pub policy: CronPolicy,
    /// What becomes of every instant up to this one is settled. It never falls.
    pub last_instant: Wall,
    /// Present while no instant of it fires. Owned by operators.
    pub paused: Option<CronPause>,
    /// How many jobs were enqueued for it, those of operators included.
    pub fired: u64,
    /// How many instants were missed.
    pub missed: u64,
    /// The newest job that was enqueued for it.
    pub last_fired: Option<Fired>,
    /// The newest missed firings, the newest first; neighbours with one reason are one.
    pub recent: Vec<MissedFiring>,
}

/// Who paused an entry, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronPause {
    /// The identity of the caller, for people.
    pub by: Arc<str>,
    /// Since when.
    pub since: Wall,
}

/// A job that was enqueued for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fired {
    /// The instant; none: an operator wanted it.
    pub instant: Option<Wall>,
    /// When it was enqueued.
    pub at: Wall,
    /// The job.
    pub job: JobId,
}

/// Instants that did not become a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedFiring {
    /// The first.
    pub first: Wall,
    /// The last.
    pub last: Wall,
    /// How many.
    pub count: u64,
    /// `LATE`, `COALESCED`, or the reason of the refusal.
    pub reason: Arc<str>,
    /// For people. At most 4 KiB.
    pub message: Arc<str>,
    /// When that was recorded.
    pub at: Wall,
}

/// The next instants of an entry, as whoever knows its zone has computed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronPlan {
    /// Whose.
    pub entry: CronName,
    /// For which timetable. A plan for another one than is in force changes nothing.
    pub when: Arc<str>,
    /// For which zone.
    pub zone: Arc<str>,
    /// They are those after this one, which must be the entry's `last_instant`.
    pub after: Wall,
    /// In order, and on beyond the present. Of very many that are over already the oldest may be left out.
    pub instants: Vec<Wall>,
    /// None come after these.
    pub ends: bool,
}

/// What is to become of an instant, or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Due {
    /// A job is to be enqueued for it.
    Fire(Wall),
    /// Nothing.
    Miss { first: Wall, last: Wall, count: u64, reason: &'static str },
}

/// The rest of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) instants: VecDeque<Wall>,
    pub(crate) ends: bool,
}

/// An entry in memory: its row, and what of its timetable is known.
#[derive(Debug, Clone)]
pub(crate) struct CronState {
    pub(crate) entry: CronEntry,
    pub(crate) ahead: Option<Ahead>,
    /// Present once storing a firing failed. Never stored: whoever leads next tries again.
    pub(crate) aside: Option<CronPause>,
}

impl CronEntry {
    /// A new entry: its timetable counts from now on.
    #[must_use]
    pub fn new(name: CronName, policy: CronPolicy, now: Wall) -> Self {
        Self {
            name,
            policy,
            last_instant: now,
            paused: None,
            fired: 0,
            missed: 0,
            last_fired: None,
            recent: Vec::new(),
        }
    }

    /// Its job for an instant, or for an operator.
    pub(crate) fn job(&self, id: JobId, instant: Option<Wall>, kind: &KindPolicy) -> Enqueue {
        let job = &self.policy.job;
        let mut labels = job.labels.clone();
        labels.extend(instant.map(|at| (INSTANT_LABEL.to_owned(), rfc3339(at))));
        let needs = if self.policy.singleton {
            let one = Needs::new([(SlotName::of_cron(&self.name), 1)]);
            Some(job.needs.as_ref().unwrap_or(&kind.needs).with(&one))
        } else {
            job.needs.clone()
        };
        Enqueue {
            producer: Producer::of_cron(&self.name),
            tenant: Some(job.tenant.clone()),
            fingerprint: fingerprint(id),
            payload_size: job.payload.len() as u64,
            priority: job.priority,
            labels,
            needs,
            selector: job.selector.clone(),
            stale_after: job.stale_after,
            hard_time_limit: job.hard_time_limit,
            concurrency_key: job.concurrency_key.clone(),
            ..Enqueue::new(id, self.policy.kind.clone(), job.tenant.clone())
        }
    }

    pub(crate) fn remember(&mut self, missed: MissedFiring) {
        self.missed = self.missed.saturating_add(missed.count);
        if let Some(newest) = self.recent.first_mut()
            && (&newest.reason, &newest.message) == (&missed.reason, &missed.message)
        {
            let (first, count) = (newest.first, newest.count.saturating_add(missed.count));
            *newest = MissedFiring { first, count, ..missed };
            return;
        }
        self.recent.insert(0, missed);
        self.recent.truncate(MOST_REMEMBERED);
    }
}

impl CronState {
    pub(crate) fn new(entry: CronEntry) -> Self {
        Self { entry, ahead: None, aside: None }
    }

    /// Whether no instant fires.
    pub(crate) fn is_paused(&self) -> bool {
        self.entry.paused.is_some() || self.aside.is_some()
    }

    /// The entry as people see it: one that was set aside is paused.
    pub(crate) fn shown(&self) -> CronEntry {
        let paused = self.entry.paused.clone().or_else(|| self.aside.clone());
        CronEntry { paused, ..self.entry.clone() }
    }

    /// Whether more of its timetable has to be known. The last instant that is known only tells for how long the one before
    /// it may be late.
    pub(crate) fn is_unplanned(&self) -> bool {
        let known = self.ahead.as_ref().is_some_and(|ahead| ahead.ends || ahead.instants.len() > 1);
        !self.is_paused() && !known
    }

    pub(crate) fn set_aside(&mut self, now: Wall) {
        self.aside = Some(CronPause { by: SET_ASIDE_BY.into(), since: now });
    }

    /// Everything up to this instant is settled.
    pub(crate) fn settle(&mut self, instant: Wall) {
        self.entry.last_instant = self.entry.last_instant.max(instant);
        if let Some(ahead) = &mut self.ahead {
            while ahead.instants.front().is_some_and(|at| *at <= instant) {
                ahead.instants.pop_front();
            }
        }
    }

    /// When the next instant is due, as far as that is known.
    pub(crate) fn next_due(&self) -> Option<Wall> {
        if self.is_paused() || self.is_unplanned() {
            return None;
        }
        let next = *self.ahead.as_ref()?.instants.front()?;
        Some(put_off(&self.entry, next))
    }

    /// What is to become of the instants that are due, in their order. None: more of the timetable has to be known first,
    /// or what is judged together would be judged in parts.
    pub(crate) fn due(&self, now: Wall) -> Option<Vec<Due>> {
        let Some(ahead) = self.ahead.as_ref().filter(|_| !self.is_paused()) else {
            return Some(Vec::new());
        };
        let mut reached = Vec::new();
        let mut since = Wall(i64::MIN);
        for (at, next) in ahead.instants.iter().zip(followers(ahead)) {
            if next.is_none() && !ahead.ends {
                return None;
            }
            since = since.max(put_off(&self.entry, *at));
            if since > now {
                break;
            }
            let grace = next.map_or(GRACE.1, |next| next.since(*at).clamp(GRACE.0, GRACE.1));
            reached.push((*at, now.since(since) > grace));
        }
        Some(judge(self.entry.policy.missed, &reached))
    }
}

/// Beside each instant the one that follows it.
fn followers(ahead: &Ahead) -> impl Iterator<Item = Option<Wall>> {
    ahead.instants.iter().skip(1).map(|at| Some(*at)).chain([None])
}

/// Of instants in order, each with whether it is missed.
fn judge(policy: MissedPolicy, reached: &[(Wall, bool)]) -> Vec<Due> {
    let missed = reached.iter().filter(|(_, missed)| *missed).count();
    let in_time = reached.len() - missed;
    // Of the missed ones, the newest that are fired all the same.
    let (made_up, reason) = match policy {
        MissedPolicy::Skip => (0, LATE),
        MissedPolicy::Coalesce => (usize::from(in_time == 0), COALESCED),
        MissedPolicy::CatchUp(most) => (usize::try_from(most).unwrap_or(usize::MAX), LATE),
    };
    let mut left = missed.saturating_sub(made_up);
    let mut all: Vec<Due> = Vec::new();
    for (at, missed) in reached {
        if !missed || left == 0 {
            all.push(Due::Fire(*at));
            continue;
        }
        left -= 1;
        if let Some(Due::Miss { last, count, .. }) = all.last_mut() {
            (*last, *count) = (*at, *count + 1);
        } else {
            all.push(Due::Miss { first: *at, last: *at, count: 1, reason });
        }
    }
    all
}

/// When an instant is due: its jitter later.
fn put_off(entry: &CronEntry, instant: Wall) -> Wall {
    let most = micros(entry.policy.jitter);
    if most == 0 {
        return instant;
    }
    let name = entry.name.as_str().bytes().fold(0, |hash, byte| mix(hash, byte.into()));
    let hash = mix(name, instant.0.cast_unsigned());
    instant.after(Duration::from_micros(hash % (most + 1)))
}

/// A UUID v7 that nobody else makes: its random bits are a permutation of the sequence number, which is used once.
pub(crate) fn job_id(now: Wall, sequence: Sequence) -> JobId {
    let millis = u128::from(u64::try_from(now.0).unwrap_or(0) / 1000) & 0xffff_ffff_ffff;
    let bits = mix(0, sequence.0);
    let (high, low) = (u128::from(bits >> 52), u128::from(bits & ((1 << 52) - 1)));
    JobId(Uuid::from_u128(millis << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low))
}

/// Nobody repeats the enqueue of a firing, so nothing has to be compared: it tells the job, and no other.
fn fingerprint(id: JobId) -> Fingerprint {
    let (first, second) = (id.0.as_u128().to_be_bytes(), (!id.0.as_u128()).to_be_bytes());
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(first.into_iter().chain(second)).for_each(|(to, from)| *to = from);
    Fingerprint(bytes)
}

/// An instant as RFC 3339 in UTC, to the second: timetables know no less.
fn rfc3339(at: Wall) -> String {
    let seconds = at.0.div_euclid(1_000_000);
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since the first of March of the year 0, in eras of 400 years, each of which is like the others.
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (dom, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{dom:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ids::Epoch;

    #[test]
    fn ids_of_firings_are_version_7_and_never_the_same() {
        let now = Wall(1_790_755_200_000_000);
        let ids: BTreeSet<JobId> =
            (0..10_000).map(|n| job_id(now, Sequence::mint(Epoch(3 + n % 7), n))).collect();
        assert_eq!(ids.len(), 10_000);
        for id in ids {
            assert_eq!(id.0.get_version_num(), 7, "{id}");
            assert_eq!(id.0.get_variant(), uuid::Variant::RFC4122, "{id}");
            assert_eq!(id.0.as_u128() >> 80, 1_790_755_200_000, "{id}: the milliseconds");
        }
    }

    #[test]
    fn instants_are_told_as_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_835_395_200, "2028-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(Wall(seconds * 1_000_000)), text);
        }
    }

    #[test]
    fn what_is_missed_is_told_once_and_what_is_made_up_for_is_the_newest() {
        let reached: Vec<(Wall, bool)> = (1..=4).map(|at| (Wall(at), at < 4)).collect();
        let miss =
            |first, last, count, reason| Due::Miss { first: Wall(first), last: Wall(last), count, reason };
        let fire = |at| Due::Fire(Wall(at));
        assert_eq!(judge(MissedPolicy::Skip, &reached), [miss(1, 3, 3, LATE), fire(4)]);
        assert_eq!(judge(MissedPolicy::Coalesce, &reached), [miss(1, 3, 3, COALESCED), fire(4)]);
        assert_eq!(judge(MissedPolicy::Coalesce, &reached[..3]), [miss(1, 2, 2, COALESCED), fire(3)]);
        assert_eq!(
            judge(MissedPolicy::CatchUp(2), &reached),
            [miss(1, 1, 1, LATE), fire(2), fire(3), fire(4)]
        );
        assert_eq!(judge(MissedPolicy::CatchUp(9), &reached).len(), 4);
    }
}

//! The deferral timeline of a class: why it waited, since when, how often it was tried. A job keeps only where in it
//! it entered, so its own counts and durations are read off: O(1) a pass, exact per job.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    deferral::Deferral,
    job::{MAX_WAITS, Wait},
    rows::ClassEntry,
    time::{Mono, Now, Wall},
};

/// More entries than this are not kept: the two oldest become one, and jobs older than both see the later reason.
const MAX_ENTRIES: usize = 256;

/// One stretch of time with one reason.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Counts up along the timeline.
    number: u64,
    reason: &'static str,
    subject: Arc<str>,
    message: Arc<str>,
    tries: u64,
    since: Now,
    ended: Option<Now>,
    /// It was read from the store: its times are of the wall clock only.
    loaded: Option<Arc<str>>,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    entries: VecDeque<Entry>,
    next: u64,
    /// Changed since it was saved.
    pub(crate) unsaved: bool,
}

/// Where in a timeline a job entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Joined {
    pub(crate) number: u64,
    pub(crate) tries: u64,
    pub(crate) at: Now,
}

impl Timeline {
    /// The class could not be placed.
    pub(crate) fn deferred(&mut self, now: Now, reason: &Deferral) {
        self.unsaved = true;
        let subject = reason.subject();
        if let Some(last) = self.entries.back_mut() {
            if last.ended.is_none() && last.reason == reason.name() && *last.subject == *subject {
                last.tries += 1;
                last.message = reason.for_everybody().into();
                return;
            }
            last.ended.get_or_insert(now);
        }
        self.push(Entry {
            number: 0,
            reason: reason.name(),
            subject: subject.into(),
            message: reason.for_everybody().into(),
            tries: 1,
            since: now,
            ended: None,
            loaded: None,
        });
    }

    fn push(&mut self, mut entry: Entry) {
        entry.number = self.next;
        self.next += 1;
        self.entries.push_back(entry);
        if self.entries.len() > MAX_ENTRIES
            && let Some(oldest) = self.entries.pop_front()
            && let Some(second) = self.entries.front_mut()
        {
            second.since = oldest.since;
            second.tries += oldest.tries;
        }
    }

    /// A job enters now.
    pub(crate) fn join(&self, now: Now) -> Joined {
        match self.entries.back() {
            Some(last) if last.ended.is_none() => Joined { number: last.number, tries: last.tries, at: now },
            Some(_) | None => Joined { number: self.next, tries: 0, at: now },
        }
    }

    /// A job that was queued before this leader began: it entered at that time of the wall clock.
    pub(crate) fn join_loaded(&self, since: Wall, now: Now) -> Joined {
        let number = self
            .entries
            .iter()
            .find(|entry| entry.ended.is_none_or(|ended| ended.wall > since))
            .map_or(self.next, |entry| entry.number);
        Joined { number, tries: 0, at: Now { mono: now.mono, wall: since } }
    }

    /// What a job waited for since it joined, the longest first.
    pub(crate) fn waits(&self, joined: &Joined, now: Now) -> Vec<Wait> {
        let mut waits = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.number >= joined.number) {
            let before = if entry.number == joined.number { joined.tries } else { 0 };
            let end = entry.ended.unwrap_or(now);
            let duration = if entry.loaded.is_some() {
                end.wall.since(entry.since.wall.max(joined.at.wall))
            } else {
                end.mono.since(entry.since.mono.max(joined.at.mono))
            };
            // That what held the others held it too counts as a try: nobody waits for what was never tried.
            let joined_in = u64::from(before > 0 && duration > Duration::ZERO);
            let wait = Wait {
                reason: entry.loaded.clone().unwrap_or_else(|| entry.reason.into()),
                message: entry.message.clone(),
                count: entry.tries.saturating_sub(before) + joined_in,
                duration,
            };
            add(&mut waits, &entry.subject, wait);
        }
        waits.into_iter().map(|(_, wait)| wait).collect()
    }

    /// Since when the present reason holds.
    pub(crate) fn present_since(&self) -> Option<Now> {
        self.entries.back().filter(|entry| entry.ended.is_none()).map(|entry| entry.since)
    }

    /// As rows, the open entry up to now.
    pub(crate) fn rows(&self, now: Now) -> Vec<ClassEntry> {
        let row = |entry: &Entry| {
            let end = entry.ended.unwrap_or(now);
            ClassEntry {
                since: entry.since.wall,
                reason: entry.loaded.clone().unwrap_or_else(|| entry.reason.into()),
                message: entry.message.clone(),
                tries: entry.tries,
                duration: if entry.loaded.is_some() {
                    end.wall.since(entry.since.wall)
                } else {
                    end.mono.since(entry.since.mono)
                },
            }
        };
        self.entries.iter().map(row).collect()
    }

    /// From rows, all ended. The last was open when it was saved, and nothing placed the class since: it ends now.
    pub(crate) fn load(rows: &[ClassEntry], now: Now) -> Self {
        let mut timeline = Self::default();
        for row in rows {
            timeline.push(Entry {
                number: 0,
                reason: "",
                subject: row.message.clone(),
                message: row.message.clone(),
                tries: row.tries,
                since: Now { mono: Mono(0), wall: row.since },
                ended: Some(Now { mono: Mono(0), wall: row.since.after(row.duration) }),
                loaded: Some(row.reason.clone()),
            });
        }
        if let Some(last) = timeline.entries.back_mut() {
            last.ended = Some(now);
        }
        timeline
    }
}

fn add(waits: &mut Vec<(Arc<str>, Wait)>, subject: &Arc<str>, wait: Wait) {
    match waits.iter_mut().find(|(known, other)| known == subject && other.reason == wait.reason) {
        Some((_, same)) => {
            same.count += wait.count;
            same.duration += wait.duration;
            same.message = wait.message;
        }
        None => waits.push((subject.clone(), wait)),
    }
}

/// What a job waited for before and lately, the longest first, at most [`MAX_WAITS`].
pub(crate) fn merge(mut before: Vec<Wait>, lately: Vec<Wait>) -> Vec<Wait> {
    for wait in lately.into_iter().filter(|wait| wait.count > 0 || wait.duration > Duration::ZERO) {
        match before.iter_mut().find(|known| known.reason == wait.reason && known.message == wait.message) {
            Some(same) => {
                same.count += wait.count;
                same.duration += wait.duration;
            }
            None => before.push(wait),
        }
    }
    before.sort_by(|a, b| b.duration.cmp(&a.duration).then(b.count.cmp(&a.count)));
    before.truncate(MAX_WAITS);
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SlotName;

    fn at(seconds: u64) -> Now {
        let wall = Wall(i64::try_from(seconds * 1_000_000).unwrap());
        Now { mono: Mono(seconds * 1_000_000), wall }
    }

    fn busy(slot: &str) -> Deferral {
        Deferral::SlotBusy { slot: SlotName::new(slot), node: None, used: 1, capacity: 1 }
    }

    fn read(waits: &[Wait]) -> Vec<(String, u64, u64)> {
        waits.iter().map(|wait| (wait.message.to_string(), wait.count, wait.duration.as_secs())).collect()
    }

    #[test]
    fn each_job_sees_its_own_part_of_the_timeline() {
        let mut timeline = Timeline::default();
        let first = timeline.join(at(0));
        timeline.deferred(at(0), &busy("a"));
        timeline.deferred(at(5), &busy("a"));
        let second = timeline.join(at(7));
        timeline.deferred(at(8), &busy("a"));
        timeline.deferred(at(10), &busy("b"));
        assert_eq!(
            read(&timeline.waits(&first, at(30))),
            [("slot a 1/1".into(), 3, 10), ("slot b 1/1".into(), 1, 20)]
        );
        assert_eq!(
            read(&timeline.waits(&second, at(30))),
            [("slot a 1/1".into(), 2, 3), ("slot b 1/1".into(), 1, 20)],
            "it came to what held the first: one try, and another"
        );
    }

    #[test]
    fn a_loaded_timeline_counts_by_the_wall_clock() {
        let mut timeline = Timeline::default();
        timeline.deferred(at(100), &busy("a"));
        let mut loaded = Timeline::load(&timeline.rows(at(160)), at(200));
        let joined = loaded.join_loaded(Wall(130_000_000), Now { mono: Mono(0), wall: Wall(200_000_000) });
        loaded.deferred(Now { mono: Mono(1_000_000), wall: Wall(201_000_000) }, &busy("b"));
        let waits = loaded.waits(&joined, Now { mono: Mono(5_000_000), wall: Wall(205_000_000) });
        assert_eq!(read(&waits), [("slot a 1/1".into(), 1, 70), ("slot b 1/1".into(), 1, 4)]);
    }

    #[test]
    fn a_timeline_stays_bounded() {
        let mut timeline = Timeline::default();
        for i in 0..1000 {
            timeline.deferred(at(i), &busy(if i % 2 == 0 { "a" } else { "b" }));
        }
        assert_eq!(timeline.rows(at(1000)).len(), MAX_ENTRIES);
    }
}

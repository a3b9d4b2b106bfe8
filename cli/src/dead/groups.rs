//! Which dead letters belong together: those of one kind whose reasons differ in numbers only.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;
use tenure_client::proto::{GetQueueHealthResponse, Job};
use tenure_client::wire;

use crate::human;
use crate::output::{Field, Output, Table};

/// Characters of a reason that a table shows, and that make a group.
const REASON_SHOWN: usize = 120;

/// All groups of a list.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_key: BTreeMap<(String, String), Group>,
}

/// One group.
#[derive(Debug)]
struct Group {
    count: usize,
    newest: SystemTime,
    oldest: SystemTime,
    /// The id of its newest job.
    example: String,
}

/// Groups and days as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    groups: Vec<ListedGroup>,
    days: Vec<ListedDay>,
}

#[derive(Debug, Serialize)]
struct ListedGroup {
    kind: String,
    reason: String,
    count: usize,
    newest: String,
    oldest: String,
    example: String,
}

#[derive(Debug, Serialize)]
struct ListedDay {
    date: String,
    kind: String,
    count: u64,
}

impl Groups {
    /// Adds a job to its group.
    pub(super) fn add(&mut self, job: &Job) {
        let died = job.finish_time.as_ref().map_or(SystemTime::UNIX_EPOCH, wire::system_time);
        let key = (job.kind.clone(), fingerprint(&job.reason));
        let group = self.by_key.entry(key).or_insert_with(|| Group {
            count: 0,
            newest: died,
            oldest: died,
            example: job.id.clone(),
        });
        group.count += 1;
        group.oldest = group.oldest.min(died);
        if died > group.newest {
            group.newest = died;
            group.example.clone_from(&job.id);
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The largest group first.
    fn sorted(&self) -> Vec<(&(String, String), &Group)> {
        let mut groups: Vec<_> = self.by_key.iter().collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
        groups
    }

    /// The id of the newest job of each group.
    pub(super) fn examples(&self) -> impl Iterator<Item = &str> {
        self.sorted().into_iter().map(|(_, group)| group.example.as_str())
    }

    /// A group per row.
    pub(super) fn table(&self, output: &Output) -> Table {
        let mut table = Table::new(["KIND", "COUNT", "NEWEST", "OLDEST", "EXAMPLE", "REASON"]);
        for ((kind, reason), group) in self.sorted() {
            table.row([
                kind.as_str().into(),
                Field::figure(group.count),
                output.when(Some(&wire::timestamp(group.newest))).into(),
                output.when(Some(&wire::timestamp(group.oldest))).into(),
                group.example.as_str().into(),
                reason.as_str().into(),
            ]);
        }
        table
    }

    /// For programs.
    pub(super) fn listed(&self, health: &GetQueueHealthResponse) -> Listed {
        let groups = self.sorted().into_iter().map(|((kind, reason), group)| ListedGroup {
            kind: kind.clone(),
            reason: reason.clone(),
            count: group.count,
            newest: human::absolute(group.newest),
            oldest: human::absolute(group.oldest),
            example: group.example.clone(),
        });
        let days = health.kinds.iter().flat_map(|kind| {
            kind.dead_by_day.iter().map(|day| ListedDay {
                date: day.date.clone(),
                kind: kind.kind.clone(),
                count: day.count,
            })
        });
        Listed { groups: groups.collect(), days: days.filter(|day| day.count > 0).collect() }
    }
}

/// A day per row, a kind per column; only kinds that ever lost a job in these days.
pub(super) fn days(health: &GetQueueHealthResponse) -> Table {
    let mut table = Table::new(["DAY", "DEAD", "BY KIND"]);
    let mut by_day: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    for kind in &health.kinds {
        for day in kind.dead_by_day.iter().filter(|day| day.count > 0) {
            by_day.entry(&day.date).or_default().push((&kind.kind, day.count));
        }
    }
    for (date, kinds) in by_day.iter().rev() {
        let words: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind}={count}")).collect();
        let total: u64 = kinds.iter().map(|(_, count)| count).sum();
        table.row([(*date).into(), Field::figure(total), words.join(" ").into()]);
    }
    table
}

/// A dead letter per row.
pub(super) fn jobs(jobs: &[Job], output: &Output) -> Table {
    let mut table = Table::new(["JOB", "KIND", "DIED", "FAILURES", "LOSSES", "REASON"]);
    for job in jobs {
        table.row([
            job.id.as_str().into(),
            job.kind.as_str().into(),
            output.when(job.finish_time.as_ref()).into(),
            Field::figure(job.failures),
            Field::figure(job.losses),
            human::brief(&job.reason, REASON_SHOWN).into(),
        ]);
    }
    table
}

/// A reason without what differs from job to job: ids, addresses and numbers of several digits become `#`. Short
/// numbers stay: an exit code tells one failure from another.
fn fingerprint(reason: &str) -> String {
    let line = human::brief(reason, REASON_SHOWN);
    let mut fingerprint = String::with_capacity(line.len());
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    let mut rest = line.as_str();
    while !rest.is_empty() {
        let end = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        fingerprint.push_str(if varies(word) { "#" } else { word });
        let next = tail.find(is_part).unwrap_or(tail.len());
        let (gap, tail) = tail.split_at(next);
        fingerprint.push_str(gap);
        rest = tail;
    }
    fingerprint
}

/// Whether a word is an id or a figure: four digits or more, or hexadecimal and long.
fn varies(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let hexadecimal = word.chars().all(|character| character.is_ascii_hexdigit() || character == '-');
    digits >= 4 || (digits > 0 && hexadecimal && word.len() >= 8)
}

#[cfg(test)]
mod tests {
    use tenure_client::proto::{DeadDay, KindHealth};

    use super::*;

    fn dead(id: &str, kind: &str, reason: &str, seconds: i64) -> Job {
        Job {
            id: id.to_owned(),
            kind: kind.to_owned(),
            reason: reason.to_owned(),
            finish_time: Some(prost_types::Timestamp { seconds, nanos: 0 }),
            ..Job::default()
        }
    }

    #[test]
    fn a_fingerprint_keeps_words_and_exit_codes_and_drops_ids() {
        for (reason, print) in [
            ("exit 3: order 4711023 is gone", "exit 3: order # is gone"),
            ("no host 0198c2a4-7d11-7aaa-8bbb-0123456789ab", "no host #"),
            ("signal 9 (SIGKILL)", "signal 9 (SIGKILL)"),
            ("deadbeef0", "#"),
            ("facade", "facade"),
            ("", ""),
        ] {
            assert_eq!(fingerprint(reason), print);
        }
    }

    #[test]
    fn jobs_of_one_kind_and_reason_are_one_group_named_by_its_newest() {
        let mut groups = Groups::default();
        groups.add(&dead("a", "k", "exit 1: order 10001", 100));
        groups.add(&dead("b", "k", "exit 1: order 10002", 300));
        groups.add(&dead("c", "k", "exit 1: order 10003", 200));
        groups.add(&dead("d", "other", "exit 1: order 10003", 200));
        let listed = groups.listed(&GetQueueHealthResponse::default());
        assert_eq!(listed.groups.len(), 2);
        let first = &listed.groups[0];
        assert_eq!((first.count, first.example.as_str(), first.kind.as_str()), (3, "b", "k"));
        assert_eq!(first.oldest, "1970-01-01T00:01:40Z");
    }

    #[test]
    fn days_without_a_death_are_left_out() {
        let day = |date: &str, count| DeadDay { date: date.to_owned(), count };
        let health = GetQueueHealthResponse {
            kinds: vec![KindHealth {
                kind: "k".to_owned(),
                dead_by_day: vec![day("2026-11-30", 2), day("2026-11-29", 0)],
                ..KindHealth::default()
            }],
            ..GetQueueHealthResponse::default()
        };
        assert_eq!(Groups::default().listed(&health).days.len(), 1);
        assert!(!days(&health).is_empty());
    }
}

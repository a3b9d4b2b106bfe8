//! The other half of the oracle: no slot that waiting work fits stays idle for longer than allowed.
//!
//! Responsible for arithmetic over the log. A unit counts as taken from the `start` to the `end` of an execution, so what
//! is measured includes everything between: the reaping of one process, the decision, the commit, the start of the next.
//! Not for scenarios in which executions are killed: those write no end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::clock::Moment;
use crate::intervals::{Log, Need, Run};

/// A job that waited.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The job.
    pub job: String,
    /// Since when: its enqueue was answered.
    pub since: Moment,
    /// What it needs, one entry per node that could run it.
    pub choices: Vec<Vec<Need>>,
}

/// A time in which a job waited although everything that it needs was free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// The job.
    pub job: String,
    /// From when.
    pub from: Moment,
    /// For how long.
    pub length: Duration,
}

/// The longest such time.
pub fn longest(log: &Log, waiting: &[Waiting]) -> Option<Idle> {
    let changes = changes(log);
    let idles = waiting.iter().filter_map(|waiting| longest_of(waiting, log, &changes));
    idles.max_by_key(|idle| idle.length)
}

/// From the end of one execution to the start of the next on the same unit, sorted. Only where work waited for the unit
/// all along is that the time of a handover.
pub fn handovers(log: &Log) -> Vec<Duration> {
    let mut ends: BTreeMap<&str, Moment> = BTreeMap::new();
    let mut found = Vec::new();
    for run in &log.runs {
        for unit in &run.units {
            found.extend(ends.get(unit.as_str()).map(|end| run.start.at.since(*end)));
            ends.extend(run.end.map(|end| (unit.as_str(), end)));
        }
    }
    found.sort_unstable();
    found
}

/// Units of each slot that are taken from each moment on.
fn changes(log: &Log) -> BTreeMap<Moment, BTreeMap<String, u32>> {
    let mut moments: BTreeSet<Moment> = BTreeSet::from([Moment::default()]);
    moments.extend(log.runs.iter().flat_map(|run| [Some(run.start.at), run.end]).flatten());
    let taken_at = |moment: Moment| {
        let mut taken = BTreeMap::new();
        for unit in log.runs.iter().filter(|run| holds(run, moment)).flat_map(|run| &run.units) {
            let slot = unit.split_once('#').map_or(unit.as_str(), |(slot, _)| slot);
            *taken.entry(slot.to_owned()).or_insert(0) += 1;
        }
        taken
    };
    moments.into_iter().map(|moment| (moment, taken_at(moment))).collect()
}

fn holds(run: &Run, moment: Moment) -> bool {
    run.start.at <= moment && run.end.is_none_or(|end| moment < end)
}

fn longest_of(
    waiting: &Waiting,
    log: &Log,
    changes: &BTreeMap<Moment, BTreeMap<String, u32>>,
) -> Option<Idle> {
    let until = log.of(&waiting.job).map(|run| run.start.at).min()?;
    if until <= waiting.since {
        // It ran before its producer had read the answer.
        return None;
    }
    let none = BTreeMap::new();
    let before = changes.range(..=waiting.since).next_back().map_or(&none, |(_, taken)| taken);
    let steps = std::iter::once((waiting.since, before))
        .chain(changes.range(waiting.since..until).map(|(&moment, taken)| (moment, taken)));
    let mut longest: Option<Idle> = None;
    let mut fits_since: Option<Moment> = None;
    let mut close = |since: Option<Moment>, end: Moment| {
        let Some(from) = since else { return };
        let length = end.since(from);
        if longest.as_ref().is_none_or(|longest| longest.length < length) {
            longest = Some(Idle { job: waiting.job.clone(), from, length });
        }
    };
    for (moment, taken) in steps {
        if waiting.choices.iter().any(|needs| fit(needs, taken)) {
            fits_since = fits_since.or(Some(moment));
        } else {
            close(fits_since.take(), moment);
        }
    }
    close(fits_since, until);
    longest
}

fn fit(needs: &[Need], taken: &BTreeMap<String, u32>) -> bool {
    needs.iter().all(|need| taken.get(&need.slot).copied().unwrap_or(0) + need.amount <= need.capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[(&str, u64, u64, u64, &str)]) -> Log {
        let mut text = String::new();
        for (job, token, start, end, units) in lines {
            let stamp = |at: &u64| format!("job={job} token={token} attempt=1 pid=1 at={at} kind=k node=n");
            text += &format!("start {} slots={units} problems=-\n", stamp(start));
            text += &format!("end {} exit=0\n", stamp(end));
        }
        Log::parse(&text).unwrap()
    }

    fn waiting(job: &str, since: u64, slots: &[&str]) -> Waiting {
        let need = |slot: &&str| Need { slot: (*slot).to_owned(), amount: 1, capacity: 1 };
        Waiting {
            job: job.to_owned(),
            since: Moment(since),
            choices: slots.iter().map(|s| vec![need(s)]).collect(),
        }
    }

    fn nanos(log: &Log, waiting: &Waiting) -> u128 {
        longest(log, std::slice::from_ref(waiting)).map_or(0, |idle| idle.length.as_nanos())
    }

    #[test]
    fn waiting_for_a_taken_slot_is_no_idle_time_and_the_gap_before_the_start_is() {
        let log = log(&[("a", 1, 100, 200, "s#0"), ("b", 2, 230, 300, "s#0")]);
        assert_eq!(nanos(&log, &waiting("b", 120, &["s"])), 30);
        assert_eq!(nanos(&log, &waiting("a", 40, &["s"])), 60);
        assert_eq!(nanos(&log, &waiting("b", 225, &["s"])), 5);
    }

    #[test]
    fn any_node_that_would_do_makes_a_slot_idle() {
        let log = log(&[("a", 1, 100, 200, "s@1#0"), ("b", 2, 230, 300, "s@1#0")]);
        assert_eq!(nanos(&log, &waiting("b", 120, &["s@1"])), 30);
        assert_eq!(
            nanos(&log, &waiting("b", 120, &["s@1", "s@2"])),
            110,
            "the second node was free all along"
        );
    }

    #[test]
    fn idle_times_apart_do_not_add_up() {
        let log = log(&[("a", 1, 100, 200, "s#0"), ("c", 2, 210, 300, "s#0"), ("b", 3, 320, 400, "s#0")]);
        assert_eq!(nanos(&log, &waiting("b", 150, &["s"])), 20);
    }

    #[test]
    fn a_handover_is_from_an_end_to_the_next_start_on_the_same_unit() {
        let log = log(&[("a", 1, 0, 100, "s#0"), ("b", 2, 130, 200, "s#0"), ("c", 3, 110, 300, "s#1")]);
        assert_eq!(handovers(&log), [Duration::from_nanos(30)]);
    }

    #[test]
    fn a_job_that_ran_before_its_producer_knew_has_not_waited() {
        let log = log(&[("a", 1, 100, 200, "s#0")]);
        assert_eq!(longest(&log, &[waiting("a", 100, &["s"]), waiting("a", 150, &["s"])]), None);
    }

    #[test]
    fn a_job_that_never_started_has_no_measure() {
        assert_eq!(longest(&log(&[]), &[waiting("b", 1, &["s"])]), None);
    }
}

//! Whether what explanations say is what the rows say and what placement does: at rest, so that nothing is to be placed.

use tenure_scheduler::{Durable, Explanation, Job, Wall};

use super::{Oracle, key_of, lines::has_its_key};

/// Within this nobody's band rises.
const YOUNG_MICROS: i64 = 15 * 60 * 1_000_000;

impl Oracle {
    /// Panics if an explanation of a waiting job is wrong.
    /// `now`: unless somebody set the wall clock.
    pub(crate) fn agrees(&self, now: Option<Wall>, rows: &Durable, job: &Job, explained: &Explanation) {
        let told = explained.groups.iter().map(|group| group.nodes).sum::<u64>() + explained.nodes_omitted;
        assert_eq!(told, rows.nodes.len() as u64, "every node is in one group: {explained:#?}");
        for group in &explained.groups {
            let alike = explained.nodes.iter().filter(|node| group.examples.contains(&node.node));
            for node in alike {
                let same = node.why_not.as_ref().map(|why| why.name());
                assert_eq!(same, group.why_not.as_ref().map(|why| why.name()), "{explained:#?}");
            }
        }
        let reason = &explained.deferral.as_ref().expect("it waits").reason;
        let Some(place) = self.place(rows, job) else { return };
        if now.is_some_and(|now| place.oldest.0 > now.0 - YOUNG_MICROS) {
            assert_eq!(explained.ahead, place.ahead, "{} of {}: {explained:#?}", job.id, job.kind);
            assert_eq!(explained.ahead_jobs, place.first, "{explained:#?}");
        }
        // Placement said no for a node: no node says yes to the first of the class, that one neither. (What it says may have
        // become another no since: an earmark on it wakes nobody.)
        if explained.ahead == 0 && reason_node(explained).is_some() {
            let fits = explained.groups.iter().find(|group| group.why_not.is_none());
            assert!(fits.is_none(), "{fits:?} fits, and it waits for {reason:?}: {explained:#?}");
        }
    }

    /// The place of a job that stands in the queue of its class, or in the line of its kind.
    fn place(&self, rows: &Durable, job: &Job) -> Option<Place> {
        if !self.candidates(rows).any(|other| other.id == job.id) {
            return None;
        }
        let key = key_of(job, rows);
        let strict = rows.kinds[&job.kind].policy.fifo;
        let is_alike =
            |other: &&Job| if strict { other.kind == job.kind } else { key_of(other, rows) == key };
        let alike: Vec<&Job> = self.candidates(rows).filter(is_alike).collect();
        let rank = |job: &Job| (if strict { 0 } else { -i32::from(job.priority) }, job.sequence);
        let by_key = !strict && rows.kinds[&job.kind].policy.concurrency.is_some();
        // Of a key below its limit the first of each priority may come first; of one at it nobody. Of its own key all do.
        let counts = |other: &&Job| {
            let key = other.concurrency_key.as_ref().filter(|_| by_key);
            let is_rival =
                |job: &&&Job| job.concurrency_key.as_ref() == key && job.priority == other.priority;
            let first = || alike.iter().filter(is_rival).map(|job| job.sequence).min();
            let may_start = || has_its_key(rows, other) && first() == Some(other.sequence);
            key.is_none() || key == job.concurrency_key.as_ref() || may_start()
        };
        let before = alike.iter().copied().filter(|other| rank(other) < rank(job));
        let mut before: Vec<&Job> = before.filter(counts).collect();
        before.sort_by_key(|job| rank(job));
        let oldest = alike.iter().map(|job| job.created_at).min()?;
        let first = before.iter().take(10).map(|job| job.id).collect();
        Some(Place { ahead: before.len() as u64, first, oldest })
    }
}

struct Place {
    ahead: u64,
    first: Vec<tenure_scheduler::JobId>,
    /// When the oldest of its class was enqueued.
    oldest: Wall,
}

/// The node that the reason names, if it names one that was asked.
fn reason_node(explained: &Explanation) -> Option<String> {
    let reason = &explained.deferral.as_ref()?.reason;
    let asked = !matches!(reason.name(), "not_reaped");
    let parameters = reason.parameters();
    let node = parameters.iter().find(|(name, _)| *name == "node")?;
    asked.then(|| node.1.clone())
}

//! Invariants in slices, so that a check of a million jobs holds up nobody for longer than a slice.
//!
//! What can be said of one job by itself is looked at job by job, each as it is in its slice. What is a sum over leases or
//! nodes is a slice of its own: those are few. What is a sum over all jobs would hold up everybody while they are counted,
//! and is left out where there are many; the answer names what was evaluated.

use super::{NAMES, Violation};
use crate::{ids::JobId, state::State};

/// Sums over so many jobs are still evaluated in one slice.
const MOST_COUNTED: usize = 20_000;

/// More violations of single jobs are not looked for: one is enough to be wrong.
const MOST_FOUND: usize = 1000;

type Check = (&'static [usize], fn(&State, &mut Vec<Violation>));

/// By the numbers of their names.
pub(super) const OF_ALL: [Check; 7] = [
    (&[0], State::used_is_the_sum),
    (&[1], State::used_is_within_capacity),
    (&[2], State::live_leases_are_found),
    (&[3, 4], State::leases_fit_their_jobs),
    (&[10], State::tenants_use_what_their_leases_take),
    (&[11], State::earmarks_are_indexed),
    (&[13], State::parked_leases_hold_what_they_keep),
];

/// Those that go over all jobs at once.
pub(super) const OF_ALL_JOBS: [Check; 6] = [
    (&[6], State::queues_hold_queued_jobs),
    (&[7], State::kind_counts_match),
    (&[8], State::held_keys_are_found),
    (&[9], State::timers_have_live_jobs),
    (&[12], State::lines_and_keys_match),
    (&[14], State::workflows_know_their_members),
];

/// What is said of each job by itself.
const OF_EACH_JOB: [usize; 3] = [2, 5, 8];

/// A check on its way.
#[derive(Debug, Clone, Default)]
pub struct Checking {
    /// The last job that was looked at.
    after: Option<JobId>,
    jobs_done: bool,
    /// Which of the others are done.
    done: usize,
    names: Vec<usize>,
    found: Vec<Violation>,
}

/// What came of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// The names of what was evaluated, in the order of [`NAMES`].
    pub names: Vec<&'static str>,
    /// None is the only good answer.
    pub violations: Vec<Violation>,
}

impl State {
    /// Goes on with a check: looks at no more than about this many jobs, or does one of the others. The answer once it is
    /// whole.
    #[must_use]
    pub fn check_slice(&self, checking: &mut Checking, most: usize) -> Option<Checked> {
        if !checking.jobs_done {
            self.check_jobs(checking, most.max(1));
            return None;
        }
        let counted = self.jobs.len() <= MOST_COUNTED;
        let next = OF_ALL.iter().chain(OF_ALL_JOBS.iter().filter(|_| counted)).nth(checking.done);
        if let Some((names, check)) = next {
            check(self, &mut checking.found);
            checking.names.extend(*names);
            checking.done += 1;
            return None;
        }
        checking.names.extend(OF_EACH_JOB);
        let names = NAMES.iter().enumerate().filter(|(at, _)| checking.names.contains(at));
        let names = names.map(|(_, name)| *name).collect();
        Some(Checked { names, violations: std::mem::take(&mut checking.found) })
    }

    fn check_jobs(&self, checking: &mut Checking, most: usize) {
        let all = checking.after.is_none().then(|| self.jobs.iter());
        let rest = checking.after.map(|after| self.jobs.after(after));
        let mut last = None;
        let mut seen = 0;
        for (id, entry) in all.into_iter().flatten().chain(rest.into_iter().flatten()).take(most) {
            self.job_holds(*id, &entry, &mut checking.found);
            last = Some(*id);
            seen += 1;
        }
        checking.after = last.or(checking.after);
        checking.jobs_done = seen < most || checking.found.len() >= MOST_FOUND;
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        Command, Enqueue, Epoch, FencingToken, Fleet, KindName, KindPolicy, Limits, Mono, Now, Tenant, Wall,
    };

    const NOW: Now = Now { mono: Mono(1), wall: Wall(1_790_769_600_000_000) };

    fn id(n: u128) -> JobId {
        JobId(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + n))
    }

    /// So many jobs that wait, nearly all of them packed.
    fn waiting(jobs: u128) -> State {
        let limits = Limits { whole_jobs: 3, ..Limits::default() };
        let mut state = State::load(Epoch(1), limits, Default::default(), NOW);
        let kinds = [(KindName::new("k"), KindPolicy::default())].into();
        let fleet = Box::new(Fleet { kinds, ..Fleet::default() });
        state.apply(NOW, Command::Apply { fleet, validate_only: false }).unwrap();
        for n in 0..jobs {
            let enqueue = Enqueue::new(id(n), KindName::new("k"), Tenant::new("t"));
            state.apply(NOW, Command::Enqueue(Box::new(enqueue))).unwrap();
            state.take_changes();
            state.committed();
        }
        state
    }

    fn check(state: &State, most: usize) -> (Checked, usize) {
        let mut checking = Checking::default();
        let mut slices = 1;
        loop {
            match state.check_slice(&mut checking, most) {
                Some(checked) => return (checked, slices),
                None => slices += 1,
            }
        }
    }

    #[test]
    fn slices_find_what_the_whole_finds_and_name_all_of_it() {
        let mut state = waiting(300);
        for most in [1, 7, 299, 300, 301] {
            let (checked, slices) = check(&state, most);
            assert_eq!((&checked.names[..], &checked.violations[..]), (&NAMES[..], &[][..]));
            assert_eq!(slices, 300 / most + 1 + OF_ALL.len() + OF_ALL_JOBS.len() + 1);
        }
        // One that seems to have a lease, and one that is in no queue.
        state.lease_of.insert(id(11), FencingToken::mint(Epoch(1), 9));
        if let Some(entry) = state.jobs.get_mut(&id(77)) {
            entry.stand = crate::state::Stand::Nowhere;
        }
        let whole = state.check_invariants();
        let of_jobs = whole.iter().filter(|violation| violation.subject == id(77).to_string()).count();
        assert!(of_jobs >= 1 && whole.iter().any(|violation| violation.subject == "lease_of"), "{whole:?}");
        for most in [1, 64, 1000] {
            assert_eq!(check(&state, most).0.violations, whole, "by {most}");
        }
    }

    #[test]
    fn sums_over_very_many_jobs_are_left_out_and_not_named() {
        let state = waiting(MOST_COUNTED as u128 + 1);
        let (checked, _) = check(&state, 512);
        assert_eq!(checked.violations, []);
        let left_out: Vec<usize> =
            (0..NAMES.len()).filter(|at| !checked.names.contains(&NAMES[*at])).collect();
        assert_eq!(left_out, [6, 7, 9, 12, 14], "held keys are looked at job by job as well");
    }
}

//! The order in which classes are tried: lane, band, the tenant's share, priority, enqueue. Integers, compared in that
//! order; the first is the least. The share is a matter between tenants: of one tenant's own classes priority and age
//! decide, whatever they need.
//!
//! A class stands in this order with one of its jobs, its *head*. Bands rise while a job waits, so each priority in
//! use has a head of its own, and that of the class is the best of them now. Nothing is kept up to date by timers: a
//! band is worked out when it is looked at.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    ids::{JobId, NodeName, Sequence, Tenant},
    place::{ClassId, classes::Class, earmarks::Holder, keyed::scope_of},
    slots::Needs,
    state::{JobEntry, State, tenants::Share},
    step::Step,
    time::Now,
};

/// A job that has waited this long stands one band higher, and another one after as long again.
pub(crate) const BAND_RISES_AFTER: Duration = Duration::from_secs(15 * 60);

/// What comes before everything else. Another lane than the normal one is for those who wait on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Units are kept for it: see `place/earmarks.rs`.
    Earmarked,
    /// Whatever waits in the queue of its class.
    Normal,
}

/// A class of priorities. Shares of tenants count within it only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Band {
    /// From 50. Waiting leads nobody here.
    Critical,
    /// From 20, and who has waited long enough.
    High,
    /// From −19.
    Normal,
    /// The rest.
    Low,
}

impl Band {
    /// That of a priority whose job has waited for so long since it became queued.
    pub(crate) fn of(priority: i8, waited: Duration) -> Self {
        let rises = waited.as_secs() / BAND_RISES_AFTER.as_secs();
        match priority {
            50.. => Self::Critical,
            20.. => Self::High,
            -19.. if rises >= 1 => Self::High,
            -19.. => Self::Normal,
            _ if rises >= 2 => Self::High,
            _ if rises == 1 => Self::Normal,
            _ => Self::Low,
        }
    }

    /// The lowest priority of it.
    pub(crate) fn least(self) -> i8 {
        match self {
            Self::Critical => 50,
            Self::High => 20,
            Self::Normal => -19,
            Self::Low => -100,
        }
    }
}

/// Where a class stands among those of its tenant, with the job that it stands there with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    lane: Lane,
    pub(crate) band: Band,
    priority: Reverse<i8>,
    pub(crate) sequence: Sequence,
    /// The head: the job that the class is tried with.
    pub(crate) job: JobId,
}

/// Where a class stands now; none: nothing of it is queued.
pub(crate) fn standing(state: &State, now: Now, id: ClassId, class: &Class) -> Option<Standing> {
    let earmark = state.earmarks.of(Holder::Class(id));
    let lane = if earmark.is_some() { Lane::Earmarked } else { Lane::Normal };
    // What may not start stands there too, to be told why.
    let queue = Some(class.startable()).filter(|queue| !queue.is_empty()).unwrap_or(&class.queue);
    let oldest =
        state.line_of(&class.key.kind).and_then(|_| class.queue.heads().min_by_key(|(_, age, _)| *age));
    let heads = queue.heads().filter(|_| oldest.is_none()).chain(oldest);
    let mut best: Option<Standing> = None;
    for (priority, sequence, job) in heads {
        // Who waits can rise to the high band at most, and stands behind a higher priority there.
        if best.is_some_and(|best| best.band <= Band::High) {
            break;
        }
        let waited = state.jobs.since(&job).map(|since| state.waited_since(since, now)).unwrap_or_default();
        let band = Band::of(priority.0, waited);
        let standing = Standing { lane, band, priority, sequence, job };
        best = Some(best.map_or(standing, |best| best.min(standing)));
    }
    best
}

/// Where a tenant stands among the others. What stands before its share is its first class's, as is what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TenantStanding {
    lane: Lane,
    band: Band,
    share: Share,
    priority: Reverse<i8>,
    sequence: Sequence,
}

impl TenantStanding {
    fn of(standing: &Standing, share: Share) -> Self {
        let Standing { lane, band, priority, sequence, job: _ } = *standing;
        Self { lane, band, share, priority, sequence }
    }
}

/// The classes of one tenant that are to be tried.
#[derive(Debug, Default)]
struct Group {
    classes: BTreeSet<(Standing, ClassId)>,
    /// No share that it would have with one of them is less than this.
    least: Option<Share>,
    /// Where it stands among the tenants; none: it stands there no more, or not yet.
    rank: Option<TenantStanding>,
    /// Where its first class was found to fit since the last grant. Its rank is exact then, else no more than a lower
    /// bound: its first class may fit nowhere, and the next one need less.
    fits: Option<NodeName>,
}

/// Classes of one tenant that join together.
#[derive(Default)]
struct Joining<'a> {
    standings: Vec<(Standing, ClassId)>,
    needs: Vec<&'a Needs>,
}

/// The classes to be tried in this tick, the first first.
///
/// Among tenants the share decides that each would have with its first class *that fits*: not without that class, or
/// one job could carry its tenant far above the others, and not with one that cannot be placed, or a large job that
/// waits would hold up the small ones of its tenant. Which one fits is asked only where the answer may matter.
#[derive(Debug, Default)]
pub(crate) struct Line {
    groups: BTreeMap<Tenant, Group>,
    ranks: BTreeSet<(TenantStanding, Tenant)>,
    /// Those whose `fits` is known.
    known: Vec<Tenant>,
    /// Classes that stood in it at first.
    began_with: usize,
    /// Classes that were looked at in vain since those of which that is known left the line.
    vain: usize,
}

/// What came of trying a class.
pub(crate) enum Tried {
    /// Its head fits there.
    Fits(NodeName),
    /// It was looked at, and fits nowhere.
    FitsNowhere,
    /// What was known of it said that already.
    InVain,
}

/// So many classes may be looked at in vain before all of that sort leave the line, and a sixteenth of it: to find them is
/// a walk over the line.
const VAIN: usize = 8;

/// A class whose turn it is, and where its head fits.
pub(crate) struct Turn {
    pub(crate) class: ClassId,
    pub(crate) job: JobId,
    pub(crate) node: NodeName,
    tenant: Tenant,
}

impl Line {
    /// Of classes, each once, that have anything to stand there with. As if they joined one by one, but each tenant is
    /// ranked once.
    pub(crate) fn of<'a>(
        state: &State,
        now: Now,
        classes: impl Iterator<Item = (ClassId, &'a Class)>,
    ) -> Self {
        let mut line = Self::default();
        let mut by_tenant: BTreeMap<&Tenant, Joining<'a>> = BTreeMap::new();
        for (id, class) in classes {
            let Some(standing) = standing(state, now, id, class) else { continue };
            let joining = by_tenant.entry(&class.key.tenant).or_default();
            joining.standings.push((standing, id));
            joining.needs.push(&class.key.needs);
        }
        for (tenant, Joining { standings, needs }) in by_tenant {
            line.began_with += standings.len();
            let least = state.tenants.least_share_with(tenant, needs);
            let group = Group { classes: standings.into_iter().collect(), least, ..Group::default() };
            line.groups.insert(tenant.clone(), group);
            line.rank(state, tenant);
        }
        line
    }

    /// A class stands in line, if it has anything to stand there with.
    pub(crate) fn join(&mut self, state: &State, now: Now, id: ClassId) {
        let Some(class) = state.classes.get(id) else { return };
        let Some(standing) = standing(state, now, id, class) else { return };
        let tenant = &class.key.tenant;
        let share = state.tenants.share_with(tenant, &class.key.needs);
        let group = self.groups.entry(tenant.clone()).or_default();
        group.least = Some(group.least.map_or(share, |least| least.min(share)));
        group.classes.insert((standing, id));
        self.rank(state, tenant);
    }

    /// Those leave that would be looked at in vain.
    fn leave(&mut self, state: &State, is_vain: impl Fn(&State, &Class) -> bool) {
        self.vain = 0;
        let is_vain = |id: ClassId| state.classes.get(id).is_some_and(|class| is_vain(state, class));
        let mut shorter = Vec::new();
        for (tenant, group) in &mut self.groups {
            let before = group.classes.len();
            group.classes.retain(|(_, id)| !is_vain(*id));
            if group.classes.len() < before {
                shorter.push(tenant.clone());
            }
        }
        shorter.iter().for_each(|tenant| self.rank(state, tenant));
    }

    /// The class whose turn it is. `tries` tries one with its head; what fits nowhere is not asked for again. Whether that
    /// would be in vain `is_vain` says, which says so for the rest of the tick.
    pub(crate) fn next(
        &mut self,
        step: &mut Step<'_>,
        mut tries: impl FnMut(&mut Step<'_>, ClassId, JobId) -> Tried,
        is_vain: impl Fn(&State, &Class) -> bool,
    ) -> Option<Turn> {
        loop {
            let (_, tenant) = self.ranks.first()?.clone();
            let group = self.groups.get_mut(&tenant)?;
            let &(standing, class) = group.classes.first()?;
            // A key that another class of it took since may have closed to its head.
            let again = step.state.classes.get(class);
            let again = again.and_then(|of| self::standing(step.state, step.now, class, of));
            if again != Some(standing) {
                group.classes.pop_first();
                group.fits = None;
                group.classes.extend(again.map(|again| (again, class)));
                self.rank(step.state, &tenant);
                continue;
            }
            let turn = |node, tenant| Turn { class, job: standing.job, node, tenant };
            if let Some(node) = group.fits.clone() {
                return Some(turn(node, tenant));
            }
            let tried = tries(step, class, standing.job);
            let Tried::Fits(node) = tried else {
                group.classes.pop_first();
                self.rank(step.state, &tenant);
                self.vain += usize::from(matches!(tried, Tried::InVain));
                if self.vain > VAIN + self.began_with / 16 {
                    self.leave(step.state, &is_vain);
                }
                continue;
            };
            group.fits = Some(node.clone());
            self.known.push(tenant.clone());
            self.rank(step.state, &tenant);
            if self.ranks.first().is_some_and(|(_, first)| *first == tenant) {
                return Some(turn(node, tenant));
            }
        }
    }

    /// What became of a turn: its job left the queue. There is less room now, and its tenant has more.
    pub(crate) fn took(&mut self, state: &State, now: Now, turn: &Turn) {
        for tenant in std::mem::take(&mut self.known) {
            if let Some(group) = self.groups.get_mut(&tenant) {
                group.fits = None;
            }
            self.rank(state, &tenant);
        }
        if let Some(group) = self.groups.get_mut(&turn.tenant) {
            group.classes.pop_first();
        }
        self.rank(state, &turn.tenant);
        self.join(state, now, turn.class);
        self.stand_anew(state, now, turn);
        // The next in line of a kind in strict order may be of another class, which was not looked at or was behind.
        let kind = state.jobs.get(&turn.job).map(|entry| &entry.job.kind);
        if let Some((_, class)) = kind.and_then(|kind| state.first_in_line(kind)) {
            self.join(state, now, class);
        }
    }

    /// A turn may have closed its key to the heads of other classes. Each stands with its next job from now on, which may
    /// have waited for longer than the head had, and be due before others.
    fn stand_anew(&mut self, state: &State, now: Now, turn: &Turn) {
        let scope = state.jobs.get(&turn.job).and_then(|entry| scope_of(&entry.job));
        let Some(scope) = scope.filter(|scope| !state.is_key_open(scope)) else { return };
        let Some(key) = state.key_uses.get(&scope).filter(|key| !key.classes.is_empty()) else { return };
        let Some(group) = self.groups.get_mut(&turn.tenant) else { return };
        let has_key = |(_, id): &(Standing, ClassId)| *id != turn.class && key.classes.contains(id);
        let stood: Vec<ClassId> = group.classes.extract_if(.., has_key).map(|(_, id)| id).collect();
        self.rank(state, &turn.tenant);
        stood.into_iter().for_each(|id| self.join(state, now, id));
    }

    /// A tenant stands where it stands now.
    fn rank(&mut self, state: &State, tenant: &Tenant) {
        let Some(group) = self.groups.get_mut(tenant) else { return };
        let rank = group.classes.first().map(|(standing, id)| {
            let class = state.classes.get(*id).filter(|_| group.fits.is_some());
            let exact = class.map(|class| state.tenants.share_with(tenant, &class.key.needs));
            let least =
                || state.tenants.share_with(tenant, &Needs::default()).max(group.least.unwrap_or_default());
            TenantStanding::of(standing, exact.unwrap_or_else(least))
        });
        if rank != group.rank {
            if let Some(old) = std::mem::replace(&mut group.rank, rank) {
                self.ranks.remove(&(old, tenant.clone()));
            }
            self.ranks.extend(rank.map(|rank| (rank, tenant.clone())));
        }
    }
}

impl State {
    /// For how long a job has waited since it became queued. Under this leader by the clock that nobody sets; before
    /// it, by the wall clock.
    pub(crate) fn waited(&self, entry: &JobEntry, now: Now) -> Duration {
        self.waited_since(entry.since, now)
    }

    fn waited_since(&self, since: Now, now: Now) -> Duration {
        let loaded = since.mono <= self.began.mono;
        let before = if loaded { self.began.wall.since(since.wall) } else { Duration::ZERO };
        before.saturating_add(now.mono.since(since.mono))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_rise_one_by_one_and_stop_at_high() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        for (priority, bands) in [
            (100, [Band::Critical; 4]),
            (50, [Band::Critical; 4]),
            (49, [Band::High; 4]),
            (20, [Band::High; 4]),
            (19, [Band::Normal, Band::High, Band::High, Band::High]),
            (-19, [Band::Normal, Band::High, Band::High, Band::High]),
            (-20, [Band::Low, Band::Normal, Band::High, Band::High]),
            (-100, [Band::Low, Band::Normal, Band::High, Band::High]),
        ] {
            let at = [0, 15, 30, 6000].map(|waited| Band::of(priority, minutes(waited)));
            assert_eq!(at, bands, "priority {priority}");
            assert_eq!(Band::of(at[0].least(), Duration::ZERO), at[0], "priority {priority}");
            assert!(at[0].least() <= priority);
            assert_eq!(Band::of(priority, minutes(15) - Duration::from_micros(1)), bands[0]);
        }
    }
}

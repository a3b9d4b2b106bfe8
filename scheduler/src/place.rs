//! Placement: which class next, on which node. Two directions of decision share one fit function (`place/fit.rs`):
//!
//! * *class-driven*: the class was not tried yet, or one of the fleet slots that it failed for gained;
//! * *node-driven*: no node had room when the class was last tried, and it may fit on one that gained since, or hear
//!   from it why not.
//!
//! Either finds out, by the index (`place/index.rs`), which classes are worth a look; all of them stand in one line
//! (`place/order.rs`), and whoever's turn it is is held against the fleet and then against any node that the index
//! offers. A class that meets a dry fleet slot fails for the fleet from then on, and will look at every node once that
//! slot gained. There are no wait lists by reason: a class that failed for a node slot, then for a dry fleet slot, would
//! stand on the wrong one, and its wake-up would be lost.

pub(crate) mod backoff;
pub(crate) mod classes;
pub(crate) mod earmarks;
pub(crate) mod fifo;
pub(crate) mod fit;
pub(crate) mod hold;
pub(crate) mod index;
pub(crate) mod keyed;
pub(crate) mod order;
pub(crate) mod preference;
pub(crate) mod queue;
pub(crate) mod reacquire;
pub(crate) mod score;
pub(crate) mod timeline;

use std::{collections::BTreeSet, time::Duration};

pub use self::classes::ClassId;
use crate::{
    deferral::Deferral,
    effect::{Grant, Message, Resume},
    event::Event,
    ids::{FencingToken, JobId, NodeName, SlotName},
    job::{Job, JobState, Wait},
    kind::KindPolicy,
    lease::{Lease, Stage, first_lease, start_window},
    place::{
        classes::{Class, Failed},
        fit::{Looked, Nearness},
        index::{Index, News},
        order::{Line, Tried},
        timeline::merge,
    },
    slots::{Count, Reservation, Scope},
    state::{JobEntry, Stand, State},
    step::Step,
    time::Now,
};

/// A new leader calls nothing impossible before this.
pub(crate) const WARM_UP: Duration = Duration::from_secs(30);

/// Class timelines that changed are saved this often.
pub(crate) const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Places what can be placed. True: there may be more, since the budget of the tick was spent or what was granted brought
/// back what had been looked at.
pub(crate) fn place(step: &mut Step<'_>) -> bool {
    step.state.follow();
    let news = step.state.take_news();
    let mut line = candidates(step.state, step.now, &news);
    let is_vain = |state: &State, class: &Class| is_vain(state, class, &news);
    let mut budget = step.state.limits.placements_per_tick;
    let mut dry = BTreeSet::new();
    while let Some(turn) =
        line.next(step, |step, class, job| fits(step, class, job, &news, &mut dry), is_vain)
    {
        if budget == 0 {
            step.state.put_back(news);
            return true;
        }
        // Whatever its timer did: what is stale does not start. Nor does what is to end with its workflow.
        if !step.due_stale(turn.job) && !step.end_doomed(turn.job) {
            grant(step, turn.job, &turn.node);
        }
        budget -= 1;
        step.state.follow();
        if step.state.earmarks.has_news() {
            // What was kept for it elsewhere is free, perhaps for one that was looked at already.
            step.state.put_back(news);
            return true;
        }
        line.took(step.state, step.now, &turn);
    }
    // A key that a grant took, or a head that it changed, may have brought a class back that was looked at already.
    step.state.index.has_untried()
}

/// Where the head of a class fits; if nowhere, that is noted.
fn fits(step: &mut Step<'_>, class: ClassId, job: JobId, news: &News, dry: &mut BTreeSet<SlotName>) -> Tried {
    let Looked { found: choice, looked } = choose(step.state, step.now, class, job, news, dry);
    step.looked += looked;
    match choice {
        Choice::Place(node) => return Tried::Fits(node),
        Choice::Defer(reason) => {
            if let Deferral::SlotBusy { slot, node: None, .. } = &reason {
                dry.insert(slot.clone());
            }
            step.emit(Event::Deferred { class, job, reason });
            step.state.follow();
        }
        Choice::Leave if looked == 0 => return Tried::InVain,
        Choice::Leave => {}
    }
    Tried::FitsNowhere
}

/// All classes that are worth a look.
fn candidates(state: &State, now: Now, news: &News) -> Line {
    let worth = state.index.worth_a_look(&state.nodes, news);
    let worth = worth.into_iter().filter_map(|handle| state.classes.at(handle)).filter(|(_, class)| {
        // Since it failed for the fleet, none of its slots gained: another tick of the same news has tried it.
        let tried = |failed: &Failed| failed.reason.is_of_fleet() && failed.gains == gains(state, class);
        !class.failed.as_ref().is_some_and(tried)
    });
    Line::of(state, now, worth)
}

/// The sum of the gain epochs of the fleet slots of a class.
fn gains(state: &State, class: &Class) -> u64 {
    class.fleet.iter().map(|(slot, _)| state.gains.get(slot).copied().unwrap_or(0)).sum()
}

enum Choice {
    /// The head fits there.
    Place(NodeName),
    /// It fits nowhere, for this reason.
    Defer(Deferral),
    /// It fits nowhere, and the reason known is still the reason.
    Leave,
}

/// What becomes of the head of a class. `dry` are the fleet slots that a class before it in this tick found too few
/// units of: whoever failed for the same needs not be told again.
fn choose(
    state: &State,
    now: Now,
    id: ClassId,
    head: JobId,
    news: &News,
    dry: &BTreeSet<SlotName>,
) -> Looked<Choice> {
    let leave = |looked| Looked { found: Choice::Leave, looked };
    let Some(class) = state.classes.get(id) else { return leave(0) };
    let known = class.failed.as_ref().map(|failed| &failed.reason);
    if let Some(Deferral::SlotBusy { slot, node: None, used, capacity }) = known
        && dry.contains(slot)
        && state.fleet.count(slot) == (Count { capacity: *capacity, used: *used })
    {
        return leave(0);
    }
    let for_nodes = known.filter(|reason| !reason.is_of_fleet());
    let may_fit = may_fit(state, class, news);
    let is_told = is_told(class, news);
    if !may_fit && is_vain(state, class, news) {
        return leave(0);
    }
    let asks = state.asks(now, id, class);
    if let Err(reason) = fit::of_fleet(state, now, class, asks) {
        return Looked { found: Choice::Defer(reason), looked: 1 };
    }
    let mut looked = 1;
    if may_fit {
        let Some(entry) = state.jobs.get(&head) else { return leave(looked) };
        let best = fit::best(state, now, id, class, &entry.job, asks);
        looked += best.looked;
        if let Some(node) = best.found {
            return Looked { found: Choice::Place(node), looked };
        }
    }
    let why_not = fit::why_not(state, now, id, class, asks);
    looked += why_not.looked;
    let is_nearer = for_nodes.is_none_or(|known| fit::nearness(&why_not.found) > fit::nearness(known));
    let found = if is_nearer || is_told { Choice::Defer(why_not.found) } else { Choice::Leave };
    Looked { found, looked }
}

/// Why a class failed, if it did for the nodes.
fn for_nodes(class: &Class) -> Option<&Deferral> {
    class.failed.as_ref().map(|failed| &failed.reason).filter(|reason| !reason.is_of_fleet())
}

/// Whether there may be a node for a class: it was not tried on them, or one that gained has room.
fn may_fit(state: &State, class: &Class, news: &News) -> bool {
    for_nodes(class).is_none() || state.index.is_room_on(&state.nodes, class, &news.nodes)
}

/// Whether a node that gained is the one that a class has its reason from.
fn is_told(class: &Class, news: &News) -> bool {
    for_nodes(class).and_then(Deferral::node).is_some_and(|node| news.nodes.contains(node))
}

/// Whether it is in vain to look at a class: what gained is full, and no nearer to a fit than what is known. While nothing
/// more is gained that stays so.
fn is_vain(state: &State, class: &Class, news: &News) -> bool {
    for_nodes(class).is_some_and(|reason| fit::nearness(reason).0 >= Nearness::SlotBusy)
        && !is_told(class, news)
        && !may_fit(state, class, news)
}

fn grant(step: &mut Step<'_>, id: JobId, node: &NodeName) {
    let Some(entry) = step.state.jobs.get(&id) else { return };
    let Some(kind) = step.state.kinds.get(&entry.job.kind) else { return };
    let Stand::Class(class_id) = entry.stand else { return };
    let Some(class) = step.state.classes.get(class_id) else { return };
    let (job, policy) = (&entry.job, &kind.kind.policy);
    let lease = Lease {
        token: step.state.next_token(),
        job: id,
        kind: job.kind.clone(),
        tenant: job.tenant.clone(),
        concurrency_key: job.concurrency_key.clone(),
        node: node.clone(),
        length: policy.lease,
        reservation: Reservation { node: class.node.clone(), fleet: class.fleet.clone() },
        attempt: job.attempt(),
        round: job.round,
        granted_at: step.now.wall,
        stage: Stage::Granted,
        parked: None,
        orphaned: false,
    };
    let waits = step.state.waits(id, step.now).unwrap_or_default();
    let inputs = step.state.inputs_of(job).map(|inputs| u32::try_from(inputs.len()).unwrap_or(u32::MAX));
    let grant = Grant { inputs, ..grant_message(job, policy, &lease, step.now) };
    step.emit(Event::Granted { lease: Box::new(lease), waits });
    earmarks::granted(step, class_id, id, node);
    step.send(node, Message::Grant(Box::new(grant)));
    step.notify(id);
}

fn grant_message(job: &Job, policy: &KindPolicy, lease: &Lease, now: Now) -> Grant {
    let stale_at = job.stale_at.filter(|_| job.may_expire());
    Grant {
        job: job.id,
        token: lease.token,
        kind: job.kind.clone(),
        tenant: job.tenant.clone(),
        attempt: lease.attempt,
        lease: lease.length,
        first_lease: first_lease(lease.length),
        start_window: start_window(lease.length),
        hard_time_limit: hard_time_limit(job, policy),
        soft_time_limit: soft_time_limit(job, policy),
        progress_timeout: policy.progress_timeout,
        again: job.token != FencingToken::NONE,
        stale_in: stale_at.map(|at| at.since(now.wall)),
        slots: lease.reservation.node.clone(),
        idempotency_key: job.idempotency_key(),
        parent: job.parent,
        trace: job.trace.clone(),
        resume: job.detached.as_ref().map(|detached| {
            let children = detached.wait.children.clone();
            Box::new(Resume { token: detached.token, has_state: detached.has_state, children })
        }),
        inputs: None,
    }
}

/// The job's own limit may only shorten its kind's.
pub(crate) fn hard_time_limit(job: &Job, policy: &KindPolicy) -> Duration {
    job.hard_time_limit.map_or(policy.hard_time_limit, |own| own.min(policy.hard_time_limit))
}

/// The job's own soft limit may only shorten its kind's. One that the hard limit would forestall is none.
pub(crate) fn soft_time_limit(job: &Job, policy: &KindPolicy) -> Option<Duration> {
    let soft = job.soft_time_limit.into_iter().chain(policy.soft_time_limit).min();
    soft.filter(|soft| *soft < hard_time_limit(job, policy))
}

/// Remembers that a class failed: for the skip, and in its timeline.
pub(crate) fn note_failure(state: &mut State, id: ClassId, reason: &Deferral, now: Now) {
    let Some(gains) = state.classes.get(id).map(|class| gains(state, class)) else { return };
    if let Some(class) = state.classes.get_mut(id) {
        class.failed = Some(Failed { reason: reason.clone(), gains });
        class.timeline.deferred(now, reason);
    }
    state.blocked(id, now);
}

impl State {
    /// The index takes over what changed. Whoever asks it has called this.
    pub(crate) fn follow(&mut self) {
        self.index.follow(&mut self.nodes, &mut self.classes);
    }

    /// Slots were declared anew: the index begins anew, too.
    pub(crate) fn index_anew(&mut self) {
        let of_nodes = self.slots.values().filter(|slot| matches!(slot.scope, Scope::Node));
        self.index = Index::new(of_nodes.map(|slot| &slot.name));
        self.nodes.touch_all();
        self.classes.touch_all();
    }

    fn take_news(&mut self) -> News {
        News { nodes: std::mem::take(&mut self.gained), fleet: std::mem::take(&mut self.gained_fleet) }
    }

    fn put_back(&mut self, news: News) {
        self.gained.extend(news.nodes);
        self.gained_fleet.extend(news.fleet);
    }

    /// What a waiting job waited for, before and up to now; none if it does not wait.
    pub(crate) fn waits(&self, id: JobId, now: Now) -> Option<Vec<Wait>> {
        let entry = self.jobs.get(&id)?;
        let lately = match entry.stand {
            Stand::Class(class) => self.classes.get(class)?.timeline.waits(&entry.joined, now),
            Stand::NotReaped | Stand::Broken => vec![self.hold_wait(entry, now)?],
            Stand::Nowhere if matches!(entry.job.state, JobState::Waiting { .. }) => {
                let open = self.child_wait(id)?.unfinished();
                let children = u32::try_from(open).unwrap_or(u32::MAX);
                vec![one_wait(&Deferral::WaitingChildren { children }, entry, now)]
            }
            Stand::Nowhere if matches!(entry.job.state, JobState::Blocked { .. }) => {
                vec![self.hold_wait(entry, now)?]
            }
            Stand::Nowhere if entry.job.state.is_waiting() => {
                vec![one_wait(&entry.waiting_for_time()?, entry, now)]
            }
            Stand::Nowhere => return None,
        };
        Some(merge(entry.job.waits.clone(), lately))
    }

    fn hold_wait(&self, entry: &JobEntry, now: Now) -> Option<Wait> {
        Some(one_wait(&self.hold_reason(entry)?, entry, now))
    }
}

fn one_wait(reason: &Deferral, entry: &JobEntry, now: Now) -> Wait {
    Wait {
        reason: reason.name().into(),
        message: reason.subject().into(),
        count: 1,
        duration: now.mono.since(entry.since.mono),
    }
}

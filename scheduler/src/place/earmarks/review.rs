//! Whether the earmarks that there are still hold. Looked at as a whole before each placement and not at each event, so
//! that no way to end a wait can be forgotten. There are few of them: at most one for every twentieth node.

use std::{collections::BTreeSet, time::Duration};

use super::{Dropped, Earmark, Holder};
use crate::{
    event::Event,
    ids::{JobId, NodeName},
    place::{ClassId, fit},
    state::{Stand, State},
    step::Step,
    time::Now,
};

/// An earmark that is not filled so long after its time is given up. Whoever still holds its units runs beyond its hard
/// limit: its tree cannot be killed, or its node says less than it should.
pub(crate) const LATE: Duration = Duration::from_secs(60);

/// Drops what does not hold any more. Gives the classes that may want another one.
pub(crate) fn review(step: &mut Step<'_>) -> BTreeSet<ClassId> {
    let (state, now) = (&*step.state, step.now);
    let over = state.earmarks.iter().filter_map(|earmark| Some(drop_of(earmark, why(state, now, earmark)?)));
    let over: Vec<Event> = over.collect();
    let mut classes = BTreeSet::new();
    for event in over {
        if let Event::EarmarkDropped { holder: Holder::Class(class), .. } = event {
            classes.insert(class);
        }
        step.emit(event);
    }
    classes
}

pub(super) fn drop_of(earmark: &Earmark, why: Dropped) -> Event {
    let Earmark { holder, job, node, .. } = earmark;
    Event::EarmarkDropped { holder: *holder, job: *job, node: node.clone(), why }
}

/// Why an earmark holds no more; none: it does. That of a lease is its owner's to drop.
fn why(state: &State, now: Now, earmark: &Earmark) -> Option<Dropped> {
    let Holder::Class(id) = earmark.holder else { return None };
    let waits = state.jobs.get(&earmark.job).filter(|entry| entry.stand == Stand::Class(id));
    let (Some(_), Some(class)) = (waits, state.classes.get(id)) else { return Some(Dropped::Left) };
    let same = class.node == earmark.units.node && class.fleet == earmark.units.fleet;
    if !same || fit::may_not_start(state, now, class).is_some() || fit::beyond_fleet(state, class) {
        return Some(Dropped::Changed);
    }
    let node = state.nodes.get(&earmark.node);
    if node.is_none_or(|node| fit::open(state, now, id, class, node).is_err()) {
        return Some(Dropped::Node);
    }
    (now.mono > earmark.by.after(LATE)).then_some(Dropped::Late)
}

/// A job of a class was granted on a node: an earmark of the class may be used up, or needed no more.
pub(crate) fn granted(step: &mut Step<'_>, id: ClassId, job: JobId, node: &NodeName) {
    let Some(earmark) = step.state.earmarks.of(Holder::Class(id)) else { return };
    let why = if earmark.node == *node {
        Dropped::Used
    } else if earmark.job == job {
        Dropped::StartedElsewhere
    } else {
        return; // Another of the class had room elsewhere; the head that it passed by waits on.
    };
    let event = drop_of(earmark, why);
    step.emit(event);
}

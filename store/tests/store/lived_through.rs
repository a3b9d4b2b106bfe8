//! Loading equals having lived through it: a real scheduler under random commands, its turns committed, and what is
//! loaded compared with what it remembers. The views must be empty at every comparison.

mod crons;
mod webhooks;
mod world;

use std::collections::BTreeSet;

use tenure_scheduler::{Durable, Epoch, Limits, Now, State, Wall};
use tenure_store::{
    Journal, journal,
    memory::{Fault, Memory},
};

use self::world::{World, come_and_go};
use crate::{
    random::{Random, is_replay, seeds},
    stores::{TestStore, assert_same, bytes_for},
};

const TURNS: u64 = 300;

pub(crate) async fn loading_equals_having_lived_through_it<S: TestStore>() {
    let mut seen = BTreeSet::new();
    for seed in seeds(7) {
        let mut random = Random::new(seed);
        let mut store = S::new().await;
        let mut world = World::new(store.journal().takeover(Epoch(0)).await.unwrap());
        for turn in 0..TURNS {
            let context = format!("seed {seed}, turn {turn}");
            let reader = store.reader().clone();
            let (changes, beside) = world.turn(&mut random, store.journal(), &reader).await;
            let commit = store.journal().commit(world.state.epoch(), &changes, &beside).await;
            commit.unwrap_or_else(|error| panic!("{context}: {error:?}\n{changes:#?}"));
            world.committed(&mut random);
            // A term of a leader lasts some turns.
            if random.chance(15) {
                let taken = store.journal().takeover(Epoch(0)).await.unwrap();
                compare(&taken.durable, &world.state.durable(), &context);
                assert_eq!(store.reader().violations().await.unwrap(), [], "{context}");
                world.new_leader(taken);
                assert_eq!(world.state.check_invariants(), [], "{context}");
            }
        }
        let taken = store.journal().takeover(Epoch(0)).await.unwrap();
        compare(&taken.durable, &world.state.durable(), &format!("seed {seed}, at the end"));
        assert_eq!(store.reader().violations().await.unwrap(), [], "seed {seed}, at the end");
        seen.extend(world.seen);
    }
    let lively = [
        "enqueued", "granted", "ended", "loss", "requeued", "deleted", "result", "gone", "unreaped",
        "orphaned", "node", "kind", "wait", "parked", "unparked", "cron", "webhook", "delivery",
    ];
    for name in lively {
        assert!(is_replay() || seen.contains(name), "no {name} in {seen:?}");
    }
}

/// What comes and goes within one turn has no row to delete; with rows it is deleted.
pub(crate) async fn what_comes_and_goes_in_one_turn_leaves_nothing<S: TestStore>() {
    let mut random = Random::new(0);
    let mut store = S::new().await;
    let taken = store.journal().takeover(Epoch(0)).await.unwrap();
    let now = Now { wall: Wall(1_780_000_000_000_000), ..Now::default() };
    let mut state = load(taken, now);
    // Whole, then with the coming and the going in turns of their own.
    let commands = come_and_go(&mut random);
    let (coming, going) = commands.split_at(2);
    for turn in [&commands[..], coming, going] {
        for command in turn {
            state.apply(now, command.clone()).unwrap_or_else(|refusal| panic!("{command:?}: {refusal}"));
        }
        let changes = state.take_changes();
        let commit = store.journal().commit(state.epoch(), &changes, &bytes_for(&changes)).await;
        commit.unwrap_or_else(|error| panic!("{error:?}\n{changes:#?}"));
        state.committed();
    }
    let left = store.journal().takeover(Epoch(0)).await.unwrap().durable;
    assert!(left.nodes.is_empty() && left.kinds.is_empty() && left.slots.is_empty(), "{left:?}");
}

/// After a commit of unknown outcome the load is the turn before or the turn after, and life goes on.
#[tokio::test]
async fn an_unknown_outcome_is_the_turn_before_or_after() {
    let mut applied = [0, 0];
    for seed in seeds(10) {
        let mut random = Random::new(seed);
        let store = Memory::new();
        let (mut journal, reader) = (store.journal(), store.reader());
        let mut world = World::new(journal.takeover(Epoch(0)).await.unwrap());
        for turn in 0..TURNS {
            let context = format!("seed {seed}, turn {turn}");
            let before = world.state.durable();
            let (changes, beside) = world.turn(&mut random, &mut journal, &reader).await;
            let fault = match random.below(20) {
                0 => Some(Fault::UnknownApplied),
                1 => Some(Fault::UnknownLost),
                _ => None,
            };
            fault.into_iter().for_each(|fault| store.fail_next_commit(fault));
            let commit = journal.commit(world.state.epoch(), &changes, &beside).await;
            let Some(fault) = fault else {
                commit.unwrap();
                world.committed(&mut random);
                continue;
            };
            assert!(matches!(commit, Err(journal::Error::Unavailable { .. })), "{context}: {commit:?}");
            let expected = if fault == Fault::UnknownApplied { world.state.durable() } else { before };
            applied[usize::from(fault == Fault::UnknownApplied)] += 1;
            let taken = journal.takeover(Epoch(0)).await.unwrap();
            compare(&taken.durable, &expected, &context);
            world.new_leader(taken);
            assert_eq!(world.state.check_invariants(), [], "{context}");
        }
    }
    assert!(is_replay() || applied.iter().all(|count| *count > 20), "{applied:?}");
}

/// Timelines lag by up to a second and are not compared.
fn compare(loaded: &Durable, lived: &Durable, context: &str) {
    let without = |durable: &Durable| Durable { classes: [].into(), ..durable.clone() };
    assert_same(&without(loaded), &without(lived), context);
}

/// A state from what a takeover gave.
fn load(taken: journal::Taken, now: Now) -> State {
    State::load(taken.epoch, Limits::default(), taken.durable, now)
}

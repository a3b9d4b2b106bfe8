//! Webhooks of the histories: one that hears of everything, one that the fleet file has now and then, and a deliverer that
//! is not always heard.

use std::collections::{BTreeMap, BTreeSet};

use tenure_scheduler::{
    Command, DeliveryFailure, Ending, KindName, Now, State, Tried, WebhookName, WebhookPolicy, Webhooks,
};

use crate::random::Random;

/// By a chance of their own: what else happens stays as it was without them.
pub(super) fn declared(seed: u64, kinds: [&str; 3]) -> Webhooks {
    let random = &mut Random::new(seed);
    let mut policy = |events: &[Ending], kind: Option<&str>| WebhookPolicy {
        url: format!("https://receiver.test/{}", random.below(2)).into(),
        secret: "ci".into(),
        events: events.iter().copied().collect(),
        kinds: kind.map(|kind| [KindName::new(kind)].into()),
        workflows: kind.is_none(),
    };
    let all = [("all", policy(&Ending::ALL, None)), ("some", policy(&[Ending::Dead], Some(kinds[0])))];
    let mut all: BTreeMap<_, _> = all.map(|(name, policy)| (WebhookName::new(name), policy)).into();
    if seed.is_multiple_of(2) {
        all.remove(&WebhookName::new("some"));
    }
    all
}

/// What became of some of what is due, and what operators want.
pub(super) fn operate(state: &State, now: Now) -> Vec<Command> {
    let random = &mut Random::new(now.wall.0.unsigned_abs() ^ 0x77);
    if !random.chance(30) {
        return Vec::new();
    }
    let due = state.due_deliveries(now.wall, &BTreeSet::new(), 3);
    let mut tried = Vec::new();
    for due in due {
        let failure = random.chance(60).then(|| DeliveryFailure {
            error: "status 500".into(),
            retry_after: None,
            gone: random.chance(10),
        });
        tried.push(Tried { delivery: due.delivery.id, failure });
    }
    let known: Vec<_> = state.deliveries(None, None).map(|delivery| delivery.id).collect();
    let wanted = match random.below(20) {
        0 => random.pick(&known).map(|delivery| Command::Redeliver { delivery: *delivery }),
        1 | 2 => Some(Command::ResumeWebhook { webhook: WebhookName::new("all") }),
        3 => Some(Command::TestWebhook { webhook: WebhookName::new("some") }),
        _ => None,
    };
    [Command::SettleDeliveries { tried }].into_iter().chain(wanted).collect()
}

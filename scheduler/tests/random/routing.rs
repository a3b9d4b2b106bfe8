//! Labels, and what jobs ask of them. Once healed, some node meets every selector that is made here.

use tenure_scheduler::{Requirement, Selector};

use crate::support::{Agent, Rng};

/// The labels of a node, at random.
pub(super) fn offer(rng: &mut Rng, agent: &mut Agent) {
    let zone = if rng.percent(50) { "east" } else { "west" };
    agent.labels = [("zone".to_owned(), zone.to_owned())].into();
    if let Some(gpu) = rng.pick(&["", "a100", "h100"]).filter(|gpu| !gpu.is_empty()) {
        agent.labels.insert("gpu".into(), gpu.into());
    }
    // What its host is counts, not this.
    agent.labels.insert("os".into(), "macos".into());
    agent.host.os = rng.pick(&["", "linux", "macos"]).unwrap().into();
}

/// What a job asks for, at random.
pub(super) fn selector(rng: &mut Rng) -> Selector {
    let zone = match rng.below(4) {
        0 => Some(Requirement::equals("zone", "east")),
        1 => Some(Requirement::one_of("zone", ["east", "north"])),
        2 => Some(Requirement::none_of("zone", ["west"])),
        _ => None,
    };
    let gpu = match rng.below(6) {
        0 => Some(Requirement::has("gpu", true)),
        1 => Some(Requirement::has("gpu", false)),
        2 => Some(Requirement::one_of("gpu", ["a100", "l4"])),
        3 => Some(Requirement::none_of("gpu", ["h100", "l4"])),
        _ => None,
    };
    zone.into_iter().chain(gpu).collect()
}

/// What a kind asks for, in one fleet file and another.
pub(super) fn kinds(number: u32) -> Selector {
    match number % 3 {
        0 => Selector::default(),
        1 => Selector::new([Requirement::equals("os", "linux")]),
        _ => Selector::new([Requirement::none_of("os", ["macos", "windows"])]),
    }
}

/// The labels of a healed node: every other one has a gpu.
pub(super) fn heal(n: u64, agent: &mut Agent) {
    agent.labels = [("zone".to_owned(), "east".to_owned())].into();
    if n.is_multiple_of(2) {
        agent.labels.insert("gpu".into(), "a100".into());
    }
    agent.host.os = "linux".into();
}

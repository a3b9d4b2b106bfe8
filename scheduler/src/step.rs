//! SKELETON.
use crate::{Effect, Event};
/// What a command did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Applied {
    /// What happened.
    pub events: Vec<Event>,
    /// What the outside is to be told.
    pub effects: Vec<Effect>,
    /// Placement stopped at its budget: tick again soon.
    pub more: bool,
}

//! SKELETON.
/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// What it is about.
    pub subject: String,
    /// What is wrong.
    pub detail: String,
}

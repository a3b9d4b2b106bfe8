//! Ids of children.

use uuid::Uuid;

/// The id of a child that a step of a job enqueues: the same for each attempt, so that one that comes after a failure or a
/// loss finds the children that are there already. `index` counts the children of the step, from 0.
///
/// It is a UUID v7 with the time of its parent, and the first bytes of SHA-256 over the parent's id with hyphens, the step
/// and the index, a newline between them.
///
/// ```
/// let parent = "01900000-0000-7000-8000-000000000001".parse().unwrap();
/// let id = tenure_client::child_id(parent, "fetch", 0);
/// assert_eq!(id, tenure_client::child_id(parent, "fetch", 0));
/// assert_ne!(id, tenure_client::child_id(parent, "fetch", 1));
/// assert_eq!(id.get_version_num(), 7);
/// ```
#[must_use]
pub fn child_id(parent: Uuid, step: &str, index: u32) -> Uuid {
    const TIME: u128 = !0 << 80;
    const VERSION: u128 = 7 << 76;
    const VARIANT: u128 = 0b10 << 62;
    const HASHED: u128 = !(TIME | 0xf << 76 | 0b11 << 62);
    let digest = ring::digest::digest(
        &ring::digest::SHA256,
        format!("{}\n{step}\n{index}", parent.hyphenated()).as_bytes(),
    );
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    let hashed = u128::from_be_bytes(bytes) & HASHED;
    Uuid::from_u128(parent.as_u128() & TIME | VERSION | VARIANT | hashed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_of_a_step_are_the_same_each_time_and_differ_from_all_others() {
        let parent = Uuid::now_v7();
        let mut seen = BTreeSet::new();
        for step in ["", "a", "b", "a\n1"] {
            for index in 0..500 {
                let id = child_id(parent, step, index);
                assert_eq!(id, child_id(parent, step, index));
                assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
                assert!(seen.insert(id));
            }
        }
        assert!(!seen.contains(&child_id(Uuid::now_v7(), "a", 0)));
    }

    const PROMISED: &str = "01900000-0000-733b-ba59-210411aa96e3";

    #[test]
    fn the_form_is_a_promise_to_other_languages() {
        let parent = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
        assert_eq!(child_id(parent, "fetch", 0).to_string(), PROMISED);
    }
}

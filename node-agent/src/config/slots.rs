//! `[slots]`: how many units a node has of each, or which.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tenure_proto::limits;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Findings, is_name, not_a_name};

/// The most numbers of one slot.
const MOST_INDEXES: usize = 1_000;

/// One slot as it is written: `2`, or `{ indexes = [0, 1] }`.
#[derive(Clone, Debug)]
pub(super) enum SlotFile {
    /// So many units, all alike.
    Units(u32),
    /// Units with numbers.
    Indexed(Vec<u32>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Indexed {
    indexes: Vec<u32>,
}

impl<'de> Deserialize<'de> for SlotFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Either)
    }
}

struct Either;

impl<'de> Visitor<'de> for Either {
    type Value = SlotFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of units, or { indexes = [0, 1] }")
    }

    fn visit_i64<E: Error>(self, units: i64) -> Result<SlotFile, E> {
        let wrong = || E::invalid_value(serde::de::Unexpected::Signed(units), &self);
        u32::try_from(units).map(SlotFile::Units).map_err(|_| wrong())
    }

    fn visit_u64<E: Error>(self, units: u64) -> Result<SlotFile, E> {
        let wrong = || E::invalid_value(serde::de::Unexpected::Unsigned(units), &self);
        u32::try_from(units).map(SlotFile::Units).map_err(|_| wrong())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SlotFile, A::Error> {
        let indexed = Indexed::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(SlotFile::Indexed(indexed.indexes))
    }
}

/// The units of each slot, and the numbers of those whose units have some, in order.
pub(super) type Checked = (BTreeMap<String, u32>, BTreeMap<String, Vec<u32>>);

pub(super) fn check(slots: BTreeMap<String, SlotFile>, found: &mut Findings<'_>) -> Checked {
    let (mut capacity, mut indexes) = (BTreeMap::new(), BTreeMap::new());
    let mut variables = BTreeMap::new();
    for (slot, file) in slots {
        if !is_name(&slot) {
            found.add(&["slots", &slot], &not_a_name(&slot));
        }
        let units = match file {
            SlotFile::Units(units) => units,
            SlotFile::Indexed(all) => {
                let sorted = numbers(&slot, &all, found);
                if let Some(other) = variables.insert(in_a_variable(&slot), slot.clone()) {
                    found.add(
                        &["slots", &slot],
                        &format!("is told to commands by the same variable as slot {other}"),
                    );
                }
                let units = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
                indexes.insert(slot.clone(), sorted);
                units
            }
        };
        if units > limits::SLOT_UNITS {
            found.add(&["slots", &slot], &format!("must be at most {most}", most = limits::SLOT_UNITS));
        }
        capacity.insert(slot, units);
    }
    (capacity, indexes)
}

fn numbers(slot: &str, all: &[u32], found: &mut Findings<'_>) -> Vec<u32> {
    if all.is_empty() || all.len() > MOST_INDEXES {
        found.add(&["slots", slot], &format!("must have 1 to {MOST_INDEXES} indexes"));
    }
    let sorted: BTreeSet<u32> = all.iter().take(MOST_INDEXES).copied().collect();
    if sorted.len() < all.len().min(MOST_INDEXES) {
        found.add(&["slots", slot], "names an index twice");
    }
    sorted.into_iter().collect()
}

/// A slot's name as a part of the name of a variable: `.` and `-`, which no shell takes there, become `_`.
pub(crate) fn in_a_variable(slot: &str) -> String {
    slot.replace(['.', '-'], "_")
}

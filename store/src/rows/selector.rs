//! Selectors as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_scheduler::{Condition, Requirement, Selector};

/// Label → what it must be. Plain equality is a text, as it always was.
#[derive(Serialize, Deserialize, Default)]
#[serde(transparent)]
pub(super) struct SelectorJson(BTreeMap<String, ConditionJson>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ConditionJson {
    Equals(String),
    In(Vec<String>),
    Exists(bool),
    NotIn { not: Vec<String> },
}

impl From<&Selector> for SelectorJson {
    fn from(selector: &Selector) -> Self {
        let texts = |values: &[Box<str>]| values.iter().map(ToString::to_string).collect();
        let json = |requirement: &Requirement| match (requirement.as_equality(), requirement.condition()) {
            (Some(value), _) => ConditionJson::Equals(value.to_owned()),
            (None, Condition::In(values)) => ConditionJson::In(texts(values)),
            (None, Condition::NotIn(values)) => ConditionJson::NotIn { not: texts(values) },
            (None, Condition::Exists) => ConditionJson::Exists(true),
            (None, Condition::NotExists) => ConditionJson::Exists(false),
        };
        Self(selector.iter().map(|one| (one.label().to_owned(), json(one))).collect())
    }
}

impl From<SelectorJson> for Selector {
    fn from(json: SelectorJson) -> Self {
        let requirement = |(label, condition): (String, ConditionJson)| match condition {
            ConditionJson::Equals(value) => Requirement::equals(label, value),
            ConditionJson::In(values) => Requirement::one_of(label, values),
            ConditionJson::NotIn { not } => Requirement::none_of(label, not),
            ConditionJson::Exists(wanted) => Requirement::has(label, wanted),
        };
        json.0.into_iter().map(requirement).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_equality_is_written_and_read_as_it_always_was() {
        let old = r#"{"os":"linux","zone":"a\"b"}"#;
        let selector = Selector::from(serde_json::from_str::<SelectorJson>(old).unwrap());
        let equalities =
            [("os", "linux"), ("zone", "a\"b")].map(|(label, value)| (label.into(), value.into()));
        assert_eq!(selector, Selector::from(BTreeMap::from(equalities)));
        assert_eq!(serde_json::to_string(&SelectorJson::from(&selector)).unwrap(), old);
    }

    #[test]
    fn every_condition_comes_back_as_it_was() {
        let selector = Selector::new([
            Requirement::one_of("a", ["y", "x", ""]),
            Requirement::none_of("b", ["x"]),
            Requirement::none_of("c", ["x", "y"]),
            Requirement::has("d", true),
            Requirement::has("e", false),
            Requirement::equals("f", ""),
        ]);
        let text = serde_json::to_string(&SelectorJson::from(&selector)).unwrap();
        assert_eq!(
            text,
            r#"{"a":["","x","y"],"b":{"not":["x"]},"c":{"not":["x","y"]},"d":true,"e":false,"f":""}"#
        );
        assert_eq!(Selector::from(serde_json::from_str::<SelectorJson>(&text).unwrap()), selector);
    }
}

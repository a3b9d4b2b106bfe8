//! Selectors as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_scheduler::{Condition, Job, Preferences, Requirement, Selector};

/// What a job asks of labels, with what it prefers under a name that no label has: it is never changed, nor looked for
/// by SQL, and so needs no column of its own.
#[derive(Serialize, Deserialize)]
pub(super) struct RoutingJson {
    #[serde(flatten)]
    selector: SelectorJson,
    #[serde(rename = "~prefer", default, skip_serializing_if = "Vec::is_empty")]
    prefer: PreferencesJson,
}

impl From<&Job> for RoutingJson {
    fn from(job: &Job) -> Self {
        Self { selector: (&job.selector).into(), prefer: preferences_json(&job.prefer) }
    }
}

impl From<RoutingJson> for (Selector, Preferences) {
    fn from(json: RoutingJson) -> Self {
        (json.selector.into(), preferences(json.prefer))
    }
}

/// What is preferred, in its order: one label each.
pub(super) type PreferencesJson = Vec<SelectorJson>;

pub(super) fn preferences_json(preferences: &Preferences) -> PreferencesJson {
    preferences.iter().map(|one| SelectorJson::from(&Selector::new([one.clone()]))).collect()
}

pub(super) fn preferences(json: PreferencesJson) -> Preferences {
    Preferences::new(json.into_iter().flat_map(|one| Selector::from(one).iter().cloned().collect::<Vec<_>>()))
}

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
    fn what_is_preferred_stands_beside_and_keeps_its_order() {
        let prefer = Preferences::new([Requirement::has("z", true), Requirement::none_of("a", ["x"])]);
        let json = |prefer: &Preferences| RoutingJson {
            selector: (&Selector::new([Requirement::equals("os", "linux")])).into(),
            prefer: preferences_json(prefer),
        };
        let text = serde_json::to_string(&json(&prefer)).unwrap();
        assert_eq!(text, r#"{"os":"linux","~prefer":[{"z":true},{"a":{"not":["x"]}}]}"#);
        let (selector, read): (Selector, Preferences) =
            serde_json::from_str::<RoutingJson>(&text).unwrap().into();
        assert_eq!((selector.to_string().as_str(), &read), ("os=linux", &prefer));
        let plain = serde_json::to_string(&json(&Preferences::default())).unwrap();
        assert_eq!(plain, r#"{"os":"linux"}"#);
        let (_, none): (Selector, Preferences) = serde_json::from_str::<RoutingJson>(&plain).unwrap().into();
        assert!(none.is_empty());
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

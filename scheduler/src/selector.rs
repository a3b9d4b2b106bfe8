//! Selectors: what a node's labels must be. Whether they are is decided here and nowhere else.
//!
//! The labels of a node are those of its node file, and what its host is: see [`Node::label`].

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::node::Node;

/// What one label must be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    label: Arc<str>,
    condition: Condition,
}

/// What must hold of a label. Values are sorted, each named once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// The node has it with one of these values. With one value it is plain equality; with none nothing meets it.
    In(Arc<[Box<str>]>),
    /// The node has it with none of these values, or does not have it.
    NotIn(Arc<[Box<str>]>),
    /// The node has it, whatever its value.
    Exists,
    /// The node does not have it.
    NotExists,
}

impl Requirement {
    /// The label has this value.
    pub fn equals(label: impl Into<Arc<str>>, value: impl Into<Box<str>>) -> Self {
        Self { label: label.into(), condition: Condition::In([value.into()].into()) }
    }

    /// The label has one of these values.
    pub fn one_of<V: Into<Box<str>>>(
        label: impl Into<Arc<str>>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        Self { label: label.into(), condition: Condition::In(sorted(values)) }
    }

    /// The label has none of these values; a node without it will do.
    pub fn none_of<V: Into<Box<str>>>(
        label: impl Into<Arc<str>>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        Self { label: label.into(), condition: Condition::NotIn(sorted(values)) }
    }

    /// The label is there, or is not.
    pub fn has(label: impl Into<Arc<str>>, wanted: bool) -> Self {
        let condition = if wanted { Condition::Exists } else { Condition::NotExists };
        Self { label: label.into(), condition }
    }

    /// The label.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What must hold of it.
    #[must_use]
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// The value, if it is plain equality.
    #[must_use]
    pub fn as_equality(&self) -> Option<&str> {
        match &self.condition {
            Condition::In(values) => match &**values {
                [value] => Some(value),
                _ => None,
            },
            Condition::NotIn(_) | Condition::Exists | Condition::NotExists => None,
        }
    }

    /// Whether a node with these labels meets it.
    #[must_use]
    pub fn is_met_by(&self, node: &Node) -> bool {
        let value = node.label(&self.label);
        let is_one_of =
            |values: &[Box<str>]| value.is_some_and(|value| values.iter().any(|one| **one == *value));
        match &self.condition {
            Condition::In(values) => is_one_of(values),
            Condition::NotIn(values) => !is_one_of(values),
            Condition::Exists => value.is_some(),
            Condition::NotExists => value.is_none(),
        }
    }
}

fn sorted<V: Into<Box<str>>>(values: impl IntoIterator<Item = V>) -> Arc<[Box<str>]> {
    let mut all: Vec<Box<str>> = values.into_iter().map(Into::into).collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

/// `os=linux`, `gpu in (a100, h100)`, `gpu!=a100`, `gpu not in (a100, h100)`, `gpu`, `!gpu`. The grammar that producers
/// write is this one, so that every text can be given back.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = &self.label;
        match &self.condition {
            Condition::Exists => f.write_str(label),
            Condition::NotExists => write!(f, "!{label}"),
            Condition::In(values) => match &**values {
                [value] => write!(f, "{label}={}", Quoted(value, false)),
                values => write!(f, "{label} in ({})", List(values)),
            },
            Condition::NotIn(values) => match &**values {
                [value] => write!(f, "{label}!={}", Quoted(value, false)),
                values => write!(f, "{label} not in ({})", List(values)),
            },
        }
    }
}

struct List<'a>(&'a [Box<str>]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, value) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, Quoted(value, true))?;
        }
        Ok(())
    }
}

/// A value, in quotes if it would not be read as one without; an empty one only in a list.
struct Quoted<'a>(&'a str, bool);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value, in_list) = *self;
        let plain =
            !value.contains([',', '(', ')', '"', '\\']) && value.trim() == value && !value.starts_with('=');
        if plain && !(in_list && value.is_empty()) {
            return f.write_str(value);
        }
        f.write_str("\"")?;
        for c in value.chars() {
            write!(f, "{}{c}", if matches!(c, '"' | '\\') { "\\" } else { "" })?;
        }
        f.write_str("\"")
    }
}

/// Requirements, all of which must hold, sorted by label. One source (a kind, a job) names a label once; two of them
/// and-ed may name it twice, and contradict each other: such a selector matches no node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Selector(Arc<[Requirement]>);

impl Selector {
    /// Takes requirements in any order. Empty: any node.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut all: Vec<Requirement> = requirements.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        Self(all.into())
    }

    /// All of these, and all of those.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (_, true) => self.clone(),
            (true, false) => other.clone(),
            (false, false) => Self::new(self.iter().chain(other.iter()).cloned()),
        }
    }

    /// Whether any node will do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// By label.
    pub fn iter(&self) -> impl Iterator<Item = &Requirement> {
        self.0.iter()
    }

    /// Whether a node meets all of them.
    #[must_use]
    pub fn matches(&self, node: &Node) -> bool {
        self.iter().all(|requirement| requirement.is_met_by(node))
    }
}

impl FromIterator<Requirement> for Selector {
    fn from_iter<I: IntoIterator<Item = Requirement>>(all: I) -> Self {
        Self::new(all)
    }
}

/// Plain equalities.
impl From<BTreeMap<String, String>> for Selector {
    fn from(equalities: BTreeMap<String, String>) -> Self {
        equalities.into_iter().map(|(label, value)| Requirement::equals(label, value)).collect()
    }
}

/// Its requirements, with commas between.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.iter().enumerate() {
            write!(f, "{}{requirement}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::NodeName,
        node::{Host, Node},
        time::Wall,
    };

    fn node(labels: &[(&str, &str)], host: Host) -> Node {
        Node {
            name: NodeName::new("n"),
            instance: "i".into(),
            boot_id: "b".into(),
            incarnation: 1,
            stream: 1,
            labels: labels.iter().map(|&(label, value)| (label.into(), value.into())).collect(),
            slots: BTreeMap::new(),
            kinds: Vec::new(),
            host,
            agent_version: "".into(),
            cordoned: false,
            draining: None,
            last_seen: Wall(0),
        }
    }

    #[test]
    fn each_condition_is_met_by_what_it_says() {
        let labelled = node(&[("gpu", "a100"), ("empty", "")], Host::default());
        let bare = node(&[], Host::default());
        for (requirement, text, met, met_by_bare) in [
            (Requirement::equals("gpu", "a100"), "gpu=a100", true, false),
            (Requirement::equals("gpu", "h100"), "gpu=h100", false, false),
            (Requirement::equals("empty", ""), "empty=", true, false),
            (Requirement::one_of("gpu", ["h100", "a100", "h100"]), "gpu in (a100, h100)", true, false),
            (Requirement::one_of("gpu", ["h100", "l4"]), "gpu in (h100, l4)", false, false),
            (Requirement::one_of("empty", ["", "x"]), "empty in (\"\", x)", true, false),
            (Requirement::none_of("gpu", ["a100"]), "gpu!=a100", false, true),
            (Requirement::none_of("gpu", ["h100", "l4"]), "gpu not in (h100, l4)", true, true),
            (Requirement::has("gpu", true), "gpu", true, false),
            (Requirement::has("empty", true), "empty", true, false),
            (Requirement::has("gpu", false), "!gpu", false, true),
        ] {
            assert_eq!(requirement.to_string(), text);
            assert_eq!(requirement.is_met_by(&labelled), met, "{text}");
            assert_eq!(requirement.is_met_by(&bare), met_by_bare, "{text} without the label");
        }
    }

    #[test]
    fn what_the_host_is_no_label_of_its_node_can_change() {
        let host = Host {
            os: "linux".into(),
            arch: "aarch64".into(),
            containment: "full".into(),
            ..Host::default()
        };
        let liar = node(&[("os", "macos"), ("zone", "attic")], host);
        let matches = |label, value| Requirement::equals(label, value).is_met_by(&liar);
        assert!(matches("os", "linux") && matches("arch", "aarch64") && matches("containment", "full"));
        assert!(!matches("os", "macos") && matches("zone", "attic"));
        // An agent that does not say: its label is better than nothing.
        let silent = node(&[("os", "macos")], Host::default());
        assert!(Requirement::equals("os", "macos").is_met_by(&silent));
        assert!(!Requirement::has("arch", true).is_met_by(&silent));
    }

    #[test]
    fn what_is_and_ed_may_contradict_itself_and_then_matches_nothing() {
        let kinds = Selector::new([Requirement::equals("os", "linux"), Requirement::has("gpu", true)]);
        let jobs = Selector::new([Requirement::equals("os", "macos"), Requirement::has("gpu", true)]);
        let both = kinds.and(&jobs);
        assert_eq!(both.to_string(), "gpu,os=linux,os=macos");
        assert!(!both.matches(&node(&[("os", "linux"), ("gpu", "x")], Host::default())));
        assert_eq!(kinds.and(&Selector::default()), kinds);
        assert_eq!(Selector::default().and(&jobs), jobs);
        assert!(Selector::default().matches(&node(&[], Host::default())));
    }

    #[test]
    fn different_selectors_have_different_texts() {
        let odd = Selector::from(BTreeMap::from([("a".to_owned(), "x,b=y".to_owned())]));
        let two = Selector::from(BTreeMap::from([
            ("a".to_owned(), "x".to_owned()),
            ("b".to_owned(), "y".to_owned()),
        ]));
        assert_eq!((odd.to_string(), two.to_string()), ("a=\"x,b=y\"".into(), "a=x,b=y".into()));
        assert_eq!(Requirement::one_of("a", ["b\"c", " d"]).to_string(), "a in (\" d\", \"b\\\"c\")");
    }
}

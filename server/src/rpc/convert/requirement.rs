//! Requirements on node labels, both ways.

use std::collections::BTreeMap;

use tenure_proto::v1;
use tenure_scheduler::{Condition, Requirement, Selector};

use crate::{
    config::{MOST_REQUIREMENTS, MOST_VALUES, label_problem, label_value_problem},
    rpc::check::Checks,
};

/// What a job asks of node labels: plain equalities, and whatever else. A label is named once.
pub(crate) fn selector(
    checks: &mut Checks,
    equalities: &BTreeMap<String, String>,
    requirements: &[v1::Requirement],
) -> Selector {
    let equalities = checks.labels("job.selector", equalities, MOST_REQUIREMENTS);
    let count = requirements.len();
    if count > MOST_REQUIREMENTS {
        let problem = format!("holds {count} entries, at most {MOST_REQUIREMENTS} are allowed");
        checks.refuse("job.requirements", problem);
        return Selector::default();
    }
    let values: usize = requirements.iter().map(|one| one.values.len()).sum();
    let most = requirements.iter().map(|one| one.values.len()).max().unwrap_or(0);
    if values > MOST_VALUES && most <= MOST_VALUES {
        let problem = format!("holds {values} values in all, at most {MOST_VALUES} are allowed");
        checks.refuse("job.requirements", problem);
        return Selector::default();
    }
    let mut named: Vec<&str> = equalities.keys().map(String::as_str).collect();
    let mut taken = Vec::new();
    for (i, one) in requirements.iter().enumerate() {
        let field = format!("job.requirements[{i}]");
        if named.contains(&one.label.as_str()) {
            checks.refuse(format!("{field}.label"), "is named twice, here or in the selector");
        }
        named.push(&one.label);
        taken.extend(requirement(checks, &field, one));
    }
    Selector::from(equalities).and(&taken.into_iter().collect())
}

/// One requirement; none if it is wrong, which is told.
fn requirement(checks: &mut Checks, field: &str, one: &v1::Requirement) -> Option<Requirement> {
    if let Some(problem) = label_problem(&one.label) {
        checks.refuse(format!("{field}.label"), if one.label.is_empty() { "is required" } else { problem });
    }
    let operator: v1::RequirementOperator = checks.choice(&format!("{field}.operator"), one.operator);
    let (takes_values, is_known) = match operator {
        v1::RequirementOperator::In | v1::RequirementOperator::NotIn => (true, true),
        v1::RequirementOperator::Exists | v1::RequirementOperator::NotExists => (false, true),
        v1::RequirementOperator::Unspecified => (true, false),
    };
    if one.operator == 0 {
        checks.refuse(format!("{field}.operator"), "is required");
    }
    let count = one.values.len();
    if count > MOST_VALUES || (is_known && takes_values && count == 0) {
        let problem = format!("holds {count} values, 1 to {MOST_VALUES} are allowed");
        checks.refuse(format!("{field}.values"), problem);
        return None;
    }
    if !takes_values && count > 0 {
        checks.refuse(format!("{field}.operator"), "takes no values, and there are some");
        return None;
    }
    for (i, value) in one.values.iter().enumerate() {
        if let Some(problem) = label_value_problem(value) {
            checks.refuse(format!("{field}.values[{i}]"), problem);
        }
    }
    let (label, values) = (one.label.as_str(), one.values.iter().cloned());
    Some(match operator {
        v1::RequirementOperator::NotIn => Requirement::none_of(label, values),
        v1::RequirementOperator::Exists => Requirement::has(label, true),
        v1::RequirementOperator::NotExists => Requirement::has(label, false),
        v1::RequirementOperator::In | v1::RequirementOperator::Unspecified => {
            Requirement::one_of(label, values)
        }
    })
}

/// A selector for the wire: plain equalities, which old peers know, and the rest. Of two equalities of one label the
/// first is among the former.
pub(crate) fn parts(selector: &Selector) -> (BTreeMap<String, String>, Vec<v1::Requirement>) {
    let (mut equalities, mut rest) = (BTreeMap::new(), Vec::new());
    for one in selector.iter() {
        match one.as_equality() {
            Some(value) if !equalities.contains_key(one.label()) => {
                equalities.insert(one.label().to_owned(), value.to_owned());
            }
            _ => rest.push(wire(one)),
        }
    }
    (equalities, rest)
}

/// The parts of a kind's and a job's: where both name a value for one label, the kind's is among the equalities.
pub(crate) fn both(
    own: &Selector,
    kinds: Option<&Selector>,
) -> (BTreeMap<String, String>, Vec<v1::Requirement>) {
    let (own_equalities, own_rest) = parts(own);
    let (mut equalities, mut rest) = kinds.map(parts).unwrap_or_default();
    for (label, value) in own_equalities {
        match equalities.get(&label) {
            None => {
                equalities.insert(label, value);
            }
            Some(kinds) if *kinds == value => {}
            Some(_) => rest.push(wire(&Requirement::equals(label, value))),
        }
    }
    for one in own_rest {
        if !rest.contains(&one) {
            rest.push(one);
        }
    }
    (equalities, rest)
}

fn wire(requirement: &Requirement) -> v1::Requirement {
    use v1::RequirementOperator::{Exists, In, NotExists, NotIn};
    let (operator, values) = match requirement.condition() {
        Condition::In(values) => (In, &values[..]),
        Condition::NotIn(values) => (NotIn, &values[..]),
        Condition::Exists => (Exists, &[][..]),
        Condition::NotExists => (NotExists, &[][..]),
    };
    v1::Requirement {
        label: requirement.label().to_owned(),
        operator: operator.into(),
        values: values.iter().map(ToString::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each() -> Selector {
        Selector::new([
            Requirement::equals("a", "x"),
            Requirement::one_of("b", ["x", "", "y, z", "=", "\""]),
            Requirement::none_of("c", ["x"]),
            Requirement::none_of("d", ["x", " y"]),
            Requirement::has("e", true),
            Requirement::has("f", false),
            Requirement::equals("g", ""),
        ])
    }

    #[test]
    fn what_goes_out_comes_back_as_it_was() {
        let (equalities, rest) = parts(&each());
        assert_eq!(equalities.keys().collect::<Vec<_>>(), ["a", "g"]);
        let mut checks = Checks::default();
        assert_eq!(selector(&mut checks, &equalities, &rest), each());
        assert!(checks.is_clean());
    }

    /// The scheduler and the wire have each their own text of the same thing; people must not be able to tell.
    #[test]
    fn messages_and_command_line_write_requirements_alike() {
        for requirement in each().iter() {
            let on_the_wire = wire(requirement);
            assert_eq!(on_the_wire.to_string(), requirement.to_string());
            assert_eq!(on_the_wire.to_string().parse(), Ok(on_the_wire));
        }
    }

    #[test]
    fn of_two_values_for_one_label_the_jobs_is_told_beside() {
        let kinds = Selector::new([Requirement::equals("os", "linux"), Requirement::has("gpu", true)]);
        let own = Selector::new([
            Requirement::equals("os", "macos"),
            Requirement::equals("zone", "east"),
            Requirement::has("gpu", true),
        ]);
        let (equalities, rest) = both(&own, Some(&kinds));
        let texts: Vec<String> = rest.iter().map(ToString::to_string).collect();
        assert_eq!((equalities["os"].as_str(), equalities["zone"].as_str()), ("linux", "east"));
        assert_eq!(texts, ["gpu", "os=macos"]);
    }
}

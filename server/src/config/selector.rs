//! Selectors of the fleet file: what the labels of a kind's nodes must be.

use tenure_scheduler::{Requirement, Selector};

use super::document::{Problems, Table, Value};

/// The most labels that one selector names.
pub(crate) const MOST_REQUIREMENTS: usize = 16;
/// The most values of one label; of a job's, those of all its labels together.
pub(crate) const MOST_VALUES: usize = 32;

/// A table of labels, each with what it must be.
pub(super) fn selector(table: Table<'_>, problems: &mut Problems) -> Selector {
    let mut requirements = Vec::new();
    for (label, value) in table.into_entries() {
        if requirements.len() >= MOST_REQUIREMENTS {
            value.refuse(problems, format!("is one too many: at most {MOST_REQUIREMENTS} labels"));
            break;
        }
        requirements.extend(requirement(label, value, problems));
    }
    requirements.into_iter().collect()
}

/// `"linux"`, `["a100", "h100"]`, `true`, `false`, `{ not = "spot" }` or `{ not = ["a", "b"] }`.
fn requirement(label: String, value: Value<'_>, problems: &mut Problems) -> Option<Requirement> {
    if let Some(problem) = label_problem(&label) {
        value.refuse(problems, problem);
    }
    if let Some(wanted) = value.as_bool() {
        return Some(Requirement::has(label, wanted));
    }
    if value.as_text().is_some() || value.is_array() {
        return Some(Requirement::one_of(label, values(value, problems)?));
    }
    if !value.is_table() {
        value.refuse(problems, "must be a text, a list of texts, true, false or { not = … }");
        return None;
    }
    let (at, path) = (value.at(), value.path().to_owned());
    let mut table = value.table(problems)?;
    let not = table.take("not");
    table.finish(&[], problems);
    let Some(not) = not else {
        problems.add(at, &path, "must name what it is not: { not = \"a text\" } or { not = [\"texts\"] }");
        return None;
    };
    Some(Requirement::none_of(label, values(not, problems)?))
}

/// A text, or a list of texts.
fn values(value: Value<'_>, problems: &mut Problems) -> Option<Vec<String>> {
    if value.as_text().is_some() {
        return text(&value, problems).map(|text| vec![text]);
    }
    let (at, path) = (value.at(), value.path().to_owned());
    let items = value.array(problems)?;
    if items.is_empty() || items.len() > MOST_VALUES {
        problems.add(at, &path, format!("must hold 1 to {MOST_VALUES} values"));
        return None;
    }
    items.iter().map(|item| text(item, problems)).collect()
}

fn text(value: &Value<'_>, problems: &mut Problems) -> Option<String> {
    let text = value.text(problems)?.to_owned();
    if let Some(problem) = label_value_problem(&text) {
        value.refuse(problems, problem);
    }
    Some(text)
}

/// What is wrong with the key of a label.
pub(crate) fn label_problem(key: &str) -> Option<&'static str> {
    let fits = (1..=63).contains(&key.len())
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/'));
    (!fits).then_some("is no label: use 1 to 63 of letters, digits, dot, underscore, hyphen and slash")
}

/// What is wrong with the value of a label.
pub(crate) fn label_value_problem(value: &str) -> Option<&'static str> {
    if value.len() > 255 {
        Some("is longer than 255 bytes")
    } else if value.chars().any(char::is_control) {
        Some("holds a control character")
    } else {
        None
    }
}

//! The canonical JSON of a message as YAML.
//!
//! Every JSON text is YAML too; this only takes braces, brackets and most quotes away. A string whose plain form could be
//! read as anything else stays quoted as in JSON.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use crate::exit::Failure;

/// One document, with its opening line, without a newline at its end.
pub(crate) fn document(value: &impl Serialize) -> Result<String, Failure> {
    let value = serde_json::to_value(value).map_err(|error| Failure::Json(error.into()))?;
    let mut text = "---".to_owned();
    match &value {
        Value::Object(map) if !map.is_empty() => node(&mut text, &value, 0),
        Value::Array(items) if !items.is_empty() => node(&mut text, &value, 0),
        Value::Object(_)
        | Value::Array(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_) => {
            text.push('\n');
            text.push_str(&scalar(&value));
        }
    }
    Ok(text)
}

/// Appends the entries of a map or list, each on a line of its own.
fn node(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                // Writing to a string does not fail.
                write!(text, "\n{indent}{}:", plain_or_quoted(key)).unwrap_or_default();
                entry(text, value, depth + 1);
            }
        }
        Value::Array(items) => {
            for value in items {
                write!(text, "\n{indent}-").unwrap_or_default();
                entry(text, value, depth + 1);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Appends what stands behind a colon or a dash.
fn entry(text: &mut String, value: &Value, depth: usize) {
    let nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if nested {
        node(text, value, depth);
    } else {
        text.push(' ');
        text.push_str(&scalar(value));
    }
}

fn scalar(value: &Value) -> String {
    if let Value::String(text) = value { plain_or_quoted(text) } else { value.to_string() }
}

/// A word of letters that no reader of YAML takes for something else, or the string as in JSON.
fn plain_or_quoted(text: &str) -> String {
    const OTHERWISE: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_word = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
    if is_word && !OTHERWISE.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_and_lists_are_blocks_and_doubtful_strings_are_quoted() {
        let value = json!({
            "job": {"id": "0198", "state": "JOB_STATE_QUEUED", "labels": {"on": "yes", "a b": "c: d"}, "empty": {}},
            "slots": [{"slot": "anthropic", "amount": 2}, []],
            "reason": "boom\u{1b}\nsecond",
            "done": false,
        });
        expect_test::expect![[r#"
            ---
            done: false
            job:
              empty: {}
              id: "0198"
              labels:
                "a b": "c: d"
                "on": "yes"
              state: JOB_STATE_QUEUED
            reason: "boom\u001b\nsecond"
            slots:
              -
                amount: 2
                slot: anthropic
              - []"#]]
        .assert_eq(&document(&value).unwrap());
        assert_eq!(document(&json!({})).unwrap(), "---\n{}");
    }
}

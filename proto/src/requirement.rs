//! The text of a requirement: how people write what a node label must be, and how it is shown to them.
//!
//! | text | means |
//! |---|---|
//! | `os=linux` | the label has this value |
//! | `os!=linux` | it has another value, or is not there |
//! | `gpu in (a100, h100)` | it has one of these values |
//! | `gpu not in (a100, h100)` | it has none of them, or is not there |
//! | `gpu` | it is there |
//! | `!gpu` | it is not there |
//!
//! A value with a comma, a parenthesis, a quotation mark, a backslash, outer spaces or a `=` in front stands in quotation marks, in which a
//! backslash takes the next character as it is. Spaces between the parts mean nothing. What bounds and characters labels
//! and values have is the server's to judge.

use std::{fmt, str::FromStr};

use crate::v1::{Requirement, RequirementOperator};

/// What is wrong with a text; a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

const FORMS: &str = "write os=linux, os!=linux, gpu, !gpu, gpu in (a, b) or gpu not in (a, b)";

impl FromStr for Requirement {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let text = text.trim();
        if let Some(label) = text.strip_prefix('!') {
            return Ok(of(label_of(label.trim_start())?, RequirementOperator::NotExists, Vec::new()));
        }
        let end =
            text.find(|c: char| matches!(c, '=' | '!' | '(') || c.is_whitespace()).unwrap_or(text.len());
        let (label, rest) = text.split_at(end);
        let (label, rest) = (label_of(label)?, rest.trim_start());
        if rest.is_empty() {
            return Ok(of(label, RequirementOperator::Exists, Vec::new()));
        }
        if let Some(value) = rest.strip_prefix("!=") {
            return Ok(of(label, RequirementOperator::NotIn, vec![whole_value(value)?]));
        }
        if let Some(value) = rest.strip_prefix('=') {
            return Ok(of(label, RequirementOperator::In, vec![whole_value(value)?]));
        }
        let (operator, list) = match word(rest, "not").and_then(|rest| word(rest, "in")) {
            Some(list) => (RequirementOperator::NotIn, list),
            None => match word(rest, "in") {
                Some(list) => (RequirementOperator::In, list),
                None => {
                    return Err(Malformed(format!("{rest:?} after the label is not understood; {FORMS}")));
                }
            },
        };
        Ok(of(label, operator, values(list)?))
    }
}

fn of(label: &str, operator: RequirementOperator, values: Vec<String>) -> Requirement {
    Requirement { label: label.to_owned(), operator: operator.into(), values }
}

fn label_of(label: &str) -> Result<&str, Malformed> {
    let strange = |c: char| c.is_whitespace() || matches!(c, '=' | '!' | '(' | ')' | ',' | '"');
    match label {
        "" => Err(Malformed(format!("the label is missing; {FORMS}"))),
        label if label.contains(strange) => Err(Malformed(format!("{label:?} is no label; {FORMS}"))),
        label => Ok(label),
    }
}

/// What stands behind a word, if the text begins with it.
fn word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(word)?;
    let ends = rest.starts_with(|c: char| c.is_whitespace() || c == '(');
    ends.then(|| rest.trim_start())
}

/// The one value behind an `=`; nothing may follow it.
fn whole_value(text: &str) -> Result<String, Malformed> {
    if text.starts_with('=') {
        return Err(Malformed(format!("one = is enough; {FORMS}")));
    }
    let (value, rest) = value(text)?;
    if rest.is_empty() {
        return Ok(value);
    }
    let problem = format!("{rest:?} follows the value; a value with such characters stands in \"…\"");
    Err(Malformed(problem))
}

/// `(a, b, "c d")`, and nothing behind it.
fn values(text: &str) -> Result<Vec<String>, Malformed> {
    let mut rest = text
        .strip_prefix('(')
        .ok_or_else(|| Malformed(format!("the values stand in parentheses; {FORMS}")))?;
    let mut values = Vec::new();
    loop {
        let is_quoted = rest.trim_start().starts_with('"');
        let (one, behind) = value(rest)?;
        if one.is_empty() && !is_quoted {
            return Err(Malformed("a value is missing; an empty one is written \"\"".to_owned()));
        }
        values.push(one);
        if let Some(more) = behind.strip_prefix(',') {
            rest = more;
        } else if behind == ")" {
            return Ok(values);
        } else {
            return Err(Malformed(format!(
                "after a value a comma or the end of the list stands, not {behind:?}"
            )));
        }
    }
}

/// A value, in quotation marks or plain, and what follows it.
fn value(text: &str) -> Result<(String, &str), Malformed> {
    let text = text.trim();
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', '(', ')', '"', '\\']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return Ok((value.trim_end().to_owned(), rest));
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next() {
            Some('"') => return Ok((value, characters.as_str().trim_start())),
            Some('\\') => value.extend(characters.next()),
            Some(other) => value.push(other),
            None => return Err(Malformed("a quotation mark is not closed".to_owned())),
        }
    }
}

/// As the parser reads it.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = &self.label;
        match (self.operator(), &self.values[..]) {
            (RequirementOperator::Exists, _) => f.write_str(label),
            (RequirementOperator::NotExists, _) => write!(f, "!{label}"),
            (RequirementOperator::In, [value]) => write!(f, "{label}={}", Value(value, false)),
            (RequirementOperator::NotIn, [value]) => write!(f, "{label}!={}", Value(value, false)),
            (RequirementOperator::In, values) => write!(f, "{label} in ({})", Values(values)),
            (RequirementOperator::NotIn, values) => write!(f, "{label} not in ({})", Values(values)),
            // One of a later version.
            (RequirementOperator::Unspecified, values) => {
                write!(f, "{label} ?{} ({})", self.operator, Values(values))
            }
        }
    }
}

struct Values<'a>(&'a [String]);

impl fmt::Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, value) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, Value(value, true))?;
        }
        Ok(())
    }
}

/// A value, and whether it stands in a list, where an empty one needs its quotation marks.
struct Value<'a>(&'a str, bool);

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value, in_list) = *self;
        let is_plain =
            !value.contains([',', '(', ')', '"', '\\']) && value.trim() == value && !value.starts_with('=');
        if is_plain && !(in_list && value.is_empty()) {
            return f.write_str(value);
        }
        f.write_str("\"")?;
        for c in value.chars() {
            write!(f, "{}{c}", if matches!(c, '"' | '\\') { "\\" } else { "" })?;
        }
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(String, RequirementOperator, Vec<String>), Malformed> {
        let requirement: Requirement = text.parse()?;
        Ok((requirement.label.clone(), requirement.operator(), requirement.values))
    }

    #[test]
    fn every_form_is_read_and_shown_as_it_is_written() {
        use RequirementOperator::{Exists, In, NotExists, NotIn};
        for (text, label, operator, values, shown) in [
            ("os=linux", "os", In, &["linux"][..], "os=linux"),
            (" os = linux ", "os", In, &["linux"], "os=linux"),
            ("os=", "os", In, &[""], "os="),
            ("model=Mac mini", "model", In, &["Mac mini"], "model=Mac mini"),
            ("url=a=b!c", "url", In, &["a=b!c"], "url=a=b!c"),
            ("os!=linux", "os", NotIn, &["linux"], "os!=linux"),
            ("gpu in (a100,h100)", "gpu", In, &["a100", "h100"], "gpu in (a100, h100)"),
            ("gpu in( a100 , h100 )", "gpu", In, &["a100", "h100"], "gpu in (a100, h100)"),
            ("gpu in (a100)", "gpu", In, &["a100"], "gpu=a100"),
            ("gpu  not  in  (a, b)", "gpu", NotIn, &["a", "b"], "gpu not in (a, b)"),
            (
                r#"x in ("", "a,b", "q\"\\", c d)"#,
                "x",
                In,
                &["", "a,b", "q\"\\", "c d"],
                r#"x in ("", "a,b", "q\"\\", c d)"#,
            ),
            (r#"x="=a""#, "x", In, &["=a"], r#"x="=a""#),
            (r#"x=" a""#, "x", In, &[" a"], r#"x=" a""#),
            ("gpu", "gpu", Exists, &[], "gpu"),
            ("! gpu", "gpu", NotExists, &[], "!gpu"),
            ("example.org/rack-1_b", "example.org/rack-1_b", Exists, &[], "example.org/rack-1_b"),
            ("in in (in, not)", "in", In, &["in", "not"], "in in (in, not)"),
            ("not", "not", Exists, &[], "not"),
        ] {
            let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
            assert_eq!(parsed(text), Ok((label.to_owned(), operator, values)), "{text}");
            let requirement: Requirement = text.parse().unwrap();
            assert_eq!(requirement.to_string(), shown);
            assert_eq!(requirement.to_string().parse(), Ok(requirement), "{text}");
        }
    }

    #[test]
    fn what_is_malformed_is_told_and_never_guessed() {
        for (text, problem) in [
            ("", "label is missing"),
            ("!", "label is missing"),
            ("=x", "label is missing"),
            ("!os=linux", "is no label"),
            ("a,b=c", "is no label"),
            ("gpu a100", "after the label"),
            ("gpu == a100", "one ="),
            ("gpu notin (a)", "after the label"),
            ("gpu not (a)", "after the label"),
            ("gpu in a100", "in parentheses"),
            ("gpu in", "after the label"),
            ("gpu in ()", "value is missing"),
            ("gpu in (a,)", "value is missing"),
            ("gpu in (,a)", "value is missing"),
            ("gpu in (a", "comma or the end"),
            ("gpu in (a) b", "comma or the end"),
            ("gpu in (a b\" c)", "comma or the end"),
            ("gpu in (\"a)", "not closed"),
            ("gpu=\"a", "not closed"),
            ("gpu=\"a\\", "not closed"),
            ("gpu=a,b", "follows the value"),
            ("gpu=(a)", "follows the value"),
            ("gpu=\"a\"b", "follows the value"),
            ("gpu in (a))", "comma or the end"),
            ("(gpu)", "label is missing"),
        ] {
            match text.parse::<Requirement>() {
                Ok(requirement) => panic!("{text:?} was read as {requirement}"),
                Err(Malformed(said)) => assert!(said.contains(problem), "{text:?}: {said}"),
            }
        }
    }
}

//! Where a key stands in a TOML text.
//!
//! Responsible for line numbers in messages about values that parse but cannot be. Not responsible for syntax errors,
//! which carry their own place.

use std::collections::BTreeMap;

use toml::de::{DeArray, DeTable, DeValue};

/// The lines of all keys of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    by_key: BTreeMap<Vec<String>, usize>,
}

impl Lines {
    /// Indexes a text; empty if it does not parse.
    pub(super) fn of(text: &str) -> Self {
        let mut lines = Self::default();
        if let Ok(document) = DeTable::parse(text) {
            lines.table(text, &mut Vec::new(), document.get_ref());
        }
        lines
    }

    /// The line of a key, else of the nearest table around it, else 0.
    pub(super) fn line(&self, key: &[&str]) -> usize {
        let key: Vec<String> = key.iter().map(|&part| part.to_owned()).collect();
        let prefixes = (1..=key.len()).rev().filter_map(|length| self.by_key.get(key.get(..length)?));
        prefixes.copied().next().unwrap_or(0)
    }

    fn table(&mut self, text: &str, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            path.push(key.get_ref().to_string());
            self.by_key.insert(path.clone(), line_of(text, key.span().start));
            match value.get_ref() {
                DeValue::Table(inner) => self.table(text, path, inner),
                DeValue::Array(items) => self.named_items(text, path, items),
                DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_) => {}
            }
            path.pop();
        }
    }

    /// Items of an array of tables are found by their `id`.
    fn named_items(&mut self, text: &str, path: &[String], items: &DeArray<'_>) {
        for item in items.iter() {
            let id = item.get_ref().get("id").and_then(|id| id.get_ref().as_str());
            if let Some(id) = id {
                let key = path.iter().cloned().chain([id.to_owned()]).collect();
                self.by_key.insert(key, line_of(text, item.span().start));
            }
        }
    }
}

/// The line, from 1, of a byte offset.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_key_points_at_the_table_that_lacks_it() {
        let lines = Lines::of("a = 1\n\n[kinds.\"x.y\"]\nuser = \"u\"\n");
        assert_eq!(lines.line(&["a"]), 1);
        assert_eq!(lines.line(&["kinds", "x.y", "user"]), 4);
        assert_eq!(lines.line(&["kinds", "x.y", "command"]), 3);
        assert_eq!(lines.line(&["name"]), 0);
    }
}

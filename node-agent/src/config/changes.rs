//! What differs between two node files, by key: an agent that reads its file again has to say what a restart is for.

use super::Config;

impl Config {
    /// The keys of the node file whose values differ.
    #[must_use]
    pub fn changes(&self, other: &Self) -> Vec<&'static str> {
        // Everything, so that a new key cannot be left out.
        let Self {
            name,
            servers,
            insecure: _,
            tls,
            data,
            slots,
            indexes,
            labels,
            kinds,
            starts,
            pressure,
            credits,
            drain_deadline,
            containment,
        } = self;
        let differ = [
            ("name", *name != other.name),
            ("servers", *servers != other.servers),
            ("tls", *tls != other.tls),
            ("data", *data != other.data),
            ("slots", (slots, indexes) != (&other.slots, &other.indexes)),
            ("labels", *labels != other.labels),
            ("kinds", *kinds != other.kinds),
            ("starts", *starts != other.starts),
            ("pressure", *pressure != other.pressure),
            ("credits", *credits != other.credits),
            ("drain_deadline", *drain_deadline != other.drain_deadline),
            ("containment", *containment != other.containment),
        ];
        differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{NodeFile, Overrides};

    #[test]
    fn keys_that_differ_are_named() {
        let base = "name = \"a\"\nserver = \"http://127.0.0.1:1\"\nallow_root = true\n";
        let config = |more: &str| {
            let file = NodeFile::parse(&format!("{base}{more}"), Path::new("/node.toml")).unwrap();
            file.validate(Overrides::default()).unwrap()
        };
        let before = config("");
        assert!(before.changes(&config("")).is_empty());
        let after = config("credits = 3\n[slots]\nb = 1\n[kinds.x]\ncommand = [\"sh\"]\n");
        assert_eq!(before.changes(&after), ["slots", "kinds", "credits"]);
    }
}

//! The table `[webhooks]` of the fleet file: who is told when a job or a workflow ends.

use std::collections::{BTreeMap, BTreeSet};

use tenure_scheduler::{
    Ending, KindName, KindPolicy, MOST_WEBHOOKS, WebhookName, WebhookPolicy, Webhooks, is_name,
};

use super::check_name;
use crate::config::document::{Problems, Table, Value, nearest};

/// The longest URL, in bytes.
const MOST_URL: usize = 2048;

pub(super) fn webhooks(
    table: Table<'_>,
    kinds: &BTreeMap<KindName, KindPolicy>,
    problems: &mut Problems,
) -> Webhooks {
    let mut webhooks = Webhooks::new();
    for (name, value) in table.into_entries() {
        if webhooks.len() >= MOST_WEBHOOKS {
            value.refuse(problems, format!("is one too many: at most {MOST_WEBHOOKS} webhooks"));
            break;
        }
        check_name(&name, &value, problems);
        let (at, path) = (value.at(), value.path().to_owned());
        let Some(table) = value.table(problems) else { continue };
        if let Some(policy) = webhook(table, (at, &path, &name), kinds, problems) {
            webhooks.insert(WebhookName::new(name), policy);
        }
    }
    webhooks
}

fn webhook(
    mut table: Table<'_>,
    (at, path, name): (usize, &str, &str),
    kinds: &BTreeMap<KindName, KindPolicy>,
    problems: &mut Problems,
) -> Option<WebhookPolicy> {
    let url = table.take("url");
    if url.is_none() {
        problems.add(at, &format!("{path}.url"), "is required");
    }
    let url = url.and_then(|value| {
        let text = value.text(problems)?.to_owned();
        match url_problem(&text) {
            Some(problem) => {
                value.refuse(problems, problem);
                None
            }
            None => Some(text),
        }
    });
    let secret = table.take("secret").and_then(|value| {
        let text = value.text(problems)?.to_owned();
        if !is_name(&text) {
            value.refuse(
                problems,
                "must be the name of a secret, which the server file says under [webhooks.secrets]; never the secret",
            );
        }
        Some(text)
    });
    let events = table.take("events").and_then(|value| events(value, problems));
    let of_kinds = table.take("kinds").and_then(|value| of_kinds(value, kinds, problems));
    let workflows = table.take("workflows").and_then(|value| value.flag(problems)).unwrap_or(false);
    table.finish(&[], problems);
    Some(WebhookPolicy {
        url: url?.into(),
        secret: secret.unwrap_or_else(|| name.to_owned()).into(),
        events: events.unwrap_or_else(|| Ending::ALL.into()),
        kinds: of_kinds,
        workflows,
    })
}

/// What is wrong with a URL. It is not repeated: parts of it may be secret.
fn url_problem(text: &str) -> Option<&'static str> {
    if text.len() > MOST_URL {
        return Some("is longer than 2048 bytes");
    }
    let Ok(url) = reqwest::Url::parse(text) else { return Some("is no URL") };
    if url.scheme() != "https" {
        return Some("must begin with https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some("must have no user and no password: receivers verify the signature");
    }
    if url.fragment().is_some() {
        return Some("must have no fragment (#…): it would not be sent");
    }
    if url.host_str().is_none_or(str::is_empty) { Some("has no host") } else { None }
}

fn events(value: Value<'_>, problems: &mut Problems) -> Option<BTreeSet<Ending>> {
    let (at, path) = (value.at(), value.path().to_owned());
    let mut events = BTreeSet::new();
    for value in value.array(problems)? {
        events.extend(value.choice(problems, &Ending::ALL.map(|ending| (ending.name(), ending))));
    }
    if events.is_empty() {
        problems.add(at, &path, "must name an event; without it the webhook hears of all");
    }
    Some(events)
}

fn of_kinds(
    value: Value<'_>,
    kinds: &BTreeMap<KindName, KindPolicy>,
    problems: &mut Problems,
) -> Option<BTreeSet<KindName>> {
    let (at, path) = (value.at(), value.path().to_owned());
    let mut named = BTreeSet::new();
    let values = value.array(problems)?;
    if values.is_empty() {
        // Where it is shown, none means all.
        problems.add(at, &path, "must name a kind; without it the webhook hears of all");
    }
    for value in values {
        let Some(text) = value.text(problems) else { continue };
        if kinds.contains_key(&KindName::new(text)) {
            named.insert(KindName::new(text));
            continue;
        }
        let hint = nearest(text, kinds.keys().map(KindName::as_str))
            .map_or_else(|| "declare it under [kinds]".to_owned(), |near| format!("did you mean {near:?}?"));
        value.refuse(problems, format!("names a kind that is not declared; {hint}"));
    }
    Some(named)
}

#[cfg(test)]
mod tests {
    use tenure_scheduler::Fleet;

    use super::*;
    use crate::config::{Retention, parse_fleet};

    fn parse(text: &str) -> Result<Fleet, String> {
        let fleet = parse_fleet(&format!("[kinds.docs]\n[kinds.qa]\n{text}"), &Retention::default());
        fleet.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn a_url_is_enough() {
        let fleet = parse("[webhooks.ci]\nurl = \"https://ci.test/hook\"").unwrap();
        let policy = &fleet.webhooks[&WebhookName::new("ci")];
        let all = WebhookPolicy {
            url: "https://ci.test/hook".into(),
            secret: "ci".into(),
            events: Ending::ALL.into(),
            kinds: None,
            workflows: false,
        };
        assert_eq!(*policy, all);
    }

    #[test]
    fn everything_may_be_said() {
        let text = "[webhooks.ci]\nurl = \"https://ci.test:8443/a?b\"\nsecret = \"other\"\nevents = [\"dead\"]\n\
                    kinds = [\"docs\"]\nworkflows = true";
        let policy = &parse(text).unwrap().webhooks[&WebhookName::new("ci")];
        assert_eq!((&*policy.secret, policy.workflows), ("other", true));
        assert!(policy.events.iter().copied().eq([Ending::Dead]));
        assert!(policy.kinds.iter().flatten().map(KindName::as_str).eq(["docs"]));
    }

    #[test]
    fn every_mistake_has_a_sentence_that_repeats_no_url() {
        for (text, want) in [
            ("", "webhooks.ci.url: is required"),
            ("url = \"http://s3cret.test\"", "must begin with https://"),
            ("url = \"https://ann:s3cret@ci.test\"", "must have no user"),
            ("url = \"https://ci.test/#s3cret\"", "must have no fragment"),
            ("url = \"s3cret\"", "is no URL"),
            ("url = \"https://ci.test\"\nsecret = \"whsec_S3cret\"", "never the secret"),
            ("url = \"https://ci.test\"\nevents = []", "must name an event"),
            ("url = \"https://ci.test\"\nevents = [\"running\"]", "webhooks.ci.events"),
            ("url = \"https://ci.test\"\nkinds = []\nworkflows = true", "must name a kind"),
            ("url = \"https://ci.test\"\nkinds = [\"doc\"]", "did you mean \"docs\"?"),
            ("url = \"https://ci.test\"\nworkflows = \"yes\"", "webhooks.ci.workflows"),
            ("url = \"https://ci.test\"\nretries = 3", "webhooks.ci.retries"),
        ] {
            let told = parse(&format!("[webhooks.ci]\n{text}")).unwrap_err();
            assert!(told.contains(want), "{text}: {told}");
            assert!(!told.contains("s3cret"), "{told}");
        }
        let long = format!("url = \"https://ci.test/{}\"", "x".repeat(MOST_URL));
        assert!(parse(&format!("[webhooks.ci]\n{long}")).unwrap_err().contains("longer than"));
        let many: String =
            (0..=MOST_WEBHOOKS).map(|n| format!("[webhooks.w{n}]\nurl = \"https://ci.test\"\n")).collect();
        assert!(parse(&many).unwrap_err().contains("one too many"));
    }
}

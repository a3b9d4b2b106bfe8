//! A workflow as a person writes it: TOML or JSON, one form for both.
//!
//! A table is a part. It has exactly one of `chain`, `group` and `chord`, each a list of tables, or it is a job and has a
//! `kind`. The outermost table may have `id` and `name`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tenure_client::{NewJob, NewWorkflow, Part};

use crate::args;
use crate::exit::Failure;

/// Bytes of a file. A message has at most 4 MiB.
const MOST: u64 = 8 * 1024 * 1024;

/// Tables in each other; the server takes fewer.
const DEEPEST: usize = 32;

/// Everything that a table may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    id: Option<String>,
    name: Option<String>,

    chain: Option<Vec<Table>>,
    group: Option<Vec<Table>>,
    chord: Option<Vec<Table>>,

    synthesis: Option<Box<Table>>,
    policy: Option<String>,
    at_least: Option<u32>,
    deadline: Option<String>,
    on_deadline: Option<String>,

    kind: Option<String>,
    payload: Option<Value>,
    content_type: Option<String>,
    tenant: Option<String>,
    priority: Option<i32>,
    delay: Option<String>,
    stale_after: Option<String>,
    hard_time_limit: Option<String>,
    concurrency_key: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    selector: BTreeMap<String, String>,
    needs: Option<BTreeMap<String, u32>>,
}

/// Reads a file; `-` is stdin.
pub(super) fn read(path: &Path) -> Result<NewWorkflow, Failure> {
    let unreadable = |source| Failure::Read { path: path.to_owned(), source };
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(MOST).read_to_string(&mut text).map_err(unreadable)?;
    } else {
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(MOST).read_to_string(&mut text).map_err(unreadable)?;
    }
    parse(&text).map_err(|problem| Failure::Config {
        what: format!("workflow in {}", path.display()),
        source: problem.into(),
    })
}

/// A workflow out of a text: JSON if it begins as that, else TOML.
fn parse(text: &str) -> Result<NewWorkflow, String> {
    let table: Table = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| error.to_string())?
    } else {
        toml::from_str(text).map_err(|error| error.to_string())?
    };
    let (id, name) = (table.id.clone(), table.name.clone());
    let part = part(Table { id: None, name: None, ..table }, "workflow", 0)?;
    let mut workflow = NewWorkflow::new(part);
    if let Some(id) = id {
        workflow = workflow.with_id(id);
    }
    Ok(workflow.name(name.unwrap_or_default()))
}

fn part(mut table: Table, path: &str, depth: usize) -> Result<Part, String> {
    if depth > DEEPEST {
        return Err(format!("{path}: is nested too deep"));
    }
    if table.id.is_some() || table.name.is_some() {
        return Err(format!("{path}: `id` and `name` are for the whole workflow"));
    }
    let parts = (table.chain.take(), table.group.take(), table.chord.take(), table.kind.is_some());
    let all = |tables: Vec<Table>, word: &str| {
        let each = tables.into_iter().enumerate();
        each.map(|(at, table)| part(table, &format!("{path}.{word}[{at}]"), depth + 1))
            .collect::<Result<Vec<_>, _>>()
    };
    match parts {
        (Some(parts), None, None, false) => {
            nothing_else(&table, path)?;
            Ok(Part::chain(all(parts, "chain")?))
        }
        (None, Some(parts), None, false) => {
            nothing_else(&table, path)?;
            Ok(Part::group(all(parts, "group")?))
        }
        (None, None, Some(members), false) => chord(all(members, "chord")?, table, path),
        (None, None, None, true) => Ok(Part::job(job(table, path)?)),
        (None, None, None, false) => Err(format!("{path}: has no `kind`, `chain`, `group` or `chord`")),
        _ => Err(format!("{path}: has more than one of `kind`, `chain`, `group` and `chord`")),
    }
}

/// A chain or a group says nothing of its own.
fn nothing_else(table: &Table, path: &str) -> Result<(), String> {
    let of_chord = table.synthesis.is_some()
        || table.policy.is_some()
        || table.at_least.is_some()
        || table.deadline.is_some()
        || table.on_deadline.is_some();
    if of_chord {
        return Err(format!(
            "{path}: `synthesis`, `policy`, `at_least`, `deadline` and `on_deadline` are a chord's"
        ));
    }
    no_job(table, path)
}

fn no_job(table: &Table, path: &str) -> Result<(), String> {
    let of_job = table.payload.is_some()
        || table.content_type.is_some()
        || table.tenant.is_some()
        || table.priority.is_some()
        || table.delay.is_some()
        || table.stale_after.is_some()
        || table.hard_time_limit.is_some()
        || table.concurrency_key.is_some()
        || table.needs.is_some()
        || !table.labels.is_empty()
        || !table.selector.is_empty();
    if of_job { Err(format!("{path}: has fields of a job, and is none")) } else { Ok(()) }
}

fn chord(members: Vec<Part>, mut table: Table, path: &str) -> Result<Part, String> {
    no_job(&table, path)?;
    let synthesis = table.synthesis.take().ok_or_else(|| format!("{path}: a chord needs a `synthesis`"))?;
    let mut chord = Part::chord(members, job(*synthesis, &format!("{path}.synthesis"))?);
    chord = match (table.policy.as_deref(), table.at_least) {
        (None | Some("all"), None) => chord,
        (None | Some("at_least"), Some(number)) => chord.at_least(number),
        (Some("at_least"), None) => return Err(format!("{path}: `policy = \"at_least\"` needs `at_least`")),
        (Some("any"), None) => chord.any(),
        (Some("always"), None) => chord.always(),
        (Some("all" | "any" | "always"), Some(_)) => {
            return Err(format!("{path}: `at_least` stands with `policy = \"at_least\"` alone"));
        }
        (Some(other), _) => {
            return Err(format!("{path}.policy: {other:?} is none of all, at_least, any, always"));
        }
    };
    if let Some(deadline) = &table.deadline {
        chord = chord.deadline(length(deadline, &format!("{path}.deadline"))?);
    }
    match table.on_deadline.as_deref() {
        None | Some("cancel") => Ok(chord.into()),
        Some("leave") => Ok(chord.leave_the_rest().into()),
        Some(other) => Err(format!("{path}.on_deadline: {other:?} is neither cancel nor leave")),
    }
}

fn job(table: Table, path: &str) -> Result<NewJob, String> {
    let Some(kind) = &table.kind else { return Err(format!("{path}: has no `kind`")) };
    if table.chain.is_some() || table.group.is_some() || table.chord.is_some() || table.synthesis.is_some() {
        return Err(format!("{path}: is a job, and holds parts"));
    }
    if table.policy.is_some()
        || table.at_least.is_some()
        || table.deadline.is_some()
        || table.on_deadline.is_some()
    {
        return Err(format!("{path}: is a job, and has the rule of a chord"));
    }
    let mut job = NewJob::new(kind);
    // A text is taken as it is; everything else is JSON.
    match table.payload {
        None => {}
        Some(Value::String(text)) => job = job.payload(text),
        Some(value) => job = job.payload(value.to_string()).content_type("application/json"),
    }
    if let Some(content_type) = table.content_type {
        job = job.content_type(content_type);
    }
    if let Some(tenant) = table.tenant {
        job = job.tenant(tenant);
    }
    if let Some(priority) = table.priority {
        job = job.priority(priority);
    }
    if let Some(key) = table.concurrency_key {
        job = job.concurrency_key(key);
    }
    if let Some(delay) = &table.delay {
        job = job.delay(length(delay, &format!("{path}.delay"))?);
    }
    if let Some(after) = &table.stale_after {
        job = job.stale_after(length(after, &format!("{path}.stale_after"))?);
    }
    if let Some(limit) = &table.hard_time_limit {
        job = job.hard_time_limit(length(limit, &format!("{path}.hard_time_limit"))?);
    }
    job = table.labels.into_iter().fold(job, |job, (name, value)| job.label(name, value));
    job = table.selector.into_iter().fold(job, |job, (name, value)| job.selector(name, value));
    Ok(match table.needs {
        None => job,
        Some(needs) if needs.is_empty() => job.no_needs(),
        Some(needs) => needs.into_iter().fold(job, |job, (slot, amount)| job.need(slot, amount)),
    })
}

fn length(text: &str, path: &str) -> Result<Duration, String> {
    args::duration(text).map_err(|problem| format!("{path}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = r#"
        name = "morning"
        at_least = 3
        deadline = "10m"

        [[chord]]
        kind = "research"
        payload = "a"

        [[chord]]
        chain = [{ kind = "fetch", payload = { url = "b" } }, { kind = "research" }]

        [synthesis]
        kind = "digest"
        needs = { shell = 1 }
    "#;

    #[test]
    fn the_example_of_the_page_is_what_it_says() {
        let page = include_str!("../../../docs/workflows.md");
        let (_, rest) = page.split_once("```toml\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        let id = "0199a5b2-7c00-7000-8000-000000000000";
        let research =
            |url: &str| Part::job(NewJob::new("research").payload(format!("https://{url}.example")));
        let fetch =
            NewJob::new("fetch").payload(r#"{"url":"https://d.example"}"#).content_type("application/json");
        let last = Part::chain([Part::job(fetch), Part::job(NewJob::new("research"))]);
        let members = [research("a"), research("b"), research("c"), last];
        let chord =
            Part::chord(members, NewJob::new("digest")).at_least(3).deadline(Duration::from_secs(600));
        let built = NewWorkflow::new(chord).with_id(id).name("morning");
        assert_eq!(parse(example).unwrap().with_id(id), built);
    }

    #[test]
    fn both_forms_say_the_same() {
        let json = r#"{"name": "morning", "at_least": 3, "deadline": "10m", "chord": [
            {"kind": "research", "payload": "a"},
            {"chain": [{"kind": "fetch", "payload": {"url": "b"}}, {"kind": "research"}]}],
            "synthesis": {"kind": "digest", "needs": {"shell": 1}}}"#;
        let id = "0199a5b2-7c00-7000-8000-000000000000";
        let [toml, json] = [TOML, json].map(|text| parse(text).unwrap().with_id(id));
        assert_eq!(toml, json);
        let fetch = NewJob::new("fetch").payload(r#"{"url":"b"}"#).content_type("application/json");
        let members = [
            Part::job(NewJob::new("research").payload("a")),
            Part::chain([Part::job(fetch), Part::job(NewJob::new("research"))]),
        ];
        let chord = Part::chord(members, NewJob::new("digest").need("shell", 1)).at_least(3);
        let built = NewWorkflow::new(chord.deadline(Duration::from_secs(600))).with_id(id).name("morning");
        assert_eq!(toml, built, "and so does the builder");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_path() {
        for (text, problem) in [
            ("", "workflow: has no `kind`"),
            ("kind = 'a'\ngroup = []", "more than one of"),
            ("group = [{ kind = 'a' }, {}]", "workflow.group[1]: has no `kind`"),
            ("chord = [{ kind = 'a' }]", "needs a `synthesis`"),
            (
                "chord = []\nsynthesis = { kind = 'a' }\npolicy = 'most'",
                "workflow.policy: \"most\" is none of",
            ),
            ("chord = []\nsynthesis = { kind = 'a' }\npolicy = 'any'\nat_least = 2", "stands with"),
            ("kind = 'a'\ndeadline = '1m'", "has the rule of a chord"),
            ("chain = []\npriority = 3", "has fields of a job"),
            ("kind = 'a'\ndelay = 'soon'", "workflow.delay"),
            ("kind = 'a'\ncolour = 'red'", "colour"),
            ("{\"kind\": \"a\", \"id\": 7}", "invalid type"),
            ("group = [{ kind = 'a', name = 'x' }]", "for the whole workflow"),
        ] {
            let told = parse(text).unwrap_err();
            assert!(told.contains(problem), "{text:?}: {told}");
        }
    }
}

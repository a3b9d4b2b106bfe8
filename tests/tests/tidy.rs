//! What no compiler checks: that the house keeps its own rules.
//!
//! Every rule is about the text of the repository. A rule that is broken names the file and the way out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use tenure_tests::binary::repository;

/// Lines of a Rust file that nobody should have to read at once.
const LONGEST_FILE: usize = 700;

/// Which of our crates each may depend on, and what else it must not know.
const ARROWS: &[(&str, &[&str], &[&str])] = &[
    ("proto", &[], &["sqlx", "tokio"]),
    ("tls", &[], &["sqlx", "tonic", "prost"]),
    (
        "scheduler",
        &[],
        &["tonic", "prost", "tokio", "sqlx", "serde", "serde_json", "rand", "getrandom", "jiff", "rustix"],
    ),
    ("store", &["tenure-scheduler"], &["tonic", "prost"]),
    ("server", &["tenure-scheduler", "tenure-store", "tenure-proto", "tenure-tls"], &[]),
    ("node-agent", &["tenure-proto", "tenure-tls"], &["sqlx"]),
    ("client", &["tenure-proto", "tenure-tls"], &["sqlx"]),
    (
        "cli",
        &["tenure-client", "tenure-proto", "tenure-server", "tenure-node-agent", "tenure-tls"],
        &["sqlx"],
    ),
];

fn text(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(repository().join(path)).with_context(|| format!("cannot read {path}"))
}

/// Files of the repository that are written by hand, as paths from its root.
fn files() -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(repository().join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            let name = entry.file_name().to_string_lossy().into_owned();
            let generated = path.starts_with("proto/src/gen");
            if generated || matches!(name.as_str(), ".git" | "target" | "node_modules" | "Cargo.lock") {
                continue;
            }
            if entry.file_type()?.is_dir() {
                directories.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn rust_files() -> anyhow::Result<Vec<PathBuf>> {
    Ok(files()?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs")).collect())
}

/// Text files with their content; what is no UTF-8 is no text.
fn texts() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let texts = files()?
        .into_iter()
        .filter_map(|path| Some((path.clone(), fs::read_to_string(repository().join(path)).ok()?)));
    Ok(texts.collect())
}

/// The words in backquotes that begin the rows of the tables of a document.
fn documented(path: &str) -> anyhow::Result<BTreeSet<String>> {
    let text = text(path)?;
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    Ok(rows.map(|(word, _)| word.to_owned()).collect())
}

/// The string literals of a piece of code that are made of these characters only.
fn literals(code: &str, of: impl Fn(char) -> bool) -> BTreeSet<String> {
    let all = code.split('"').skip(1).step_by(2);
    all.filter(|word| !word.is_empty() && word.chars().all(&of)).map(str::to_owned).collect()
}

/// The body of a function, from its signature to the brace in its column.
fn function<'a>(code: &'a str, signature: &str) -> anyhow::Result<&'a str> {
    let (_, after) = code.split_once(signature).with_context(|| format!("no {signature:?}"))?;
    Ok(after.split_once("\n    }\n").map_or(after, |(body, _)| body))
}

/// The code of a file without its unit tests.
fn product(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(repository().join(path))?;
    Ok(text.split_once("\n#[cfg(test)]\nmod ").map_or(text.clone(), |(code, _)| code.to_owned()))
}

fn difference(name: &str, code: &BTreeSet<String>, document: &BTreeSet<String>) -> anyhow::Result<()> {
    let missing: Vec<_> = code.difference(document).collect();
    let unknown: Vec<_> = document.difference(code).collect();
    ensure!(!code.is_empty(), "{name}: nothing was found in the code; this test no longer reads it");
    ensure!(
        missing.is_empty() && unknown.is_empty(),
        "{name}: not documented {missing:?}, not in the code {unknown:?}"
    );
    Ok(())
}

#[test]
fn crates_depend_only_on_what_the_house_allows() -> anyhow::Result<()> {
    for (name, allowed, forbidden) in ARROWS {
        let manifest: toml::Table = text(&format!("{name}/Cargo.toml"))?.parse()?;
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        for dependency in dependencies.into_iter().flatten().map(|(dependency, _)| dependency.as_str()) {
            let ours = dependency.starts_with("tenure-");
            ensure!(!ours || allowed.contains(&dependency), "{name} must not depend on {dependency}");
            ensure!(!forbidden.contains(&dependency), "{name} must not know {dependency}");
        }
    }
    Ok(())
}

#[test]
fn every_deferral_is_documented_with_its_name() -> anyhow::Result<()> {
    let code = text("scheduler/src/deferral.rs")?;
    let names = literals(function(&code, "pub fn name(&self)")?, |c| c.is_ascii_lowercase() || c == '_');
    difference("docs/deferrals.md", &names, &documented("docs/deferrals.md")?)
}

#[test]
fn every_refusal_is_documented_with_its_reason() -> anyhow::Result<()> {
    let shouted = |c: char| c.is_ascii_uppercase() || c == '_';
    let refusal = text("scheduler/src/refusal.rs")?;
    let mut reasons = literals(function(&refusal, "pub fn reason(&self)")?, shouted);
    reasons.extend(literals(function(&refusal, "pub fn name(self)")?, shouted));
    let sources = ["server/src", "scheduler/src"];
    for file in rust_files()?.iter().filter(|path| sources.iter().any(|source| path.starts_with(source))) {
        let code = product(file)?;
        // A status is made of a code and a reason; a stream ends with a reason alone.
        let after_codes = code
            .split("Code::")
            .skip(1)
            .filter_map(|rest| rest.split_once(", \""))
            .filter_map(|(code, rest)| code.chars().all(char::is_alphanumeric).then_some(rest));
        let ends =
            ["session_ended(\"", "reason: \""].into_iter().flat_map(|opening| code.split(opening).skip(1));
        let words = after_codes.chain(ends).filter_map(|rest| rest.split_once('"')).map(|(word, _)| word);
        reasons.extend(words.filter(|word| !word.is_empty() && word.chars().all(shouted)).map(str::to_owned));
    }
    difference("docs/errors.md", &reasons, &documented("docs/errors.md")?)
}

#[test]
fn every_figure_is_documented_with_its_name() -> anyhow::Result<()> {
    let code = product(Path::new("server/src/metrics/figure.rs"))?;
    let names = literals(&code, |c| c.is_ascii_lowercase() || c == '_');
    let names = names.into_iter().filter(|name| name.starts_with("tenure_")).collect();
    difference("docs/metrics.md", &names, &documented("docs/metrics.md")?)
}

#[test]
fn every_field_of_a_log_line_is_one_of_the_documented() -> anyhow::Result<()> {
    let document = text("docs/logging.md")?;
    let fields: BTreeSet<&str> =
        document.split('`').skip(1).step_by(2).filter(|word| word.contains('.')).collect();
    for file in rust_files()?.iter().filter(|path| path.components().any(|part| part.as_os_str() == "src")) {
        let code = product(file)?;
        for level in ["error", "warn", "info", "debug", "trace"] {
            for call in code.split(&format!("tracing::{level}!(")).skip(1) {
                let call = call.split_once(");").map_or(call, |(call, _)| call);
                let names = call
                    .split(['\n', ',', '('])
                    .filter_map(|part| part.split_once(" = "))
                    .map(|(name, _)| name.trim());
                for name in names.filter(|name| {
                    name.contains('.') && name.chars().all(|c| c.is_ascii_lowercase() || ".-_".contains(c))
                }) {
                    ensure!(
                        fields.contains(name),
                        "{}: the field {name} is not in docs/logging.md",
                        file.display()
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn both_databases_have_the_same_migrations_numbered_without_gaps() -> anyhow::Result<()> {
    let names = |database: &str| -> anyhow::Result<Vec<String>> {
        let entries = fs::read_dir(repository().join("migrations").join(database))?;
        let mut names = entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    let (postgres, sqlite) = (names("postgres")?, names("sqlite")?);
    ensure!(!sqlite.is_empty(), "there are no migrations");
    ensure!(postgres == sqlite, "the directories differ: {postgres:?}, {sqlite:?}");
    for (name, number) in sqlite.iter().zip(1..) {
        let rest = name.strip_prefix(&format!("{number:04}_")).and_then(|rest| rest.strip_suffix(".sql"));
        let rest = rest.with_context(|| format!("{name} is not number {number}"))?;
        let words =
            rest.split('_').all(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase()));
        ensure!(words && rest.contains('_'), "{name}: name it NNNN_verb_noun.sql");
        for database in ["postgres", "sqlite"] {
            let known = text(&format!("store/src/{database}/schema.rs"))?;
            ensure!(known.contains(name), "store/src/{database}/schema.rs does not have {name}");
            let header = text(&format!("migrations/{database}/{name}"))?;
            ensure!(
                header.starts_with("-- Why: ")
                    && header.contains("Locks: ")
                    && header.contains("Contracted by: "),
                "{database}/{name} does not say why, what it locks, and what contracts it"
            );
        }
    }
    Ok(())
}

#[test]
fn rust_files_are_short_have_a_header_and_silence_no_lint() -> anyhow::Result<()> {
    let silence = concat!("#[", "allow(");
    for file in rust_files()? {
        let code = fs::read_to_string(repository().join(&file))?;
        let name = file.display();
        let lines = code.lines().count();
        ensure!(lines <= LONGEST_FILE, "{name} has {lines} lines: it is asking to be two rooms");
        let unit_tests = file.ends_with("tests.rs");
        ensure!(unit_tests || code.starts_with("//!"), "{name} does not say what it is responsible for");
        ensure!(!file.ends_with("mod.rs"), "{name}: write foo.rs beside foo/");
        ensure!(!code.contains(silence), "{name} silences a lint: use #[expect(…, reason = \"…\")]");
    }
    Ok(())
}

#[test]
fn nothing_is_left_to_do_without_an_issue() -> anyhow::Result<()> {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    for (file, text) in texts()? {
        for (line, number) in text.lines().zip(1..) {
            let left =
                words.iter().any(|word| line.split(|c: char| !c.is_alphanumeric()).any(|part| part == *word));
            ensure!(!left || line.contains('#'), "{}:{number}: name the issue: {line}", file.display());
        }
    }
    Ok(())
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() -> anyhow::Result<()> {
    let paths =
        [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/tmp/", "tgt")];
    let examples = ["/home/qa", "/home/me", "/home/you"];
    for (file, text) in texts()? {
        for (line, number) in text.lines().zip(1..) {
            let named = paths.iter().any(|path| {
                line.split(path).count() > 1
                    && (path != &paths[2] || !examples.iter().any(|example| line.contains(example)))
            });
            // A path below another one is none from the root.
            let rooted = paths.iter().any(|path| {
                line.match_indices(path).any(|(at, _)| {
                    line.get(..at)
                        .and_then(|before| before.chars().next_back())
                        .is_none_or(|c| !c.is_alphanumeric() && !"._-}*)>".contains(c))
                })
            });
            ensure!(!(named && rooted), "{}:{number}: {line}", file.display());
        }
    }
    Ok(())
}

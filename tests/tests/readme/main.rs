//! The pages, taken at their word: every command of README.md, docs/operating.md and client/python/README.md is typed in
//! from top to bottom, as a stranger would who has never been here; what any page says of `tenure` exists, and its links lead somewhere.
//!
//! All `sh` blocks of a page run in one shell, its `sql` blocks in the Postgres beside it (`desk.rs`). What stands for a
//! reader's hands and eyes is said in a comment above a block, which no reader sees:
//! - `<!-- background: until "TEXT" -->`: it goes on running; the next block comes once its log holds the text.
//! - `<!-- stopped -->`: what goes on running was stopped before, as by Ctrl-C.
//! - `<!-- elsewhere -->`: it needs what a test has not, such as other hosts or many minutes, and is not run; that its
//!   commands and flags exist is looked at all the same. Not in README.md.
//! - `<!-- output -->`, above a text block: these lines are in the output of the block before, in this order; `…` stands
//!   for anything, and blanks count as one.
//! - `<!-- file: fleet PATH -->`, above a TOML block: `tenure config check` accepts it as such a file, and if a path stands
//!   there, its lines are those of that file, in order.
//! - `<!-- installed -->`: these commands made the virtual environment of the tests, which is there.
//! - `<!-- save: NAME -->`, above a block of Python or TOML: it is saved under this name.

mod desk;
mod page;

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use tenure_tests::binary;

use self::desk::Desk;

/// README.md and its neighbours, and everything in docs/, with the names of the files.
fn pages() -> anyhow::Result<Vec<(String, String)>> {
    let root = binary::repository();
    let mut pages = Vec::new();
    for directory in ["", "client/python", "docs", "docs/decisions", "migrations"] {
        for entry in fs::read_dir(root.join(directory))? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "md") {
                let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
                pages.push((name, fs::read_to_string(&path)?));
            }
        }
    }
    pages.sort();
    Ok(pages)
}

#[tokio::test]
async fn every_command_of_the_readme_works_from_top_to_bottom() -> anyhow::Result<()> {
    let page = fs::read_to_string(binary::repository().join("README.md"))?;
    Desk::new(&page)?.follow(&page).await
}

#[tokio::test]
async fn every_command_of_the_operators_page_works_from_top_to_bottom() -> anyhow::Result<()> {
    let page = fs::read_to_string(binary::repository().join("docs/operating.md"))?;
    Desk::new(&page)?.follow(&page).await
}

#[tokio::test]
async fn every_command_of_the_python_page_works_from_top_to_bottom() -> anyhow::Result<()> {
    let page = fs::read_to_string(binary::repository().join("client/python/README.md"))?;
    Desk::new(&page)?.follow(&page).await
}

#[test]
fn every_page_with_commands_is_followed() -> anyhow::Result<()> {
    for (name, text) in pages()? {
        // What a clone is made with cannot be tried in one.
        let followed = matches!(
            name.as_str(),
            "README.md" | "docs/operating.md" | "client/python/README.md" | "CONTRIBUTING.md"
        );
        let blocks = page::blocks(&text);
        let elsewhere = |block: &page::Block| block.comment == "elsewhere";
        let commands = blocks.iter().any(|block| block.language == "sh" && !elsewhere(block));
        ensure!(followed || !commands, "{name} has commands that nobody runs: follow it here");
        let run = name != "README.md" || !blocks.iter().any(elsewhere);
        ensure!(run, "every command of README.md is run");
    }
    Ok(())
}

#[tokio::test]
async fn a_page_that_does_not_work_is_found_out() -> anyhow::Result<()> {
    for (page, complaint) in [
        ("# A\n```sh\necho fine\n```\n```sh\ntrue\nfalse\necho late\n```\n", "the block at line 5 failed"),
        ("```sh\ntenure config chekc\n```\n", "unrecognized subcommand"),
        ("```sh\ncargo install nothing\n```\n", "does not know: cargo install nothing"),
        ("```sh\necho one\n```\n<!-- output -->\n```text\ntwo\n```\n", "\"two\" is not there"),
        ("<!-- file: fleet -->\n```toml\n[slot]\n```\n", "is unknown"),
        ("<!-- background: until \"ready\" -->\n```sh\necho no\n```\n", "it has ended"),
        ("```python\nprint()\n```\n", "what is to be done with it"),
    ] {
        let error =
            Desk::new(page)?.follow(page).await.err().with_context(|| format!("accepted:\n{page}"))?;
        let told = format!("{error:#}");
        ensure!(told.contains(complaint), "{complaint:?} is not in\n{told}");
    }
    Ok(())
}

#[test]
fn every_command_that_a_page_names_exists_with_its_flags() -> anyhow::Result<()> {
    let tenure = binary::tenure()?;
    let mut seen = 0;
    for (name, text) in pages()? {
        for (words, flags) in page::commands(&text) {
            let mut command = Command::new(tenure);
            command.args(&words).arg("--help").env_clear().stdin(Stdio::null());
            let output = command.output()?;
            let help = String::from_utf8_lossy(&output.stdout);
            let words = words.join(" ");
            ensure!(output.status.success(), "{name}: there is no `tenure {words}`");
            for flag in flags {
                let there =
                    help.split(|c: char| !c.is_ascii_lowercase() && c != '-').any(|word| word == flag);
                ensure!(there, "{name}: `tenure {words}` has no {flag}");
            }
            seen += 1;
        }
    }
    ensure!(seen > 30, "only {seen} commands were found: the pages are read wrongly");
    Ok(())
}

#[test]
fn every_link_of_a_page_leads_somewhere() -> anyhow::Result<()> {
    let root = binary::repository();
    for (name, text) in pages()? {
        for link in page::links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let here = root.join(&name);
            let target = if file.is_empty() { here } else { here.with_file_name(file) };
            ensure!(target.exists(), "{name} links to {link}, which is not there");
            if !anchor.is_empty() {
                let found = page::anchors(&fs::read_to_string(&target)?).any(|known| known == anchor);
                ensure!(found, "{name} links to {link}, which has no such heading");
            }
        }
    }
    Ok(())
}

#[test]
fn every_file_that_a_page_names_is_there() -> anyhow::Result<()> {
    let root = binary::repository();
    for (name, text) in pages()? {
        for path in page::paths(&text) {
            let top = path.split('/').next().unwrap_or_default();
            // Other words have slashes, too; a form such as `NNNN_verb_noun.sql` is no file.
            if root.join(top).is_dir() && !path.contains("NNNN") {
                ensure!(root.join(path).exists(), "{name} names {path}, which is not there");
            }
        }
    }
    Ok(())
}

#[test]
fn an_example_runs_on_a_full_and_busy_machine_too() -> anyhow::Result<()> {
    for file in ["quickstart/node.toml", "machines/mini-1.toml", "machines/mini-2.toml"] {
        let text = fs::read_to_string(binary::repository().join("examples").join(file))?;
        for rule in ["disk_low", "load_high"] {
            let off = format!("id = \"{rule}\"\nenabled = false\n");
            ensure!(
                text.contains(&off),
                "{file}: {rule} would close the node before a newcomer has seen anything"
            );
        }
    }
    Ok(())
}

#[test]
fn every_signal_and_every_built_in_rule_is_documented() -> anyhow::Result<()> {
    let read = |path: &str| fs::read_to_string(binary::repository().join(path)).context(path.to_owned());
    let page = read("docs/node-file.md")?;
    let signals = read("node-agent/src/pressure/signals.rs")?;
    let signals =
        signals.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split_once("\", Signal::"));
    let rules = read("node-agent/src/pressure/defaults.toml")?;
    let rules = rules.lines().filter_map(|line| line.strip_prefix("id = \"")?.split_once('"'));
    let names: Vec<&str> = signals.chain(rules).map(|(name, _)| name).collect();
    ensure!(names.len() > 20, "only {names:?} were found");
    for name in names {
        ensure!(page.contains(&format!("`{name}`")), "docs/node-file.md does not tell of {name}");
    }
    Ok(())
}

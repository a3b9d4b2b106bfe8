//! Every command of README.md, typed in from top to bottom by a stranger who has never been here.
//!
//! All ```` ```sh ```` blocks run in one shell, in a copy of what they name, with the binary under test. What stands for
//! a reader's hands is said in a comment above a block, which no reader sees:
//! - `<!-- background: until "TEXT" -->`: it goes on running; the next block comes once its log holds the text.
//! - `<!-- output -->`, above a text block: these lines appear in the output of the block before, in this order; `…`
//!   stands for anything, and runs of blanks are one.
//! - `<!-- file: fleet -->`, above a TOML block: `tenure config check` accepts it as such a file.
//!
//! Free ports stand in for the usual ones, by the variables that the page itself names and, where an address is typed,
//! in the text. Of cargo, `build` is replaced by the binary under test, where the page expects it, and `run` is real;
//! `scripts/test` would start this test again and only has to be there.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;
use tenure_tests::{binary, tag};
use tokio::process::Command;

/// For the whole page.
const PATIENCE: Duration = Duration::from_secs(240);

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// The line of its fence, from 1.
    line: usize,
    language: String,
    /// The comment above it; empty: none.
    comment: String,
    text: String,
}

/// Fenced blocks, in order.
fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut comment = String::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        if let Some(mut block) = open.take() {
            if line == "```" {
                found.push(block);
            } else {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
        } else if let Some(language) = line.strip_prefix("```") {
            let comment = std::mem::take(&mut comment);
            let (language, text) = (language.trim().to_owned(), String::new());
            open = Some(Block { line: index + 1, language, comment, text });
        } else {
            let inside = line.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
            comment = inside.map(|words| words.trim().to_owned()).unwrap_or_default();
        }
    }
    found
}

/// A reader's desk: a copy of what the page names, and the programs that it may call.
struct Desk {
    directory: TempDir,
    mark: String,
}

impl Drop for Desk {
    fn drop(&mut self) {
        tag::end_all(&self.mark);
    }
}

impl Desk {
    fn new() -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("tenure-readme-").tempdir()?;
        let mark = format!("readme-{}-{}", std::process::id(), uuid::Uuid::now_v7());
        let desk = Self { directory, mark };
        for name in ["home", "out", "bin", "clone"] {
            fs::create_dir(desk.path(name))?;
        }
        for name in ["examples", "scripts", "cli"] {
            copy(&binary::repository().join(name), &desk.path("clone").join(name))?;
        }
        desk.program("clone/scripts/test", "exit 0")?;
        desk.program("bin/grpcurl", &format!("exec '{}' \"$@\"", binary::grpcurl()?.display()))?;
        desk.program("bin/cargo", &desk.cargo()?)?;
        Ok(desk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn program(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\nset -eu\n{text}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Builds by linking what is built already; runs for real, from the repository and into the tests' own directory.
    fn cargo(&self) -> anyhow::Result<String> {
        let tenure = binary::tenure()?;
        let test = std::env::current_exe()?;
        let target = test.ancestors().nth(3).context("the test stands in no target directory")?;
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let home = std::env::var("HOME").unwrap_or_default();
        Ok(format!(
            "case \"$*\" in\n\
             'build --locked --release -p tenure-cli')\n\
                 grep -q '^name = \"tenure-cli\"' cli/Cargo.toml\n\
                 mkdir -p target/release && ln -sf '{tenure}' target/release/tenure ;;\n\
             'run '*) export HOME='{home}' CARGO_TARGET_DIR='{target}'; cd '{repository}'; exec '{cargo}' \"$@\" ;;\n\
             *) echo \"this test does not know: cargo $*\" >&2; exit 70 ;;\n\
             esac",
            tenure = tenure.display(),
            target = target.display(),
            repository = binary::repository().display(),
        ))
    }

    /// The page as one script. Each block's output goes to a file of its own; the last block begun is in `out/at`.
    fn script(&self, blocks: &[Block]) -> anyhow::Result<String> {
        let mut script = "set -euo pipefail\nstarted=()\n".to_owned();
        for block in blocks {
            let Block { line, language, comment, text } = block;
            let out = self.path(&format!("out/{line}")).display().to_string();
            let text = text
                .replace("http://127.0.0.1:7071", "\"$TENURE_HTTP\"")
                .replace("127.0.0.1:7070", "\"${TENURE_SERVER#http://}\"");
            let at = self.path("out/at").display().to_string();
            match (language.as_str(), comment.split_once(' ').unwrap_or((comment, ""))) {
                ("sh", ("background:", until)) => {
                    let text_seen = until.strip_prefix("until \"").and_then(|rest| rest.strip_suffix('"'));
                    let seen = text_seen.with_context(|| format!("line {line}: until what? {comment}"))?;
                    writeln!(script, "echo {line} > '{at}'\n{} > '{out}' 2>&1 &", text.trim_end())?;
                    writeln!(script, "started+=($!)\nuntil grep -qF '{seen}' '{out}'; do")?;
                    writeln!(script, "  kill -0 $! || {{ echo 'it has ended' >> '{out}'; exit 71; }}; sleep 0.05\ndone")?;
                    writeln!(script, "{}", addresses(&out))?;
                }
                ("sh", ("", "")) => {
                    writeln!(script, "echo {line} > '{at}'\n{{\n{text}\n}} > '{out}' 2>&1 < /dev/null")?;
                }
                ("toml", ("file:", what)) => {
                    let file = self.path(&format!("out/{line}.toml"));
                    fs::write(&file, &block.text)?;
                    let check = format!("tenure config check {what} '{}'", file.display());
                    writeln!(script, "echo {line} > '{at}'\n{check} > '{out}' 2>&1")?;
                }
                ("text", ("output", _)) => {}
                _ => bail!("line {line}: a block of {language:?} with {comment:?}: what is to be done with it?"),
            }
        }
        writeln!(script, "echo 0 > '{}'", self.path("out/at").display())?;
        // As Ctrl-C does, the last one first. Each drains, and says so by its exit code.
        writeln!(script, "for ((i = ${{#started[@]}} - 1; i >= 0; i--)); do")?;
        writeln!(script, "  kill -TERM \"${{started[i]}}\"; wait \"${{started[i]}}\"\ndone")?;
        Ok(script)
    }

    /// Runs a page, and compares what it promises with what came out.
    async fn follow(&self, page: &str) -> anyhow::Result<()> {
        let blocks = blocks(page);
        let mut command = Command::new("bash");
        command.args(["-c", &self.script(&blocks)?]).current_dir(self.path("clone"));
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOME", self.path("home"))
            .env("TENURE_BIN", binary::tenure()?)
            .env("TENURE_UP_LISTEN", "127.0.0.1:0")
            .env("TENURE_UP_HTTP", "127.0.0.1:0")
            .env(tag::VARIABLE, &self.mark)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let ended = tokio::time::timeout(PATIENCE, command.output()).await;
        let at = fs::read_to_string(self.path("out/at")).unwrap_or_default();
        let at = at.trim();
        let output = ended.with_context(|| self.seen(at, "does not end"))??;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}\n{stderr}", self.seen(at, "failed"));
        for (before, block) in blocks.iter().zip(blocks.iter().skip(1)) {
            if block.comment == "output" {
                let seen = fs::read_to_string(self.path(&format!("out/{}", before.line)))?;
                matches(&block.text, &seen)
                    .with_context(|| format!("the output that line {} promises\n{seen}", block.line))?;
            }
        }
        let left = tag::processes(&self.mark);
        ensure!(left.is_empty(), "these were left running: {left:#?}");
        Ok(())
    }

    fn seen(&self, line: &str, what: &str) -> String {
        let out = fs::read_to_string(self.path(&format!("out/{line}"))).unwrap_or_default();
        format!("README.md: the block at line {line} {what}\n{out}")
    }
}

/// Where `tenure up` serves, from the sentence that it says when it is ready. An agent says nothing of the kind.
fn addresses(log: &str) -> String {
    format!(
        "if ready=$(grep -o 'ready grpc=.*' '{log}'); then\n\
         read -r _ TENURE_SERVER TENURE_HTTP <<< \"$ready\"\n\
         export TENURE_SERVER=${{TENURE_SERVER#grpc=}} TENURE_HTTP=${{TENURE_HTTP#http=}}\n\
         fi"
    )
}

/// Whether every promised line is there, in order.
fn matches(promised: &str, seen: &str) -> anyhow::Result<()> {
    let mut rest = seen.lines();
    for line in promised.lines() {
        ensure!(rest.any(|seen| line_matches(line, seen)), "{line:?} is not there, or not in this order");
    }
    Ok(())
}

fn line_matches(promised: &str, seen: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (promised, seen) = (plain(promised), plain(seen));
    let mut parts = promised.split('…').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = seen.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        (rest, last) = (after, Some(part));
    }
    rest.is_empty() || last == Some("")
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()? {
            kind if kind.is_dir() => copy(&entry.path(), &to)?,
            kind if kind.is_symlink() => symlink(fs::read_link(entry.path())?, to)?,
            _ => drop(fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}

/// Commands of `tenure` in the running text and the blocks of a page: their words and their flags.
fn commands(page: &str) -> Vec<(String, Vec<String>)> {
    let spans = page.split('`').skip(1).step_by(2).filter_map(|span| span.strip_prefix("tenure "));
    let lines = page.lines().filter_map(|line| line.split_once("tenure ").map(|(_, rest)| rest));
    let typed = lines.filter(|_| true).map(|rest| rest.split(['`', '#', '|', ')', ';']).next().unwrap_or(rest));
    let mut found = Vec::new();
    for text in spans.chain(typed.filter(|_| false)) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let lower = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
        let verbs: Vec<&str> = words.iter().take_while(lower).copied().collect();
        let flags = words.iter().filter_map(|word| word.strip_prefix("--"));
        let flags = flags.map(|flag| format!("--{}", flag.trim_end_matches(|c: char| !c.is_ascii_lowercase())));
        found.push((verbs.join(" "), flags.filter(|flag| flag.len() > 2).collect()));
    }
    found.sort();
    found.dedup();
    found
}

fn markdown() -> anyhow::Result<Vec<(String, String)>> {
    let root = binary::repository();
    let mut pages = Vec::new();
    for directory in [root.clone(), root.join("docs")] {
        for entry in fs::read_dir(directory)? {
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
    Desk::new()?.follow(&page).await
}

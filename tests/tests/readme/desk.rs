//! The desk of a reader who types in a page: a copy of what the page names, and the programs that it may call.
//!
//! Free ports stand in for the usual ones: by the variables that the page itself tells of and, where an address is typed,
//! in the text. A database is made in a Postgres of the desk's own, to which its variables lead. Of cargo, `build` is
//! replaced by the binary under test, put where the page expects it, and `run` is real; `scripts/test` would start this
//! test again, so that it only has to be there.
//! Invariant: nothing that a page starts outlives its desk.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;
use tenure_test_postgres::Cluster;
use tenure_tests::{binary, python, tag};
use tokio::process::Command;

use super::page::{self, Block};

/// For a whole page.
const PATIENCE: Duration = Duration::from_secs(240);

/// What a reader sets in the terminal for commands, and not in those where something goes on running.
const OF_ONE_TERMINAL: &[&str] = &["TENURE_TLS_CA", "TENURE_TLS_CERT", "TENURE_TLS_KEY"];

/// A desk, for one page.
#[derive(Debug)]
pub(crate) struct Desk {
    directory: TempDir,
    mark: String,
    /// For pages that make a database.
    postgres: Option<Cluster>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        tag::end_all(&self.mark);
    }
}

impl Desk {
    /// Lays it out for a page.
    pub(crate) fn new(page: &str) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("tenure-readme-").tempdir()?;
        let mark = format!("readme-{}-{}", std::process::id(), uuid::Uuid::now_v7());
        let of_postgres = ["createdb", "```sql"].into_iter().any(|word| page.contains(word));
        let postgres = if of_postgres { Some(Cluster::start()?) } else { None };
        let desk = Self { directory, mark, postgres };
        for name in ["home", "out", "bin", "clone"] {
            fs::create_dir(desk.path(name))?;
        }
        for name in ["examples", "scripts", "proto"] {
            copy(&binary::repository().join(name), &desk.path("clone").join(name))?;
        }
        desk.program("clone/scripts/test", "exit 0")?;
        desk.program("bin/tenure", &format!("exec '{}' \"$@\"", binary::tenure()?.display()))?;
        desk.program("bin/grpcurl", &format!("exec '{}' \"$@\"", binary::grpcurl()?.display()))?;
        desk.program("bin/cargo", &cargo()?)?;
        Ok(desk)
    }

    /// Types a page in, and compares what it promises with what comes out.
    pub(crate) async fn follow(&self, page: &str) -> anyhow::Result<()> {
        let blocks = page::blocks(page);
        if blocks.iter().any(|block| block.comment == "installed") {
            symlink(python::environment().await?, self.path("clone/venv"))?;
        }
        let mut command = Command::new("bash");
        command.args(["-c", &self.script(&blocks)?]).current_dir(self.path("clone"));
        let mut path = vec![self.path("bin")];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        command.env_clear();
        if let Some(cluster) = &self.postgres {
            path.push(cluster.programs().to_owned());
            command.envs(cluster.environment());
        }
        command
            .env("PATH", std::env::join_paths(path)?)
            .env("HOME", self.path("home"))
            .env("USER", "postgres")
            .env("TENURE_BIN", binary::tenure()?)
            .env("TENURE_UP_LISTEN", "127.0.0.1:0")
            .env("TENURE_UP_HTTP", "127.0.0.1:0")
            .env("TENURE_SERVER_LISTEN", "127.0.0.1:0")
            .env("TENURE_SERVER_HTTP", "127.0.0.1:0")
            .env(tag::VARIABLE, &self.mark)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output()).await;
        let output = output.with_context(|| self.stands("does not end"))??;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}\n{stderr}", self.stands("failed"));
        for (before, block) in blocks.iter().zip(blocks.iter().skip(1)) {
            if block.comment == "output" {
                let seen = fs::read_to_string(self.out(before.line))?;
                page::promised(&block.text, &seen).with_context(|| {
                    format!("what line {} promises did not come out:\n{seen}", block.line)
                })?;
            }
        }
        let left = tag::processes(&self.mark);
        ensure!(left.is_empty(), "these were left running: {left:#?}");
        Ok(())
    }

    /// The page as one script. The output of each block goes to a file; the line of the last one begun is in `out/at`.
    fn script(&self, blocks: &[Block]) -> anyhow::Result<String> {
        let at = self.path("out/at").display().to_string();
        let mut script = format!("set -euo pipefail\nstarted=()\n{STOP}");
        for block in blocks {
            let line = block.line;
            let out = self.out(line).display().to_string();
            // Where a page types an address, it is that of the server which it started.
            let text = block.text.trim_end().replace("http://127.0.0.1:7071", "\"$TENURE_HTTP\"");
            let text = text.replace("127.0.0.1:7070", "\"${TENURE_SERVER#*://}\"");
            let (what, how) = block.comment.split_once(": ").unwrap_or((&block.comment, ""));
            if !matches!(what, "output" | "elsewhere") {
                writeln!(script, "echo {line} > '{at}'")?;
            }
            match (block.language.as_str(), what) {
                ("sh", "" | "stopped") => {
                    let first = if what == "stopped" { "stop\n" } else { "" };
                    writeln!(script, "{first}{{\n{text}\n}} > '{out}' 2>&1 < /dev/null")?;
                }
                ("sh", "background") => {
                    let seen = how.strip_prefix("until \"").and_then(|rest| rest.strip_suffix('"'));
                    let seen =
                        seen.with_context(|| format!("line {line}: until what is it to be waited?"))?;
                    script.push_str(&background(&text, seen, &out));
                }
                ("toml", "file") => {
                    let (what, like) = how.split_once(' ').unwrap_or((how, ""));
                    if !like.is_empty() {
                        let real =
                            fs::read_to_string(self.path("clone").join(like)).context(like.to_owned())?;
                        page::promised(&block.text, &real).context(format!("line {line}: not in {like}"))?;
                    }
                    let file = self.path(&format!("out/{line}.toml")).display().to_string();
                    fs::write(&file, &block.text)?;
                    writeln!(script, "tenure config check {what} '{file}' > '{out}' 2>&1")?;
                }
                ("sql", "") => {
                    let file = self.path(&format!("out/{line}.sql")).display().to_string();
                    fs::write(&file, &block.text)?;
                    let psql = "psql -X -q -v ON_ERROR_STOP=1 -d postgres -f";
                    writeln!(script, "{psql} '{file}' > '{out}' 2>&1")?;
                }
                // Done by `follow`, with these commands.
                ("sh", "installed") => {
                    let known = text.lines().eq(python::INSTALL);
                    ensure!(known, "line {line}: the package is installed otherwise in the tests");
                }
                ("python" | "toml", "save") => fs::write(self.path("clone").join(how), &block.text)?,
                // Only that these commands exist is looked at, with those of the running text.
                ("sh", "elsewhere") | ("text", "output") => {}
                (language, what) => bail!("line {line}: {language} {what:?}: what is to be done with it?"),
            }
        }
        script.push_str("stop\n");
        Ok(script)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn out(&self, line: usize) -> PathBuf {
        self.path(&format!("out/{line}"))
    }

    fn program(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\nset -eu\n{text}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Where the script is, with what came out there.
    fn stands(&self, what: &str) -> String {
        let line = fs::read_to_string(self.path("out/at")).unwrap_or_default().trim().parse().unwrap_or(0);
        let out = fs::read_to_string(self.out(line)).unwrap_or_default();
        format!("the block at line {line} {what}\n{out}")
    }
}

/// Ends what was started, as Ctrl-C does, the last one first. Each drains, and says by its exit code whether it could.
const STOP: &str = r#"stop() {
  for ((i = ${#started[@]} - 1; i >= 0; i--)); do
    kill -TERM "${started[i]}"; wait "${started[i]}"
  done
  started=()
}
"#;

/// Starts something that stays, in a terminal of its own, and waits until its log holds a text. A server says there
/// where it serves.
fn background(command: &str, seen: &str, log: &str) -> String {
    let unset: String = OF_ONE_TERMINAL.iter().map(|name| format!("-u {name} ")).collect();
    format!(
        "env {unset}{command} > '{log}' 2>&1 < /dev/null &\n\
         started+=($!)\n\
         until grep -qF '{seen}' '{log}'; do\n\
           kill -0 $! 2> /dev/null || {{ echo 'it has ended' >> '{log}'; exit 71; }}\n\
           sleep 0.05\n\
         done\n\
         if ready=$(grep -o 'ready grpc=.*' '{log}'); then\n\
           read -r _ TENURE_SERVER TENURE_HTTP <<< \"$ready\"\n\
           export TENURE_SERVER=${{TENURE_SERVER#grpc=}} TENURE_HTTP=${{TENURE_HTTP#http=}}\n\
         fi\n"
    )
}

/// Builds by linking what is built already; runs for real, from the repository and into the tests' own directory, with the
/// toolchain of this test: where `rustup` chooses one, a file of some dependency must not make it fetch another.
fn cargo() -> anyhow::Result<String> {
    let test = std::env::current_exe()?;
    let target = test.ancestors().nth(3).context("the test stands in no target directory")?;
    Ok(format!(
        "case \"$*\" in\n\
         'build --locked --release -p tenure-cli')\n\
           test -f '{repository}/cli/Cargo.toml'\n\
           mkdir -p target/release && ln -sf '{tenure}' target/release/tenure ;;\n\
         'run --locked --manifest-path ../../Cargo.toml '*)\n\
           export HOME='{home}' CARGO_TARGET_DIR='{target}'{toolchain}\n\
           shift 4 && exec '{cargo}' run --locked --manifest-path '{repository}/Cargo.toml' \"$@\" ;;\n\
         'run '*)\n\
           export HOME='{home}' CARGO_TARGET_DIR='{target}'{toolchain}\n\
           cd '{repository}' && exec '{cargo}' \"$@\" ;;\n\
         *) echo \"this test does not know: cargo $*\" >&2; exit 70 ;;\n\
         esac",
        tenure = binary::tenure()?.display(),
        repository = binary::repository().display(),
        target = target.display(),
        home = std::env::var("HOME").unwrap_or_default(),
        toolchain = toolchain(),
        cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()),
    ))
}

/// What `rustup` was told for this test, and that it installs nothing by itself.
fn toolchain() -> String {
    let chosen = std::env::var("RUSTUP_TOOLCHAIN").map(|name| format!(" RUSTUP_TOOLCHAIN='{name}'"));
    format!(" RUSTUP_AUTO_INSTALL=0{}", chosen.unwrap_or_default())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

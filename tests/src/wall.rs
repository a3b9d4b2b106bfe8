//! The wall clock of single processes, stepped while they run.
//!
//! Responsible for a small library (`wall/step.c`) that is preloaded into the real binary and adds what stands in a file to
//! what it reads as the wall clock, whichever of its parts reads it. The binary has no such switch of its own, and the
//! clock of the host stays as it is. It is compiled by `cc`, which links the tests too. Linux alone.
//! Invariant: no other clock of the process is touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, bail, ensure};

use crate::binary;

/// Names the file to the library.
const VARIABLE: &str = "TEST_WALL_OFFSET";

/// The library, compiled once by each process of tests.
fn library() -> anyhow::Result<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}"))) {
        Ok(path) => Ok(path),
        Err(error) => bail!("no library that steps clocks: {error}"),
    }
}

fn build() -> anyhow::Result<PathBuf> {
    let directory = binary::test_job()?.with_file_name("");
    // Under a name of its own first: another process may load what is there.
    let (whole, part) = (
        directory.join("libtest-wall-step.so"),
        directory.join(format!("libtest-wall-step.{}", std::process::id())),
    );
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-x", "c"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wall/step.c"))
        .arg("-o")
        .arg(&part)
        .arg("-ldl")
        .output()
        .context("cc does not start")?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    fs::rename(&part, &whole)?;
    Ok(whole)
}

/// What goes into the environment of a process whose clock is to be stepped: by the file `offset`, which is made.
///
/// # Errors
/// If the library cannot be compiled.
pub(crate) fn environment(offset: &Path) -> anyhow::Result<Vec<(String, String)>> {
    if !offset.exists() {
        step(offset, 0)?;
    }
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path that is no UTF-8");
    Ok(vec![("LD_PRELOAD".to_owned(), text(library()?)?), (VARIABLE.to_owned(), text(offset)?)])
}

/// From now on the wall clock of the processes with this file is this much off, in seconds.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn step(offset: &Path, seconds: i64) -> anyhow::Result<()> {
    use std::os::unix::fs::FileExt as _;
    // In place, since it is mapped, and at once.
    let file = fs::File::options().create(true).truncate(false).write(true).open(offset)?;
    Ok(file.write_all_at(&seconds.to_ne_bytes(), 0)?)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn year(variables: &[(String, String)]) -> i32 {
        let mut date = Command::new("date");
        date.args(["-u", "+%Y"]).envs(variables.iter().map(|(name, value)| (name, value)));
        let told = date.output().expect("date runs").stdout;
        String::from_utf8_lossy(&told).trim().parse().expect("a year")
    }

    #[test]
    fn a_step_reaches_who_has_the_file_and_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let offset = directory.path().join("offset");
        let now = year(&[]);
        let variables = environment(&offset).unwrap();
        assert_eq!(year(&variables), now);
        step(&offset, -10 * 365 * 86_400).unwrap();
        assert!([now - 10, now - 9].contains(&year(&variables)));
        assert_eq!(year(&[]), now);
    }
}

//! The Python package, installed into a virtual environment as its users do, once for each state of its files.
//!
//! pip takes what the package needs from where its own configuration says. A machine on which it cannot names an
//! interpreter that has all of it in `TENURE_PYTHON`, and for the tools (`client/python/tools.txt`) in
//! `TENURE_PYTHON_TOOLS`; without either, the tests that need one fail and say so.
//! Invariant: nothing is written into the sources of the package.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::process::Command;

use crate::binary;

/// For a virtual environment and what comes into it: a first time downloads a few megabytes.
const PATIENCE: Duration = Duration::from_secs(240);

/// What a reader of the package's page types in to install it, in a clone of the repository.
pub const INSTALL: [&str; 2] = ["python3 -m venv venv", "venv/bin/pip install ./client/python"];

/// The sources of the package.
pub fn package() -> PathBuf {
    binary::repository().join("client/python")
}

/// A virtual environment with the package; its interpreter is `bin/python`.
///
/// # Errors
/// If it cannot be made.
pub async fn environment() -> anyhow::Result<PathBuf> {
    let package = package();
    let mut hasher = DefaultHasher::new();
    for file in sources(&package)? {
        file.strip_prefix(&package)?.hash(&mut hasher);
        fs::read(&file)?.hash(&mut hasher);
    }
    let name = format!("python-{:016x}", hasher.finish());
    made(&name, async |directory| {
        if let Some(python) = std::env::var_os("TENURE_PYTHON") {
            return linked(directory, &python, &package.join("src"));
        }
        // pip builds where the sources are: it gets a copy.
        let copy = copy()?;
        let from = copy.path().join("python");
        installed(directory, &["install".as_ref(), from.as_os_str()], "TENURE_PYTHON").await
    })
    .await
}

/// The interpreter of a virtual environment with what generates and checks the package.
///
/// # Errors
/// If it cannot be made.
pub async fn tools() -> anyhow::Result<PathBuf> {
    if let Some(python) = std::env::var_os("TENURE_PYTHON_TOOLS") {
        return Ok(PathBuf::from(python));
    }
    let list = package().join("tools.txt");
    let mut hasher = DefaultHasher::new();
    fs::read(&list)?.hash(&mut hasher);
    let name = format!("python-tools-{:016x}", hasher.finish());
    let args = ["install".as_ref(), "-r".as_ref(), list.as_os_str()];
    let made =
        made(&name, async |directory| installed(directory, &args, "TENURE_PYTHON_TOOLS").await).await?;
    Ok(made.join("bin/python"))
}

/// Runs a command of Python to its end: its output, both streams.
///
/// # Errors
/// If it fails or does not end in time.
pub async fn run(command: &mut Command, within: Duration) -> anyhow::Result<String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(within, command.output()).await;
    let output = output.with_context(|| format!("{command:?} does not end within {within:?}"))??;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    Ok(said)
}

/// Makes a directory beside the test binaries, unless it is there; other tests wait meanwhile.
async fn made(name: &str, make: impl AsyncFnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let target = test.ancestors().nth(3).context("the test stands in no target directory")?;
    let directory = target.join("python").join(name);
    fs::create_dir_all(&directory)?;
    let lock = File::create(directory.join("lock"))?;
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
    if !directory.join("ready").exists() {
        make(&directory).await?;
        fs::write(directory.join("ready"), "")?;
    }
    drop(lock);
    Ok(directory)
}

async fn installed(directory: &Path, args: &[&OsStr], otherwise: &str) -> anyhow::Result<()> {
    let venv = run(Command::new("python3").args(["-m", "venv"]).arg(directory), PATIENCE).await;
    venv.context("python3 with venv is needed (Debian, Ubuntu: apt-get install python3-venv)")?;
    let mut pip = Command::new(directory.join("bin/pip"));
    pip.args(["--quiet", "--disable-pip-version-check"]).args(args);
    run(&mut pip, PATIENCE).await.map(drop).with_context(|| {
        format!("pip cannot install what is needed; name an interpreter that has it in {otherwise}")
    })
}

/// An environment that is an interpreter of somebody else, with the sources of the package on its path.
fn linked(directory: &Path, python: &OsStr, sources: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let bin = directory.join("bin");
    fs::create_dir_all(&bin)?;
    let script = format!(
        "#!/bin/sh\nexport PYTHONPATH='{}'\nexec '{}' \"$@\"\n",
        sources.display(),
        Path::new(python).display()
    );
    fs::write(bin.join("python"), script)?;
    fs::set_permissions(bin.join("python"), fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The files of the package, without what Python leaves beside them.
fn sources(package: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = vec![package.join("pyproject.toml"), package.join("README.md")];
    let mut directories = vec![package.join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "__pycache__" && !name.ends_with(".egg-info") {
                    directories.push(path);
                }
            } else {
                files.push(path);
            }
        }
    }
    if files.len() < 10 {
        bail!("there is no package in {}", package.display());
    }
    files.sort();
    Ok(files)
}

/// A copy of the package, as `python` in a directory of its own.
///
/// # Errors
/// If it cannot be made.
pub fn copy() -> anyhow::Result<tempfile::TempDir> {
    let copy = tempfile::Builder::new().prefix("tenure-python-").tempdir()?;
    copy_sources(&package(), &copy.path().join("python"))?;
    Ok(copy)
}

fn copy_sources(package: &Path, to: &Path) -> anyhow::Result<()> {
    for file in sources(package)? {
        let copy = to.join(file.strip_prefix(package)?);
        fs::create_dir_all(copy.parent().context("a file in no directory")?)?;
        fs::copy(&file, copy)?;
    }
    Ok(())
}

//! Where the programs under test are.
//!
//! `TENURE_BIN` names the `tenure` to test; without it cargo builds it into the target directory of the tests, in their
//! profile, so that no test ever runs an old one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, bail, ensure};

/// The `tenure` binary.
///
/// # Errors
/// If it is not where it was said to be, or cannot be built.
pub fn tenure() -> anyhow::Result<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| find_tenure().map_err(|error| format!("{error:#}")));
    match found {
        Ok(path) => Ok(path),
        Err(error) => bail!("no tenure binary: {error}"),
    }
}

/// The test job.
///
/// # Errors
/// If cargo has not built it.
pub fn test_job() -> anyhow::Result<PathBuf> {
    let path = profile_directory()?.join("test-job");
    ensure!(path.is_file(), "there is no {}; run the tests by cargo test or cargo nextest", path.display());
    Ok(path)
}

/// The real grpcurl: `TENURE_GRPCURL`, else on the PATH.
///
/// # Errors
/// If there is none: `scripts/test` installs it.
pub fn grpcurl() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("TENURE_GRPCURL") {
        return Ok(PathBuf::from(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|directory| directory.join("grpcurl")).find(|file| file.is_file());
    found.context("grpcurl is neither in TENURE_GRPCURL nor on the PATH; scripts/test installs it")
}

/// The real `moto_server`, a service that speaks S3: `TENURE_MOTO`. None where it is not, which is said.
///
/// # Errors
/// In CI: `scripts/test` installs it there.
pub fn moto() -> anyhow::Result<Option<PathBuf>> {
    let named = std::env::var_os("TENURE_MOTO").map(PathBuf::from);
    if named.is_none() {
        const MISSING: &str = "TENURE_MOTO names no moto_server (scripts/test installs it)";
        ensure!(std::env::var_os("CI").is_none(), MISSING);
        eprintln!("not shown: {MISSING}");
    }
    Ok(named)
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn find_tenure() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("TENURE_BIN") {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "TENURE_BIN names {}, which is no file", path.display());
        return Ok(path);
    }
    let directory = profile_directory()?;
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let target = directory.parent().context("the target directory has no parent")?;
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "-p", "tenure-cli", "--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(repository())
        .stdin(Stdio::null())
        .output()
        .context("cargo does not start")?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(directory.join("tenure"))
}

/// `target/debug`, above the `deps` directory of the running test.
fn profile_directory() -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe().context("the test does not know its own path")?;
    let deps = test.parent().context("the test has no directory")?;
    let directory = if deps.ends_with("deps") { deps.parent().unwrap_or(deps) } else { deps };
    Ok(directory.to_owned())
}

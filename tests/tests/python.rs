//! The Python package by itself: its own tests, its types, its archives, and that its generated code is that of the wire. What it does
//! on a fleet is in the scenarios; its page is typed in with the others.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use tenure_tests::python;
use tokio::process::Command;

/// Nothing here takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn its_own_tests_pass_in_an_environment_of_its_users() -> anyhow::Result<()> {
    let environment = python::environment().await?;
    let mut tests = Command::new(environment.join("bin/python"));
    tests.args(["-B", "-m", "unittest", "-v"]).current_dir(python::package().join("tests"));
    let said = python::run(&mut tests, PATIENCE).await?;
    let ran = said.lines().filter(|line| line.ends_with("... ok")).count();
    ensure!(ran >= 40 && said.ends_with("OK\n"), "only {ran} tests ran:\n{said}");
    Ok(())
}

#[tokio::test]
async fn its_types_hold() -> anyhow::Result<()> {
    let cache = tempfile::tempdir()?;
    let mut types = Command::new(python::tools().await?);
    types.args(["-B", "-m", "mypy", "--cache-dir"]).arg(cache.path()).current_dir(python::package());
    let said = python::run(&mut types, PATIENCE).await?;
    ensure!(said.starts_with("Success"), "{said}");
    Ok(())
}

#[tokio::test]
async fn it_is_built_as_a_source_archive_and_a_wheel_with_its_types() -> anyhow::Result<()> {
    let out = tempfile::tempdir()?;
    let sources = python::copy()?;
    let tools = python::tools().await?;
    let mut build = Command::new(&tools);
    build
        .args(["-B", "-m", "build", "--no-isolation", "--outdir"])
        .arg(out.path())
        .arg(sources.path().join("python"));
    python::run(&mut build, PATIENCE).await?;
    let mut names: Vec<String> = fs::read_dir(out.path())?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()?;
    names.sort();
    ensure!(names == ["tenure-0.1.0-py3-none-any.whl", "tenure-0.1.0.tar.gz"], "{names:?}");
    // The wheel is made of the archive: what is in it is in both.
    let mut list = Command::new(&tools);
    list.args(["-B", "-m", "zipfile", "-l"]).arg(out.path().join(&names[0]));
    let listed = python::run(&mut list, PATIENCE).await?;
    for file in ["tenure/py.typed", "tenure/workflows.py", "tenure/node/v1/attempt_service_pb2.pyi"] {
        ensure!(listed.contains(file), "{file} is missing:\n{listed}");
    }
    ensure!(!listed.contains("test_"), "its tests are for this repository:\n{listed}");
    Ok(())
}

#[tokio::test]
async fn its_generated_code_is_that_of_the_wire() -> anyhow::Result<()> {
    let fresh = tempfile::tempdir()?;
    let mut generate = Command::new(python::package().join("generate"));
    generate.arg(fresh.path()).env("TENURE_PYTHON_TOOLS", python::tools().await?);
    python::run(&mut generate, PATIENCE).await?;
    let committed = python::package().join("src");
    let (want, have) = (generated(fresh.path())?, generated(&committed)?);
    ensure!(want == have, "there are {have:?}, and generated are {want:?}: run client/python/generate");
    for name in want {
        let same = fs::read(fresh.path().join(&name))? == fs::read(committed.join(&name))?;
        ensure!(same, "client/python/src/{name} is out of date: run client/python/generate");
    }
    Ok(())
}

/// The names of generated files.
fn generated(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.strip_prefix(root)?.display().to_string();
            if path.is_dir() {
                directories.push(path);
            } else if name.contains("_pb2") && !name.ends_with(".pyc") {
                names.push(name);
            }
        }
    }
    ensure!(!names.is_empty(), "nothing is generated in {}", root.display());
    names.sort();
    Ok(names)
}

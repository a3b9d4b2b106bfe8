//! Each scenario once, with tiny counts: that it ends, counts rightly, and says what it should. Never how fast.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tenure_tests::binary::tenure;

/// Jobs of a repetition: one batch, and a bit.
const JOBS: u64 = 40;
/// Jobs that wait where some do: one turn of the ceiling, which lays them.
const WAITING: u64 = 500;

/// The bench, to be run with these. What it measures is built before: no patience of a test is spent on a compiler.
fn bench(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure-bench"));
    command.args(arguments).env("TENURE_BIN", tenure()?).stdin(Stdio::null());
    Ok(command)
}

/// Runs it, and reads what it wrote.
fn run(scenario: &str, store: &str) -> anyhow::Result<Value> {
    run_with(scenario, store, &[])
}

/// The same, with more arguments.
fn run_with(scenario: &str, store: &str, more: &[&str]) -> anyhow::Result<Value> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("report.json");
    let (jobs, waiting) = (JOBS.to_string(), WAITING.to_string());
    let file_name = file.to_str().context("a path in UTF-8")?;
    let output = bench(&[scenario, "--store", store, "--jobs", &jobs, "--repetitions", "1"])?
        .args(["--agents", "2", "--rate", "200", "--json", file_name])
        .args(["--queued", &waiting, "--sessions", "5", "--pinned", "1"])
        .args(more)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{scenario} on {store}: {}\n{said}", output.status);
    let report: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let table = String::from_utf8_lossy(&output.stdout);
    for figure in list(&report, "figures")? {
        let name = figure["name"].as_str().context("a name")?;
        ensure!(table.contains(name), "{name} is not in the table\n{table}");
    }
    Ok(report)
}

fn list<'a>(value: &'a Value, name: &str) -> anyhow::Result<&'a Vec<Value>> {
    value[name].as_array().with_context(|| format!("no list {name}: {value}"))
}

/// The shape that holds for every report, and the names of its figures.
fn check(report: &Value, store: &str) -> anyhow::Result<BTreeSet<String>> {
    ensure!(report["version"] == 1);
    let machine = &report["machine"];
    for name in ["cores", "memory_mib", "disk_syncs_per_second"] {
        ensure!(machine[name].as_f64().is_some_and(|value| value > 0.0), "{name}: {machine}");
    }
    for name in ["cpu", "kernel", "commit", "profile", store] {
        ensure!(machine[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {machine}");
    }
    let mut names = BTreeSet::new();
    for figure in list(report, "figures")? {
        ensure!(figure["store"] == store, "{figure}");
        ensure!(list(figure, "repetitions")?.len() == 1, "{figure}");
        let value = |name: &str| figure[name].as_f64().with_context(|| format!("{name}: {figure}"));
        let (least, middle, most) = (value("min")?, value("median")?, value("max")?);
        ensure!(least <= middle && middle <= most && most.is_finite(), "{figure}");
        if figure["unit"] == "jobs/s" {
            ensure!(least > 0.0, "{figure}");
        }
        if let Some(median) = figure["ratio"]["median"].as_f64() {
            ensure!(median > 0.0 && median.is_finite(), "{figure}");
        }
        names.insert(figure["name"].as_str().context("a name")?.to_owned());
    }
    for check in list(report, "checks")? {
        ensure!(check["store"] == store && check["invariants"].as_u64() > Some(0), "{check}");
    }
    Ok(names)
}

/// What was counted: jobs stored, and of those succeeded.
fn counts(report: &Value, scenario: &str) -> anyhow::Result<(u64, u64)> {
    let checks = list(report, "checks")?;
    let check = checks.iter().find(|check| check["scenario"] == scenario).context("no check")?;
    Ok((check["enqueued"].as_u64().context("enqueued")?, check["succeeded"].as_u64().context("succeeded")?))
}

/// A warm-up of a quarter and one repetition, for each of so many loads.
fn jobs_of(loads: u64) -> u64 {
    (JOBS + JOBS / 4) * loads
}

fn everything_is_measured_and_counted(store: &str) -> anyhow::Result<()> {
    let report = run("all", store)?;
    let names = check(&report, store)?;
    let all = jobs_of(5);
    ensure!(counts(&report, "enqueue")? == (all, 0), "{report:#}");
    let all = jobs_of(4);
    ensure!(counts(&report, "lifecycle")? == (all, all), "{report:#}");
    let all = jobs_of(1);
    ensure!(counts(&report, "latency")? == (all, all), "{report:#}");
    ensure!(counts(&report, "sizes")? == (0, 0), "{report:#}");
    for (prefix, count) in
        [("bare SQL", 2), ("enqueue one by one", 3), ("enqueue batches", 2), ("lifecycle ", 4), ("idle ", 6)]
    {
        let found = names.iter().filter(|name| name.starts_with(prefix)).count();
        ensure!(found == count, "{found} figures begin with {prefix:?}: {names:?}");
    }
    for end in ["p50", "p99"] {
        ensure!(names.contains(&format!("enqueue → granted → finished → stored, {end}")), "{names:?}");
        ensure!(names.contains(&format!("bare commit, {end}")), "{names:?}");
    }
    Ok(())
}

#[test]
fn everything_is_measured_and_counted_on_sqlite() -> anyhow::Result<()> {
    everything_is_measured_and_counted("sqlite")
}

#[test]
fn everything_is_measured_and_counted_on_postgres() -> anyhow::Result<()> {
    everything_is_measured_and_counted("postgres")
}

#[test]
fn a_fleet_is_back_after_its_server_was_killed() -> anyhow::Result<()> {
    let report = run("reattach", "sqlite")?;
    let names = check(&report, "sqlite")?;
    ensure!(names.contains("until 2 agents are back after kill -9"), "{names:?}");
    let (enqueued, succeeded) = counts(&report, "reattach")?;
    ensure!(enqueued > 0 && succeeded == 0, "{report:#}");
    Ok(())
}

/// Runs a scenario and checks its report. The names of its figures, and what was counted.
fn measured(scenario: &str, store: &str) -> anyhow::Result<(BTreeSet<String>, (u64, u64))> {
    let report = run(scenario, store)?;
    let names = check(&report, store)?;
    let counted = counts(&report, scenario)?;
    Ok((names, counted))
}

fn holds(names: &BTreeSet<String>, expected: &[&str]) -> anyhow::Result<()> {
    let missing: Vec<_> = expected.iter().filter(|&&name| !names.contains(name)).collect();
    ensure!(missing.is_empty(), "{missing:?} are not in {names:?}");
    Ok(())
}

#[test]
fn jobs_that_wait_are_drained() -> anyhow::Result<()> {
    for store in ["sqlite", "postgres"] {
        let (names, counted) = measured("drain", store)?;
        holds(&names, &["drain 500 that wait"])?;
        ensure!(counted == (WAITING, WAITING), "{counted:?}");
    }
    Ok(())
}

#[test]
fn chords_end_with_their_synthesis() -> anyhow::Result<()> {
    let (names, (enqueued, succeeded)) = measured("fanout", "sqlite")?;
    holds(&names, &["chords of 10 and a synthesis, 1 callers", "chords of 40 and a synthesis, 4 callers"])?;
    // A warm-up and a repetition of each load, each caller one chord at the least.
    ensure!(enqueued == succeeded && enqueued >= 2 * (11 + 4 * 41 + 2 * 41), "{enqueued} and {succeeded}");
    Ok(())
}

#[test]
fn an_idle_fleet_asks_nothing_of_the_database() -> anyhow::Result<()> {
    let (names, counted) = measured("fleet", "postgres")?;
    holds(&names, &["5 idle sessions: processor", "5 idle sessions: transactions a heartbeat"])?;
    ensure!(counted == (0, 0), "{counted:?}");
    let (names, _) = measured("fleet", "sqlite")?;
    holds(&names, &["5 idle sessions: commits a heartbeat", "5 idle sessions: memory of each"])
}

#[test]
fn a_backlog_is_loaded_lived_beside_and_taken() -> anyhow::Result<()> {
    for store in ["sqlite", "postgres"] {
        let (names, (enqueued, succeeded)) = measured("backlog", store)?;
        let loaded = ["start with 500 that wait", "memory of a job in the process, 500 wait"];
        holds(&names, &loaded)?;
        holds(&names, &["lifecycle beside the backlog", "taken from the backlog"])?;
        // Two sides; what was taken of the backlog is at least what was asked for.
        let both = jobs_of(2);
        ensure!(enqueued == both + WAITING, "{enqueued}");
        ensure!((both + JOBS..=both + WAITING).contains(&succeeded), "{succeeded}");
    }
    Ok(())
}

#[test]
fn others_live_while_many_wait_for_one_slot() -> anyhow::Result<()> {
    let (names, counted) = measured("blocked", "sqlite")?;
    holds(&names, &["lifecycle, nothing blocked", "lifecycle behind jobs blocked on one slot"])?;
    // And the one that holds the slot.
    ensure!(counted == (jobs_of(2) + WAITING + 1, jobs_of(2)), "{counted:?}");
    Ok(())
}

#[test]
fn a_snapshot_is_held_while_jobs_live() -> anyhow::Result<()> {
    let (names, (enqueued, succeeded)) = measured("pinned", "postgres")?;
    holds(&names, &["lifecycle under a snapshot", "dead rows behind it at its end"])?;
    ensure!(enqueued == succeeded && enqueued > jobs_of(2), "{enqueued} and {succeeded}");
    Ok(())
}

#[test]
fn real_processes_run_through_shims() -> anyhow::Result<()> {
    let (names, (enqueued, succeeded)) = measured("spawn", "sqlite")?;
    holds(&names, &["processes through shims, 8 at once", "plain fork, exec and wait, 8 at once"])?;
    ensure!(enqueued == succeeded && enqueued == 32, "{enqueued} and {succeeded}");
    Ok(())
}

#[test]
fn a_job_is_explained_by_all_nodes() -> anyhow::Result<()> {
    let (names, counted) = measured("explain", "sqlite")?;
    holds(&names, &["explain, 5 nodes, 500 queued: answered, p50"])?;
    ensure!(counted == (WAITING, 0), "{counted:?}");
    Ok(())
}

#[test]
fn another_server_takes_over() -> anyhow::Result<()> {
    let (names, counted) = measured("takeover", "postgres")?;
    holds(&names, &["kill -9 of the leader → a job is stored, 500 wait"])?;
    holds(&names, &["the leader resigns → a job is stored, 500 wait"])?;
    ensure!(counted == (WAITING + 2, 0), "{counted:?}");
    Ok(())
}

#[test]
fn sizes_alone_include_those_of_jobs_and_sessions() -> anyhow::Result<()> {
    let (names, counted) = measured("sizes", "sqlite")?;
    holds(&names, &["idle agent, resident", "5 idle sessions: memory of each", "start with 500 that wait"])?;
    ensure!(counted == (WAITING, 0), "{counted:?}");
    Ok(())
}

/// One that measures, and leaves a process; one that fails half-way; one that cannot be installed.
const PEERS: [(&str, &str); 3] = [
    (
        "good",
        r#"[ "$1" = run ] || exit 0
test -n "$BENCH_POSTGRES" && test -d "$BENCH_WORK" || exit 3
sh -c 'sleep 600; true' "$0" &
echo '{"peer": "good 1", "about": "by hand", "fenced": true}'
echo '{"measure": "lifecycle_batch", "value": 0.5}'"#,
    ),
    (
        "half",
        r#"[ "$1" = run ] || exit 0
echo '{"peer": "half 2", "about": "by hand", "fenced": false}'
echo '{"measure": "drain", "value": 7}'
echo 'it broke' >&2
exit 1"#,
    ),
    ("none", "echo 'no such package' >&2; exit 1"),
];

#[test]
fn others_stand_in_one_table_and_nothing_of_them_is_left() -> anyhow::Result<()> {
    let peers = tempfile::tempdir()?;
    for (name, script) in PEERS {
        let directory = peers.path().join(name);
        std::fs::create_dir(&directory)?;
        let file = directory.join("run");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n"))?;
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    let path = peers.path().to_str().context("a path in UTF-8")?;
    let report = run_with("peers", "postgres", &["--peers", path])?;
    check(&report, "postgres")?;
    let found = list(&report, "peers")?;
    let of = |at: usize| found.get(at).with_context(|| format!("{} peers", found.len()));
    ensure!(of(0)?["name"] == "good 1" && of(0)?["measured"]["lifecycle_batch"] == 0.5, "{found:?}");
    ensure!(of(1)?["measured"]["drain"] == 7.0, "{found:?}");
    for (at, why) in [(1, "it broke"), (2, "no such package")] {
        let said = of(at)?["not_measured"].as_str().unwrap_or_default();
        ensure!(said.contains(why), "{said:?} does not say {why:?}");
    }
    wait("nothing of them runs", || running_below(peers.path()).is_empty())
}

#[test]
fn an_interrupted_bench_leaves_nothing_running() -> anyhow::Result<()> {
    let files = tempfile::tempdir()?;
    // Everything that it starts inherits where temporary files go, so that can be found by it.
    let mut command = bench(&["lifecycle", "--store", "postgres", "--seconds", "60"])?;
    std::fs::set_permissions(files.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let mut child =
        command.env("TMPDIR", files.path()).stderr(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a pid")?;
    let runs = || running_below(files.path());
    wait("the server runs", || runs().iter().any(|command| command.contains("server --config")))?;
    kill_process(pid, Signal::INT)?;
    let status = child.wait()?;
    ensure!(status.code() == Some(1), "{status}");
    wait("nothing runs", || runs().is_empty())
}

fn wait(what: &str, level: impl Fn() -> bool) -> anyhow::Result<()> {
    let began = tenure_tests::clock::Moment::now();
    while !level() {
        ensure!(began.elapsed() < tenure_tests::wait::PATIENCE, "not in time: {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(())
}

/// The command lines of processes that name a file below a directory.
fn running_below(directory: &Path) -> Vec<String> {
    let entries =
        std::fs::read_dir("/proc").map(|entries| entries.flatten().collect()).unwrap_or_else(|_| Vec::new());
    let lines = entries.iter().map(|entry| entry.path().join("cmdline"));
    let lines = lines.filter_map(|path| Some(std::fs::read_to_string(path).ok()?.replace('\0', " ")));
    let name = directory.to_string_lossy().into_owned();
    lines.filter(|line| line.contains(&name)).collect()
}

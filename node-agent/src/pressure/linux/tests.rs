//! The readers against this host's own files, and against trees that other hosts would have.

use std::fs;

use super::*;
use crate::pressure::signals::{Stalled, Window};

/// A root directory with a few files of `/proc` and `/sys` below it.
struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let fixture = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            fixture.write(path, text);
        }
        fixture
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn reader(&self) -> Reader {
        Reader::at(self.0.path(), vec![self.0.path().to_owned()], Duration::from_secs(5))
    }

    fn read(&self, signal: Signal) -> Value {
        read(&mut self.reader(), 100, signal)
    }
}

fn key(signal: Signal, uids: &[u32]) -> Key {
    Key { signal, uids: uids.to_vec() }
}

fn read(reader: &mut Reader, second: u64, signal: Signal) -> Value {
    read_of(reader, second, signal, &[])
}

fn read_of(reader: &mut Reader, second: u64, signal: Signal, uids: &[u32]) -> Value {
    let key = key(signal, uids);
    let samples = reader.read(Mono::from_micros(second * 1_000_000), &BTreeSet::from([key.clone()]));
    samples.0[&key].1
}

fn number(value: Value) -> f64 {
    let Value::Known { value, .. } = value else { panic!("{value:?}") };
    value
}

const MEMINFO: &str = "MemTotal:       8192 kB\nMemFree:        1024 kB\nMemAvailable:   4096 kB\nBuffers:        0 kB\n\
    Cached:         0 kB\nSwapCached:     0 kB\nActive:         0 kB\nInactive:       0 kB\nSwapTotal:      1000 kB\n\
    SwapFree:       250 kB\nDirty:          0 kB\nWriteback:      0 kB\nMapped:         0 kB\nSlab:           0 kB\n\
    Committed_AS:   0 kB\nVmallocTotal:   0 kB\nVmallocUsed:    0 kB\nVmallocChunk:   0 kB\nHardwareCorrupted: 0 kB\n\
    AnonPages: 0 kB\nPageTables: 0 kB\n";

#[test]
fn this_host_gives_every_signal_or_says_that_it_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let mut reader = Reader::new(vec![dir.path().to_owned()], Duration::from_secs(5));
    let names = "psi.memory.full.avg10 psi.io.some.avg60 psi.cpu.some.avg10 mem.headroom mem.headroom_pct oom.kills \
        procs.used tasks.used tasks.used_pct tasks.headroom fds.used_pct disk.free disk.free_pct inodes.free_pct \
        load.per_cpu swap.used_pct swap.rate";
    let own = rustix::process::geteuid().as_raw();
    let keys: BTreeSet<Key> = names
        .split_whitespace()
        .map(|name| name.parse().unwrap())
        .map(|signal: Signal| {
            key(signal, if signal.counts_a_user() { std::slice::from_ref(&own) } else { &[] })
        })
        .collect();
    let first = reader.read(Mono::from_micros(1_000_000), &keys);
    let second = reader.read(Mono::from_micros(2_000_000), &keys);
    assert_eq!(first.0.len(), keys.len());
    for (key, (_, value)) in &second.0 {
        let Value::Known { value, .. } = *value else {
            assert_eq!(*value, Value::Unsupported, "{}", key.signal);
            continue;
        };
        assert!(value.is_finite() && value >= 0.0, "{} is {value}", key.signal);
        assert!(!key.signal.is_percentage() || value <= 100.0, "{} is {value}", key.signal);
    }
    assert_eq!(first.0[&key(Signal::SwapRate, &[])].1, Value::Pending);
    assert!(number(second.0[&key(Signal::ProcsUsed, &[own])].1) >= 1.0);
    assert!(number(second.0[&key(Signal::MemHeadroom, &[])].1) > 1_000_000.0);
}

#[test]
fn the_host_alone_has_its_available_memory() {
    let fixture = Fixture::new(&[("proc/meminfo", MEMINFO)]);
    assert_eq!(fixture.read(Signal::MemHeadroom), Value::Known { value: 4_194_304.0, scale: 0.0 });
    assert_eq!(fixture.read(Signal::MemHeadroomPct), Value::Known { value: 50.0, scale: 8_388_608.0 });
    assert_eq!(fixture.read(Signal::SwapUsedPct), Value::Known { value: 75.0, scale: 1_024_000.0 });
}

#[test]
fn the_tightest_cgroup_of_version_2_counts() {
    let fixture = Fixture::new(&[
        ("proc/meminfo", MEMINFO),
        ("proc/self/cgroup", "0::/system.slice/agent.service\n"),
        ("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"),
        ("sys/fs/cgroup/cgroup.procs", ""),
        ("sys/fs/cgroup/system.slice/memory.max", "2097152\n"),
        ("sys/fs/cgroup/system.slice/memory.current", "1572864\n"),
        ("sys/fs/cgroup/system.slice/memory.stat", "anon 5\ninactive_file 262144\n"),
        ("sys/fs/cgroup/system.slice/agent.service/memory.max", "max\n"),
        ("sys/fs/cgroup/system.slice/agent.service/memory.current", "1048576\n"),
        (
            "sys/fs/cgroup/system.slice/agent.service/memory.pressure",
            "some avg10=7.00 avg60=0.00 avg300=0.00 total=1\n",
        ),
    ]);
    assert_eq!(fixture.read(Signal::MemHeadroom), Value::Known { value: 786_432.0, scale: 0.0 });
    assert_eq!(fixture.read(Signal::MemHeadroomPct), Value::Known { value: 37.5, scale: 2_097_152.0 });
    let stalls = Signal::Psi(Resource::Memory, Stalled::Some, Window::Avg10);
    assert_eq!(number(fixture.read(stalls)), 7.0, "the cgroup's own, where the host has none");
}

#[test]
fn version_1_beside_version_2_counts_too() {
    let fixture = Fixture::new(&[
        ("proc/meminfo", MEMINFO),
        ("proc/self/cgroup", "8:pids:/box\n4:memory:/docker/abc\n0::/\n"),
        (
            "proc/self/mountinfo",
            "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
             39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
        ),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n"),
        ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 4096\n"),
        ("sys/fs/cgroup/pids/box/pids.max", "50\n"),
        ("sys/fs/cgroup/pids/box/pids.current", "45\n"),
        (
            "proc/self/limits",
            "Max processes             1000                 1000                 processes \n",
        ),
        ("proc/sys/kernel/pid_max", "32768\n"),
        ("proc/sys/kernel/threads-max", "20000\n"),
        ("proc/1/status", "Name:\tinit\nUid:\t0\t0\t0\t0\nThreads:\t1\n"),
    ]);
    assert_eq!(number(fixture.read(Signal::MemHeadroom)), 4096.0);
    assert_eq!(number(read_of(&mut fixture.reader(), 1, Signal::TasksHeadroom, &[0])), 5.0);
    assert_eq!(
        read_of(&mut fixture.reader(), 1, Signal::TasksUsedPct, &[0]),
        Value::Known { value: 90.0, scale: 50.0 }
    );
}

#[test]
fn an_agent_in_its_own_leaf_feels_what_its_jobs_do() {
    let leaf = "/agent.service/tenure-0123456789abcdef/agent";
    let fixture = Fixture::new(&[
        ("proc/self/cgroup", &format!("0::{leaf}\n")),
        ("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"),
        (&format!("sys/fs/cgroup{leaf}/memory.pressure"), ""),
    ]);
    let stalls = Cgroups::find(fixture.0.path()).stalls(Resource::Memory).unwrap();
    assert!(stalls.ends_with("agent.service/memory.pressure"), "{stalls:?}");
}

#[test]
fn a_cgroup_of_another_namespace_is_the_mount_point() {
    let fixture = Fixture::new(&[
        ("proc/meminfo", MEMINFO),
        ("proc/self/cgroup", "0::/../../other\n"),
        ("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("sys/fs/cgroup/memory.max", "1000\n"),
        ("sys/fs/cgroup/memory.current", "400\n"),
    ]);
    assert_eq!(number(fixture.read(Signal::MemHeadroom)), 600.0);
}

#[test]
fn an_absurd_meminfo_is_unknown() {
    let more_than_all = MEMINFO.replace("MemAvailable:   4096", "MemAvailable:   9999");
    for text in ["", "garbage", more_than_all.as_str()] {
        assert_eq!(
            Fixture::new(&[("proc/meminfo", text)]).read(Signal::MemHeadroom),
            Value::Unknown,
            "{text}"
        );
    }
}

#[test]
fn processes_and_threads_are_counted_by_real_user() {
    let status = |uid: u32, threads: u32| format!("Name:\tx\nUid:\t{uid}\t9\t9\t9\nThreads:\t{threads}\n");
    let fixture = Fixture::new(&[
        ("proc/10/status", &status(1000, 1)),
        ("proc/11/status", &status(1000, 30)),
        ("proc/12/status", &status(1001, 2)),
        ("proc/13/status", "Name:\tgone\n"),
        ("proc/uptime", "1 1\n"),
        (
            "proc/self/limits",
            "Max processes             40                   80                   processes \n",
        ),
        ("proc/sys/kernel/pid_max", "330\n"),
        ("proc/sys/kernel/threads-max", "unlimited?\n"),
    ]);
    assert_eq!(
        read_of(&mut fixture.reader(), 1, Signal::ProcsUsed, &[1000]),
        Value::Unknown,
        "a broken ceiling"
    );
    fixture.write("proc/sys/kernel/threads-max", "1000\n");
    let of = |signal, uids: &[u32]| number(read_of(&mut fixture.reader(), 1, signal, uids));
    assert_eq!(of(Signal::ProcsUsed, &[1000]), 2.0);
    assert_eq!(of(Signal::TasksUsed, &[1000]), 31.0);
    assert_eq!(of(Signal::TasksUsed, &[1000, 1001]), 31.0, "the largest");
    assert_eq!(of(Signal::TasksHeadroom, &[1000, 1001]), 9.0, "the least");
    assert_eq!(of(Signal::TasksHeadroom, &[1001]), 38.0);
    assert_eq!(of(Signal::TasksUsedPct, &[1000]), 77.5);
    assert_eq!(of(Signal::TasksHeadroom, &[0]), 297.0, "root has only the host's ceilings");
}

#[test]
fn processes_are_counted_only_so_often() {
    let fixture = Fixture::new(&[
        ("proc/10/status", "Uid:\t5\t5\t5\t5\nThreads:\t1\n"),
        ("proc/self/limits", ""),
        ("proc/sys/kernel/pid_max", "100\n"),
        ("proc/sys/kernel/threads-max", "100\n"),
    ]);
    let mut reader = fixture.reader();
    assert_eq!(number(read_of(&mut reader, 10, Signal::ProcsUsed, &[5])), 1.0);
    fixture.write("proc/11/status", "Uid:\t5\t5\t5\t5\nThreads:\t1\n");
    let key = key(Signal::ProcsUsed, &[5]);
    let samples = reader.read(Mono::from_micros(14_000_000), &BTreeSet::from([key.clone()]));
    assert_eq!(samples.0[&key], (Mono::from_micros(10_000_000), Value::Known { value: 1.0, scale: 0.0 }));
    assert_eq!(number(read_of(&mut reader, 15, Signal::ProcsUsed, &[5])), 2.0);
}

#[test]
fn the_nearest_ceiling_of_open_files_counts() {
    let fixture = Fixture::new(&[
        ("proc/sys/fs/file-nr", "500\t100\t1000\n"),
        ("proc/self/fd/0", ""),
        ("proc/self/fd/1", ""),
        (
            "proc/self/limits",
            "Max open files            4                    8                    files     \n",
        ),
    ]);
    assert_eq!(fixture.read(Signal::FdsUsedPct), Value::Known { value: 50.0, scale: 4.0 });
    fixture.write("proc/sys/fs/file-nr", "900\t0\t1000\n");
    assert_eq!(fixture.read(Signal::FdsUsedPct), Value::Known { value: 90.0, scale: 1000.0 });
}

#[test]
fn kills_count_for_five_minutes() {
    let fixture = Fixture::new(&[("proc/vmstat", "pgfault 5\noom_kill 3\n")]);
    let mut reader = fixture.reader();
    let mut kills = |second: u64, count: u64| {
        fixture.write("proc/vmstat", &format!("pgfault 5\noom_kill {count}\n"));
        number(read(&mut reader, second, Signal::OomKills))
    };
    assert_eq!(kills(10, 3), 0.0, "what was before the agent is not counted");
    assert_eq!(kills(11, 4), 1.0);
    assert_eq!(kills(100, 4), 1.0);
    assert_eq!(kills(200, 6), 3.0);
    assert_eq!(kills(310, 6), 3.0);
    assert_eq!(kills(312, 6), 2.0);
    assert_eq!(kills(499, 6), 2.0);
    assert_eq!(kills(501, 6), 0.0);
    assert!(reader.kills.len() < 5);
}

#[test]
fn swapping_is_a_rate() {
    let fixture = Fixture::new(&[("proc/vmstat", "pswpin 100\npswpout 50\n")]);
    let mut reader = fixture.reader();
    assert_eq!(read(&mut reader, 10, Signal::SwapRate), Value::Pending);
    fixture.write("proc/vmstat", "pswpin 140\npswpout 60\n");
    assert_eq!(number(read(&mut reader, 15, Signal::SwapRate)), 10.0);
}

#[test]
fn what_is_not_there_is_unsupported() {
    let fixture = Fixture::new(&[]);
    for signal in
        [Signal::Psi(Resource::Io, Stalled::Full, Window::Avg10), Signal::OomKills, Signal::SwapRate]
    {
        assert_eq!(fixture.read(signal), Value::Unsupported, "{signal}");
    }
    let cpu = Fixture::new(&[("proc/pressure/cpu", "some avg10=1.00 avg60=0.00 avg300=0.00 total=9\n")]);
    assert_eq!(number(cpu.read(Signal::Psi(Resource::Cpu, Stalled::Some, Window::Avg10))), 1.0);
    assert_eq!(cpu.read(Signal::Psi(Resource::Cpu, Stalled::Full, Window::Avg10)), Value::Unsupported);
}

#[test]
fn a_directory_that_is_gone_is_no_room() {
    let mut reader = Reader::new(vec!["/nonexistent".into()], Duration::from_secs(5));
    assert_ne!(read(&mut reader, 1, Signal::DiskFree), Value::Known { value: 0.0, scale: 0.0 });
}

//! What an agent makes of hosts that hand over all, some or nothing: hosts made of plain files, and this one.

use super::*;

/// A state directory and the files of a host.
struct Host {
    root: tempfile::TempDir,
    state: tempfile::TempDir,
}

impl Host {
    /// Of a process in `path`, below which the agent's part has the files of a cgroup.
    fn with(path: &str) -> Self {
        let host = Self { root: tempfile::tempdir().unwrap(), state: tempfile::tempdir().unwrap() };
        host.file("proc/self/cgroup", &format!("0::{path}\n"));
        let line = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";
        host.file("proc/self/mountinfo", line);
        let base = format!("sys/fs/cgroup{path}");
        host.file(&format!("{base}/cgroup.procs"), "");
        for part in ["", "/agent", "/shims", "/attempts"] {
            let dir = format!("{base}/{}{part}", host.name());
            host.file(&format!("{dir}/cgroup.type"), "domain\n");
            host.file(&format!("{dir}/cgroup.procs"), "");
        }
        host
    }

    fn name(&self) -> String {
        format!("tenure-{}", Owner::of(self.state.path()).unwrap().as_str())
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A file of a cgroup of the agent's part.
    fn own(&self, path: &str, name: &str) -> PathBuf {
        self.root.path().join("sys/fs/cgroup").join(path.trim_start_matches('/')).join(self.name()).join(name)
    }

    fn prepare(&self) -> Subtree {
        Subtree::prepare_at(self.root.path(), self.state.path())
    }
}

const SERVICE: &str = "/system.slice/agent.service";

fn has_everything(path: &str) -> Host {
    let host = Host::with(path);
    for dir in [String::new(), format!("/{}", host.name()), format!("/{}/attempts", host.name())] {
        for file in ["cgroup.controllers", "cgroup.subtree_control"] {
            host.file(&format!("sys/fs/cgroup{path}{dir}/{file}"), "cpuset cpu io memory hugetlb pids\n");
        }
    }
    host
}

#[test]
fn a_host_that_hands_over_everything_contains_fully() {
    let host = has_everything(SERVICE);
    host.file(&format!("sys/fs/cgroup{SERVICE}/{}/shims/cpu.weight", host.name()), "100\n");
    let subtree = host.prepare();
    assert_eq!((subtree.containment(), subtree.shortfall()), (Containment::Full, None));
    assert_eq!(fs::read_to_string(host.own(SERVICE, "shims/cpu.weight")).unwrap(), "1000");

    let limits =
        Limits { memory: Some(1 << 30), tasks: Some(50), cpu_millis: Some(500), ..Limits::default() };
    assert!(subtree.unenforced(&limits, true).is_empty());
    let place = subtree.place(7, &limits).unwrap();
    assert_eq!(place.attempt, host.own(SERVICE, "attempts/7"));
    assert!(place.limits_tasks());

    // The kernel makes the files with the directory.
    for file in ["cgroup.procs", "memory.max", "memory.oom.group", "pids.max", "cpu.max"] {
        host.file(&format!("sys/fs/cgroup{SERVICE}/{}/attempts/7/{file}", host.name()), "");
    }
    host.file(&format!("sys/fs/cgroup{SERVICE}/{}/attempts/7/cgroup.events", host.name()), "populated 0\n");
    place.enter().unwrap();
    let written = |file: &str| fs::read_to_string(place.attempt.join(file)).unwrap();
    assert_eq!(written("memory.max"), "1073741824");
    assert_eq!(written("memory.oom.group"), "1");
    assert_eq!(written("pids.max"), "50");
    assert_eq!(written("cpu.max"), "50000 100000");
    assert!(
        !place.attempt.join("memory.swap.max").exists(),
        "a kernel without swap accounting is good enough"
    );
    assert_eq!(fs::read_to_string(place.shims.join("cgroup.procs")).unwrap(), "0");
}

#[test]
fn a_limit_that_cannot_be_written_keeps_the_attempt_from_starting() {
    let host = has_everything(SERVICE);
    let place = host.prepare().place(7, &Limits { tasks: Some(5), ..Limits::default() }).unwrap();
    let error = place.enter().unwrap_err();
    assert!(error.to_string().contains("memory.oom.group = 1"), "{error}");
    assert!(!place.attempt.exists(), "it is removed");
}

#[test]
fn a_cgroup_of_the_same_token_that_holds_somebody_is_not_taken() {
    let host = has_everything(SERVICE);
    let place = host.prepare().place(7, &Limits::default()).unwrap();
    host.file(&format!("sys/fs/cgroup{SERVICE}/{}/attempts/7/cgroup.events", host.name()), "populated 1\n");
    assert_eq!(place.enter().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn a_host_without_the_controllers_contains_in_part_and_says_what_is_missing() {
    let host = Host::with("/");
    host.file("sys/fs/cgroup/cgroup.controllers", "hugetlb\n");
    let subtree = host.prepare();
    assert_eq!(subtree.containment(), Containment::Partial);
    let why = subtree.shortfall().unwrap();
    assert!(why.starts_with("memory, pids, cpu is not to be had in "), "{why}");
    let limits = Limits { memory: Some(1 << 30), tasks: Some(5), cpu_millis: Some(500), ..Limits::default() };
    assert_eq!(subtree.unenforced(&limits, true), ["memory", "tasks", "cpu"]);
    assert_eq!(
        subtree.unenforced(&limits, false),
        ["memory", "cpu"],
        "a user's threads are limited otherwise"
    );
    let place = subtree.place(7, &limits).unwrap();
    assert!(place.settings.is_empty() && !place.limits_tasks());
}

#[test]
fn controllers_are_asked_for_where_the_cgroup_is_handed_over() {
    let host = Host::with(SERVICE);
    host.file(&format!("sys/fs/cgroup{SERVICE}/cgroup.controllers"), "memory\n");
    host.file(&format!("sys/fs/cgroup{SERVICE}/cgroup.subtree_control"), "");
    let subtree = host.prepare();
    let control = host.root.path().join(format!("sys/fs/cgroup{SERVICE}/cgroup.subtree_control"));
    assert_eq!(fs::read_to_string(&control).unwrap(), "+memory", "no systemd governs it");
    assert_eq!(subtree.containment(), Containment::Partial);

    // The same where systemd governs and says nothing of handing over. (Root: it owns everything here.)
    if rustix::process::geteuid().is_root() {
        host.file(&format!("sys/fs/cgroup{SERVICE}/cgroup.subtree_control"), "");
        fs::create_dir_all(host.root.path().join("run/systemd/system")).unwrap();
        let subtree = host.prepare();
        assert_eq!(fs::read_to_string(&control).unwrap(), "", "it is left alone");
        assert!(subtree.shortfall().unwrap().contains("Delegate=yes"), "{subtree:?}");
        assert_eq!(subtree.containment(), Containment::Partial, "attempts are held all the same");
    }
}

#[test]
fn a_leaf_that_a_service_manager_made_for_the_agent_is_not_what_it_handed_over() {
    let host = Host::with(SERVICE);
    let mount = host.root.path().join("sys/fs/cgroup");
    let service = host.root.path().join(format!("sys/fs/cgroup{SERVICE}"));
    let leaf = service.join("main");
    fs::create_dir(&leaf).unwrap();
    assert_eq!(handed_over(&mount, leaf.clone()), leaf, "nobody says so");
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::setxattr(&service, "user.delegate", b"1", flags) {
        eprintln!("skipped: this file system takes no attributes: {error}");
        return;
    }
    assert_eq!(handed_over(&mount, leaf), service);
    assert_eq!(handed_over(&mount, service.join("init.scope")), service.join("init.scope"));
    assert_eq!(handed_over(&mount, service.clone()), service);
    fs::create_dir_all(host.root.path().join("run/systemd/system")).unwrap();
    assert!(is_delegated(host.root.path(), &mount, &service));
}

#[test]
fn an_agent_that_starts_in_its_own_leaf_finds_the_cgroup_above() {
    let name = "tenure-0123456789abcdef";
    let above = |path: &str| above_subtree(Path::new(path)).display().to_string();
    assert_eq!(above(&format!("/c/x.service/{name}/agent")), "/c/x.service");
    assert_eq!(above(&format!("/c/x.service/{name}")), format!("/c/x.service/{name}"), "nobody stands there");
    // Started by a job of another agent: it stays below that, and ends with it.
    let nested = format!("/c/{name}/attempts/7");
    assert_eq!(above(&nested), nested);
    assert_eq!(above("/c/tenure-x/agent"), "/c/tenure-x/agent");
}

#[test]
fn a_host_without_cgroups_of_version_2_is_weak_and_says_why() {
    let host = Host { root: tempfile::tempdir().unwrap(), state: tempfile::tempdir().unwrap() };
    host.file("proc/self/cgroup", "8:pids:/\n");
    host.file("proc/self/mountinfo", "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n");
    let subtree = host.prepare();
    assert_eq!(subtree.containment(), Containment::Weak);
    assert!(subtree.shortfall().unwrap().contains("version 2"), "{subtree:?}");
    assert_eq!(subtree.place(7, &Limits::default()), None);
    let threaded = Host::with("/");
    threaded.file(&format!("sys/fs/cgroup/{}/attempts/cgroup.type", threaded.name()), "domain invalid\n");
    let subtree = threaded.prepare();
    assert_eq!(subtree.containment(), Containment::Weak);
    assert!(subtree.shortfall().unwrap().contains("for threads"), "{subtree:?}");
    let refused = Subtree::prepare(Wanted::None, host.state.path());
    assert_eq!(refused.containment(), Containment::Weak);
}

#[test]
fn a_state_file_names_no_cgroup_but_its_own() {
    let host = Host::with("/");
    let owner = Owner::of(host.state.path()).unwrap();
    let tag = owner.tag(7).unwrap();
    let named = |path: &str| Cgroup::recorded(Path::new(path), &tag, 7).is_some();
    let name = host.name();
    assert!(named(&format!("/sys/fs/cgroup/{name}/attempts/7")));
    for other in [
        format!("/sys/fs/cgroup/{name}/attempts/8"),
        format!("/sys/fs/cgroup/{name}/shims/7"),
        "/sys/fs/cgroup/tenure-0123456789abcdef/attempts/7".to_owned(),
        format!("sys/fs/cgroup/{name}/attempts/7"),
        "/sys/fs/cgroup/system.slice".to_owned(),
        "/".to_owned(),
        format!("/sys/fs/cgroup/{name}/attempts/7/.."),
    ] {
        assert!(!named(&other), "{other}");
    }
}

/// This host, where it lets us.
#[test]
fn what_forks_in_a_frozen_cgroup_is_killed_without_the_kernels_own_word() {
    let state = tempfile::tempdir().unwrap();
    let subtree = Subtree::prepare(Wanted::Auto, state.path());
    let Some(place) = subtree.place(7, &Limits::default()) else {
        eprintln!("skipped: {:?}", subtree.shortfall());
        return;
    };
    let cgroup = place.cgroup();
    DirBuilder::new().create(cgroup.dir()).unwrap();
    // Every generation starts the next; bounded in case the kill fails.
    let script = format!(
        "echo $$ > {}/cgroup.procs; f() {{ [ $1 -gt 0 ] && (sleep 0.01; f $(($1-1))) & }}; f 2000; f 2000; sleep 60",
        cgroup.dir().display()
    );
    let mut child = std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let deadline = Clock::Monotonic.now() + Duration::from_secs(20);
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        while !done() {
            assert!(Clock::Monotonic.now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    wait("it forks", &|| cgroup.pids().len() > 2);
    wait("it is gone", &|| {
        cgroup.freeze_and_kill();
        !cgroup.is_populated().unwrap()
    });
    child.wait().unwrap();
    cgroup.remove();
    assert!(!cgroup.dir().exists());
    subtree.leave();
    assert!(!place.shims.exists(), "nothing is left of its part");
}

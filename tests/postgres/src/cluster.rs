//! One cluster: its files, its processes, its databases.

use std::{
    fs::{self, File},
    io::{Error, Result},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread::sleep,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    disk::{self, Disk},
    install::Install,
};

/// How long a start may take, the statements that ask not counted.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks.
const GLANCE: Duration = Duration::from_millis(20);

/// It names the socket only: nothing listens on the network.
const PORT: &str = "5432";

/// Starts Postgres, and ends it when the pipe on the standard input closes. What is left then is removed, if asked for.
const KEEPER: &str = r#"
postgres=$1 directory=$2; shift 2
"$postgres" "$@" </dev/null &
pid=$!
read -r keep
kill -QUIT "$pid" 2>/dev/null
wait "$pid"
[ "$keep" = keep ] || rm -rf "$directory"
"#;

/// Of every cluster.
const COMMON: [&str; 3] = ["listen_addresses=", "max_connections=60", "log_min_messages=warning"];

/// Of one that need not survive the death of the machine.
const FAST: [&str; 3] = ["fsync=off", "full_page_writes=off", "shared_buffers=32MB"];

/// Of one that must: what Postgres does if nobody says anything, said aloud.
const DURABLE: [&str; 4] =
    ["fsync=on", "full_page_writes=on", "synchronous_commit=on", "shared_buffers=128MB"];

/// A running Postgres.
#[derive(Debug)]
pub struct Cluster {
    install: Install,
    directory: PathBuf,
    settings: &'static [&'static str],
    /// The disk of its files, if that is one of its own.
    disk: Option<Disk>,
    /// The shell that keeps Postgres. None: it is stopped.
    keeper: Mutex<Option<Child>>,
    databases: AtomicU32,
}

impl Cluster {
    /// Makes a cluster and starts it. Its commits are not flushed to the disk: it survives the death of its processes,
    /// not that of the machine.
    ///
    /// # Errors
    /// If there is no Postgres on this machine, with what to do, or it does not start, with its log.
    pub fn start() -> Result<Self> {
        Self::start_with(&FAST)
    }

    /// Makes a cluster and starts it, with every commit flushed to the disk, as in production: for measurements.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_durable() -> Result<Self> {
        Self::start_with(&DURABLE)
    }

    /// As [`Cluster::start`], on a disk of its own of so many MiB, which [`Cluster::fill_disk`] fills. Needs root.
    ///
    /// # Errors
    /// As [`Cluster::start`], or if the disk cannot be mounted.
    pub fn start_on_small_disk(mib: u32) -> Result<Self> {
        Self::start_on(&FAST, Some(mib))
    }

    fn start_with(settings: &'static [&'static str]) -> Result<Self> {
        Self::start_on(settings, None)
    }

    fn start_on(settings: &'static [&'static str], disk: Option<u32>) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let install = Install::find()?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Short: a socket's path has about a hundred characters.
        let directory = std::env::temp_dir().join(format!("tenure-pg-{}-{count}", std::process::id()));
        if directory.exists() {
            // Of an earlier process with this id, which is gone.
            fs::remove_dir_all(&directory)?;
        }
        make(&directory, &install)?;
        let data = directory.join("data");
        let disk = disk.map(|mib| Disk::mount(&data, mib, &install)).transpose()?;
        let seen = disk.as_ref().map_or_else(|| data.clone(), |disk| disk.seen(&data));
        let mut copy = if disk.is_some() {
            install.as_root("cp") // nobody else may look through the eyes of another process
        } else {
            make(&data, &install)?;
            install.as_user(Command::new("cp"))
        };
        run(copy.arg("-a").arg(template(&install)?.join(".")).arg(&seen))?;
        let (keeper, databases) = (Mutex::new(None), AtomicU32::new(0));
        let cluster = Self { install, directory, settings, disk, keeper, databases };
        cluster.start_again()?;
        Ok(cluster)
    }

    /// Makes an empty database. Its URL.
    ///
    /// # Errors
    /// What Postgres says.
    pub fn database(&self) -> Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.run_sql("postgres", &format!("create database {name}"))?;
        Ok(format!("postgres://postgres@localhost:{PORT}/{name}?host={}", self.directory.display()))
    }

    /// What the programs of Postgres, and whoever reads the same variables, need to find it: as its superuser.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, PathBuf); 3] {
        [("PGHOST", self.directory.clone()), ("PGPORT", PORT.into()), ("PGUSER", "postgres".into())]
    }

    /// Where those programs are.
    #[must_use]
    pub fn programs(&self) -> &Path {
        self.install.programs()
    }

    /// Runs a statement in a database, as its superuser.
    ///
    /// # Errors
    /// What Postgres says.
    pub fn run_sql(&self, database: &str, statement: &str) -> Result<()> {
        let mut psql = self.install.program("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-p", PORT, "-d", database]);
        run(psql.arg("-h").arg(&self.directory).args(["-c", statement]))
    }

    /// Kills its first process with SIGKILL; the others end by themselves, without a checkpoint.
    ///
    /// # Errors
    /// If it does not run.
    pub fn crash(&self) -> Result<()> {
        kill_process(self.first()?, Signal::KILL)?;
        self.stop()
    }

    /// Stops its processes where they are, as a host does that hangs: connections stay, and nobody answers.
    ///
    /// # Errors
    /// If it does not run.
    pub fn freeze(&self) -> Result<()> {
        // The first one first: it starts no more of them then.
        let first = self.first()?;
        kill_process(first, Signal::STOP)?;
        children(first)?.into_iter().try_for_each(|pid| signal(pid, Signal::STOP))
    }

    /// Lets them go on.
    ///
    /// # Errors
    /// If it does not run.
    pub fn thaw(&self) -> Result<()> {
        let first = self.first()?;
        children(first)?.into_iter().try_for_each(|pid| signal(pid, Signal::CONT))?;
        signal(first, Signal::CONT)
    }

    /// Its files, as this process sees them.
    fn data(&self) -> PathBuf {
        let data = self.directory.join("data");
        self.disk.as_ref().map_or_else(|| data.clone(), |disk| disk.seen(&data))
    }

    /// Fills its disk to the last byte.
    ///
    /// # Errors
    /// If it has no disk of its own.
    pub fn fill_disk(&self) -> Result<()> {
        self.disk.as_ref().ok_or_else(|| Error::other("it shares its disk"))?;
        disk::fill(&self.data())
    }

    /// Makes room again.
    ///
    /// # Errors
    /// If it was not filled.
    pub fn free_disk(&self) -> Result<()> {
        disk::free(&self.data())
    }

    /// Its first process.
    fn first(&self) -> Result<Pid> {
        let file = fs::read_to_string(self.data().join("postmaster.pid"))?;
        let pid = file.lines().next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        pid.ok_or_else(|| Error::other("postmaster.pid names no process"))
    }

    /// Ends its processes at once, without a checkpoint, and keeps its files.
    ///
    /// # Errors
    /// If they do not end.
    pub fn stop(&self) -> Result<()> {
        self.wake();
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        keeper.take().map_or(Ok(()), |keeper| end(keeper, "keep\n"))
    }

    /// Frozen processes take no other signal. That it was not frozen, or is gone, is no error.
    fn wake(&self) {
        self.thaw().unwrap_or_default();
    }

    /// Makes a standby of it, as a failover does of the old primary: it may be read and not written to. It follows
    /// nobody; [`Cluster::promote`] makes a primary of it again.
    ///
    /// # Errors
    /// If it does not start, with its log.
    pub fn demote(&self) -> Result<()> {
        self.stop()?;
        let signal = self.data().join("standby.signal");
        fs::write(&signal, "")?;
        self.install.own(&signal)?;
        self.start_again()
    }

    /// The other way round.
    ///
    /// # Errors
    /// What Postgres says.
    pub fn promote(&self) -> Result<()> {
        self.run_sql("postgres", "select pg_promote()")
    }

    /// Starts it on its files.
    ///
    /// # Errors
    /// If it does not start, with its log.
    pub fn start_again(&self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.directory.join("log"))?;
        let mut sh = match &self.disk {
            None => self.install.as_user(Command::new("sh")),
            Some(disk) => disk.enter(&self.install),
        };
        sh.args(["-c", KEEPER, "sh"]).arg(self.install.path("postgres")).arg(&self.directory);
        sh.arg("-D").arg(self.directory.join("data")).arg("-k").arg(&self.directory).args(["-p", PORT]);
        for setting in COMMON.iter().chain(self.settings) {
            sh.args(["-c", setting]);
        }
        let keeper = sh.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut kept = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let keeper = kept.insert(keeper);
        // After a crash its other processes may take a moment to end, in which it refuses to start.
        let mut waited = Duration::ZERO;
        while self.run_sql("postgres", "select 1").is_err() {
            waited += GLANCE;
            if waited > PATIENCE || keeper.try_wait()?.is_some() {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                return Err(Error::other(format!("Postgres does not start\n{log}")));
            }
            sleep(GLANCE);
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.wake();
        let keeper = self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Without one nobody removes the files; in a drop nobody can do more than try.
        match keeper {
            Some(keeper) => end(keeper, "").unwrap_or_default(),
            None => fs::remove_dir_all(&self.directory).unwrap_or_default(),
        }
    }
}

/// Tells the keeper what becomes of the files, closes its pipe, and waits for its end.
fn end(mut keeper: Child, word: &str) -> Result<()> {
    if let Some(mut pipe) = keeper.stdin.take() {
        std::io::Write::write_all(&mut pipe, word.as_bytes())?;
    }
    keeper.wait().map(drop)
}

/// The processes that a process has started. Linux only, as those are that freeze it.
fn children(parent: Pid) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        // A process that ended meanwhile has no such file. Behind the name in brackets: the state, the parent.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let of = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        if of == Some(parent.as_raw_nonzero().get()) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// A process that ended by itself meanwhile is none to be signalled.
fn signal(pid: Pid, signal: Signal) -> Result<()> {
    match kill_process(pid, signal) {
        Err(error) if error != rustix::io::Errno::SRCH => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A directory for whoever the programs run as only.
fn make(directory: &Path, install: &Install) -> Result<()> {
    fs::DirBuilder::new().mode(0o700).create(directory)?;
    install.own(directory)
}

/// A new cluster, made once per version and machine and copied by every start: that is ten times faster than `initdb`.
fn template(install: &Install) -> Result<PathBuf> {
    // Tests of one process may want it at once; those of others make one of their own.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = std::env::temp_dir().join(format!("tenure-pg-template-{}", install.name()));
    if path.exists() {
        return trusted(path, install);
    }
    let new = path.with_extension(std::process::id().to_string());
    make(&new, install)?;
    let mut initdb = install.program("initdb");
    initdb.arg("-D").arg(&new);
    run(initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]))?;
    if fs::rename(&new, &path).is_err() {
        // Another process was faster.
        fs::remove_dir_all(&new)?;
    }
    trusted(path, install)
}

/// Others may write to the directory of temporary files.
fn trusted(path: PathBuf, install: &Install) -> Result<PathBuf> {
    let about = fs::symlink_metadata(&path)?;
    let ours = about.is_dir() && about.mode() & 0o077 == 0 && install.is_owner(about.uid());
    if ours { Ok(path) } else { Err(Error::other(format!("{} belongs to somebody else", path.display()))) }
}

/// Runs a program to its end; its output is its error.
fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Error::other(format!("{:?} ended with {}: {said}", command.get_program(), output.status)))
}

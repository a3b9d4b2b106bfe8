//! The job of every scenario: does what its payload says, and writes down when it did.
//!
//! Responsible for one line in the shared log at its start and at its end, and for the locks that prove, by the kernel
//! and not by clocks, that nothing of its job and no more than the capacity of its slots runs beside it. Its children
//! inherit the locks, so they are free only when the last process of the tree is gone.
//! Invariant: a line is one write of one O_APPEND file, so lines of many processes never mix.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getpid, kill_process, setsid};
use tenure_tests::clock::Moment;
use tenure_tests::intervals::{Need, Stamp};
use tenure_tests::script::{Script, Step, pile};

/// No test takes this long, tortures neither; a gate that nobody opens must not hold a process for ever.
const LONGEST: Duration = Duration::from_secs(1_800);
/// How often a job looks for units of a slot before it says that the slot is over its capacity.
const PASSES: u32 = 10;
/// Between two looks at a gate.
const LOOK: Duration = Duration::from_millis(10);
/// Between two looks for agents: long enough for one to begin something.
const HUNTS: Duration = Duration::from_millis(500);
/// The exit code of a job that waits for its children.
const DETACH: u8 = 79;
/// The exit code of a job whose gate nobody opened, or that could not even begin.
const BROKEN: u8 = 99;

fn main() -> ExitCode {
    let outcome = match env::args().nth(1).as_deref() {
        None => job(),
        Some("daemon") => daemon(),
        Some("child") => child(),
        Some("escape") => escape(),
        Some("ghost") => ghost(),
        Some(other) => Err(io::Error::other(format!("unknown role {other}"))),
    };
    outcome.unwrap_or_else(|error| {
        complain(&error.to_string());
        ExitCode::from(BROKEN)
    })
}

/// The command itself.
fn job() -> io::Result<ExitCode> {
    let bench = Bench::from_environment()?;
    let (mut locks, problems) = bench.take_locks()?;
    bench.write("start", &format!("slots={} problems={}", list(&locks.units), list(&problems)))?;
    let mut payload = String::new();
    io::stdin().read_to_string(&mut payload)?;
    let script = Script::parse(&payload).map_err(io::Error::other)?;
    let code = carry_out(&script, &bench, &mut locks)?;
    bench.write("end", &format!("exit={code}"))?;
    drop(locks);
    Ok(ExitCode::from(code))
}

/// Takes a session of its own, starts a child there and ends: nobody's child but the subreaper's.
fn daemon() -> io::Result<ExitCode> {
    setsid()?;
    another("child")?;
    Ok(ExitCode::SUCCESS)
}

/// Stays until it is killed.
fn child() -> io::Result<ExitCode> {
    Bench::from_environment()?.write("child", "")?;
    std::thread::sleep(LONGEST);
    Ok(ExitCode::SUCCESS)
}

/// As [`daemon`], but what stays behind cannot be known by its environment. Its pid is written down.
fn escape() -> io::Result<ExitCode> {
    let bench = Bench::from_environment()?;
    setsid()?;
    let ghost = haunt(&bench)?;
    bench.write_of("child", ghost.id(), "")?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a ghost: nothing in its environment tells whose it is. Its arguments do, to the tests alone.
fn haunt(bench: &Bench) -> io::Result<std::process::Child> {
    Command::new("/proc/self/exe").arg("ghost").arg(&bench.directory).env_clear().spawn()
}

/// Stays until it is killed, and by no less than that.
fn ghost() -> io::Result<ExitCode> {
    signal_hook::flag::register(Signal::TERM.as_raw(), Arc::new(AtomicBool::new(false)))?;
    let begun = Moment::now();
    while begun.elapsed() < LONGEST {
        std::thread::sleep(LONGEST);
    }
    Ok(ExitCode::SUCCESS)
}

fn carry_out(script: &Script, bench: &Bench, locks: &mut Locks) -> io::Result<u8> {
    for step in &script.steps {
        match step {
            Step::Wait(gate) => {
                if !bench.wait(gate) {
                    complain(&format!("nobody opened the gate {gate}"));
                    return Ok(BROKEN);
                }
            }
            Step::Require(gate) => {
                if !bench.gate(gate).exists() {
                    complain(&format!("the gate {gate} is not open"));
                    return Ok(1);
                }
            }
            Step::Open(gate) => drop(File::create(bench.gate(gate))?),
            Step::Sleep(millis) => std::thread::sleep(Duration::from_millis(*millis)),
            Step::Exit(code) => return Ok(*code),
            Step::FailFirst(attempts) => {
                let attempt: u32 = variable("TENURE_ATTEMPT")?.parse().map_err(io::Error::other)?;
                if attempt <= *attempts {
                    complain(&format!("attempt {attempt} fails as it was told to"));
                    return Ok(1);
                }
            }
            Step::IgnoreTerm => {
                signal_hook::flag::register(Signal::TERM.as_raw(), Arc::new(AtomicBool::new(false)))?;
            }
            Step::Daemon => {
                let mut started = another("daemon")?;
                started.wait()?;
            }
            Step::Spawn(children) => {
                for _ in 0..*children {
                    another("child")?;
                }
            }
            Step::Escape => {
                let mut started = another("escape")?;
                started.wait()?;
            }
            Step::Bomb(processes) => {
                let refused = (0..*processes).filter(|_| haunt(bench).is_err()).count();
                complain(&format!("{refused} of {processes} processes were refused"));
                return Ok(1);
            }
            Step::Fill(bytes) => fill(*bytes)?,
            Step::KillAgent => kill_agent()?,
            Step::Hunt => hunt(bench)?,
            Step::Flood(bytes) => flood(*bytes)?,
            Step::Result(text) => fs::write(variable("TENURE_RESULT")?, text)?,
            Step::Pile(bytes) => fs::write(variable("TENURE_RESULT")?, pile(*bytes))?,
            Step::Tell(name) => fs::write(variable("TENURE_RESULT")?, env::var(name).unwrap_or_default())?,
            Step::Attempt(words) => {
                let words: Vec<&str> = words.split(' ').collect();
                let status = attempt(&words)?.status()?;
                if !status.success() {
                    return Ok(status.code().and_then(|code| code.try_into().ok()).unwrap_or(BROKEN));
                }
            }
            Step::Park(family) => park(bench, locks, &children(family)?)?,
            Step::Detach(family) => {
                if env::var_os("TENURE_CHILD_RESULTS").is_none() {
                    let file = serde_json::json!({"children": children(family)?, "state": {"was": "here"}});
                    fs::write(variable("TENURE_WAIT")?, file.to_string())?;
                    return Ok(DETACH);
                }
                resume()?;
            }
            Step::Show(name) => {
                if let Some(path) = env::var_os(name) {
                    fs::copy(path, variable("TENURE_RESULT")?)?;
                }
            }
            Step::Gather => gather()?,
            Step::Say(text) => writeln!(io::stdout(), "{text}")?,
            Step::Print(text) => complain(text),
            Step::Heed(signal) => heed(*signal)?,
            Step::TellLeft => {
                if tell_left()? {
                    return Ok(0);
                }
            }
            Step::Signal(number) => {
                let signal =
                    Signal::from_named_raw(*number).ok_or_else(|| io::Error::other("no such signal"))?;
                kill_process(getpid(), signal)?;
                std::thread::sleep(LONGEST);
            }
        }
    }
    Ok(0)
}

/// Everything that a job is told by its environment.
struct Bench {
    directory: PathBuf,
    node: String,
    job: String,
    token: u64,
    attempt: u32,
    kind: String,
    needs: Vec<Need>,
}

/// Held for as long as the last process of the tree lives.
struct Locks {
    /// That no other execution of the job runs.
    #[expect(dead_code, reason = "held, not looked at")]
    job: Option<File>,
    /// That the slots have room.
    files: Vec<File>,
    /// `slot#unit`.
    units: Vec<String>,
}

impl Bench {
    fn from_environment() -> io::Result<Self> {
        Ok(Self {
            directory: PathBuf::from(variable("TEST_DIR")?),
            node: variable("TEST_NODE")?,
            job: variable("TENURE_JOB_ID")?,
            token: variable("TENURE_FENCE")?.parse().map_err(io::Error::other)?,
            attempt: variable("TENURE_ATTEMPT")?.parse().map_err(io::Error::other)?,
            kind: variable("TENURE_KIND")?,
            needs: Need::parse_all(&variable("TEST_NEEDS")?).map_err(io::Error::other)?,
        })
    }

    /// The job's own lock, and as many units of each slot as it needs. What it cannot have is a problem: two executions
    /// of one job at once, or a slot over its capacity.
    fn take_locks(&self) -> io::Result<(Locks, Vec<String>)> {
        let mut problems = Vec::new();
        let job = self.lock(&format!("job-{}", self.job))?;
        if job.is_none() {
            problems.push("overlap".to_owned());
        }
        let mut locks = Locks { job, files: Vec::new(), units: Vec::new() };
        problems.extend(self.take_slots(&mut locks)?);
        Ok((locks, problems))
    }

    /// As many units of each slot as it needs.
    fn take_slots(&self, locks: &mut Locks) -> io::Result<Vec<String>> {
        let mut problems = Vec::new();
        for need in &self.needs {
            let taken = self.take_units(need)?;
            if taken.len() < need.amount as usize {
                problems.push(format!("over:{}", need.slot));
            }
            for (name, file) in taken {
                locks.units.push(name);
                locks.files.push(file);
            }
        }
        Ok(problems)
    }

    /// As many units as the job needs, or as many as there are. Looks several times: while this looked at the last unit,
    /// the first may have become free for it.
    fn take_units(&self, need: &Need) -> io::Result<Vec<(String, File)>> {
        let mut taken: Vec<(String, File)> = Vec::new();
        for pass in 0..PASSES {
            if pass > 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            for name in (0..need.capacity).map(|unit| format!("{}#{unit}", need.slot)) {
                if taken.len() >= need.amount as usize {
                    return Ok(taken);
                }
                if taken.iter().all(|(other, _)| *other != name)
                    && let Some(file) = self.lock(&name)?
                {
                    taken.push((name, file));
                }
            }
        }
        Ok(taken)
    }

    fn lock(&self, name: &str) -> io::Result<Option<File>> {
        let path = self.directory.join("locks").join(name);
        let file = match OpenOptions::new().create(true).truncate(false).write(true).open(&path) {
            // Another user's job made it; reading is enough for a lock.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(&path)?,
            opened => opened?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        // Children keep it: the lock belongs to the whole tree.
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(Some(file))
    }

    fn write(&self, what: &str, more: &str) -> io::Result<()> {
        self.write_of(what, u32::try_from(getpid().as_raw_nonzero().get()).unwrap_or(0), more)
    }

    fn write_of(&self, what: &str, pid: u32, more: &str) -> io::Result<()> {
        let stamp = Stamp {
            job: self.job.clone(),
            token: self.token,
            attempt: self.attempt,
            pid,
            at: Moment::now(),
            kind: self.kind.clone(),
            node: self.node.clone(),
        };
        let line = format!("{what} {stamp} {more}\n");
        let mut log = OpenOptions::new().append(true).open(self.directory.join("intervals.log"))?;
        log.write_all(line.as_bytes())
    }

    fn gate(&self, name: &str) -> PathBuf {
        self.directory.join("gates").join(name)
    }

    fn wait(&self, gate: &str) -> bool {
        let path = self.gate(gate);
        let begun = Moment::now();
        while !path.exists() {
            if begun.elapsed() > LONGEST {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }
}

/// `tenure attempt`, with these words.
fn attempt(words: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(variable("TEST_TENURE")?);
    command.arg("attempt").args(words);
    Ok(command)
}

/// Enqueues children: their ids. Another attempt finds those that are there.
fn children(family: &str) -> io::Result<Vec<String>> {
    let mut words = family.splitn(3, ' ');
    let mut word = || words.next().ok_or_else(|| io::Error::other("a family is COUNT KIND STEP"));
    let (count, kind, step) = (word()?, word()?, word()?);
    let count: usize = count.parse().map_err(io::Error::other)?;
    let payload = base64(step.as_bytes());
    let line = serde_json::json!({"kind": kind, "payload": {"data": payload}}).to_string() + "\n";
    let mut running = attempt(&["enqueue", "--step", "family", "--file", "-"])?
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = running.stdin.take() {
        stdin.write_all(line.repeat(count).as_bytes())?;
    }
    let ended = running.wait_with_output()?;
    let ids: Vec<String> = String::from_utf8_lossy(&ended.stdout).lines().map(str::to_owned).collect();
    if !ended.status.success() || ids.len() != count {
        return Err(io::Error::other(format!("{} children of {count}: {}", ids.len(), ended.status)));
    }
    Ok(ids)
}

/// Gives back its slots, waits for children, and takes slots again.
fn park(bench: &Bench, locks: &mut Locks, children: &[String]) -> io::Result<()> {
    locks.files.clear();
    locks.units.clear();
    bench.write("park", "")?;
    let ids: Vec<&str> = ["wait", "--json"].into_iter().chain(children.iter().map(String::as_str)).collect();
    let waited = attempt(&ids)?.stderr(std::process::Stdio::inherit()).output()?;
    if !waited.status.success() {
        return Err(io::Error::other(format!("the wait ended with {}", waited.status)));
    }
    let problems = bench.take_slots(locks)?;
    bench.write("unpark", &format!("slots={} problems={}", list(&locks.units), list(&problems)))?;
    let ends: serde_json::Value = serde_json::from_slice(&waited.stdout).map_err(io::Error::other)?;
    let states = ends["results"].as_array().into_iter().flatten();
    let states: Vec<&str> =
        states.map(|end| end["state"].as_str().unwrap_or("?").trim_start_matches("JOB_STATE_")).collect();
    fs::write(variable("TENURE_RESULT")?, states.join(",").to_ascii_lowercase())
}

/// Comes back with the ends of its children, and with what it left.
fn resume() -> io::Result<()> {
    let state = fs::read_to_string(variable("TENURE_RESUME_STATE")?)?;
    if state != "{\"was\":\"here\"}" {
        return Err(io::Error::other(format!("another state: {state}")));
    }
    let ends = fs::read(variable("TENURE_CHILD_RESULTS")?)?;
    let ends: serde_json::Value = serde_json::from_slice(&ends).map_err(io::Error::other)?;
    let states: Vec<&str> =
        ends.as_array().into_iter().flatten().map(|end| end["state"].as_str().unwrap_or("?")).collect();
    fs::write(variable("TENURE_RESULT")?, states.join(","))
}

/// What those before it said.
fn gather() -> io::Result<()> {
    let ends = fs::read(variable("TENURE_CHILD_RESULTS")?)?;
    let ends: serde_json::Value = serde_json::from_slice(&ends).map_err(io::Error::other)?;
    let said = |end: &serde_json::Value| match end["result_file"].as_str() {
        None => Ok(end["state"].clone()),
        Some(file) => fs::read_to_string(file).map(|text| match text.len() {
            0..=100 => text.into(),
            long => long.into(),
        }),
    };
    let said: Vec<serde_json::Value> =
        ends.as_array().into_iter().flatten().map(said).collect::<Result<_, _>>()?;
    fs::write(variable("TENURE_RESULT")?, serde_json::json!({"resumed": true, "said": said}).to_string())
}

/// As JSON of the wire has bytes.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| DIGITS.get((bits & 63) as usize).map_or('=', |&digit| char::from(digit));
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            text.push(if place <= chunk.len() { digit(bits >> (18 - 6 * place)) } else { '=' });
        }
    }
    text
}

/// This program again, in another role, with the environment and the locks of this process.
fn another(role: &str) -> io::Result<std::process::Child> {
    Command::new(Path::new("/proc/self/exe")).arg(role).spawn()
}

/// In files of a MiB, each written at once.
fn fill(bytes: u64) -> io::Result<()> {
    let directory = PathBuf::from(variable("TENURE_WORKDIR")?);
    let piece = vec![b'x'; 1 << 20];
    for number in 0..bytes.div_ceil(1 << 20) {
        fs::write(directory.join(format!("piece-{number}")), &piece)?;
    }
    Ok(())
}

/// The agent first, or it would hear of its shim's end. Then this process ends too: by its death signal.
fn kill_agent() -> io::Result<()> {
    let parent = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest).to_owned();
        after_name.split_whitespace().nth(1).and_then(|pid| pid.parse::<i32>().ok()).unwrap_or(0)
    };
    let is_tenure = |pid: i32, role: &str| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"tenure"))
            && words.next() == Some(role.as_bytes())
    };
    let shim = parent(getpid().as_raw_nonzero().get());
    let agent = parent(shim);
    for (pid, role) in [(agent, "agent"), (shim, "shim")] {
        match Pid::from_raw(pid).filter(|_| is_tenure(pid, role)) {
            Some(pid) => kill_process(pid, Signal::KILL)?,
            None => complain(&format!("{pid} is no {role} of ours")),
        }
    }
    std::thread::sleep(LONGEST);
    Ok(())
}

/// By what agents of this node are called with: its file in the directory of these tests.
fn hunt(bench: &Bench) -> io::Result<()> {
    let file = bench.directory.join("nodes").join(format!("{}.toml", bench.node));
    let file = file.to_string_lossy().into_owned();
    let begun = Moment::now();
    while begun.elapsed() < LONGEST {
        for entry in fs::read_dir("/proc")?.flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|&byte| byte == 0).collect();
            let is_agent = words.get(1) == Some(&&b"agent"[..]) && words.contains(&file.as_bytes());
            let pid = entry.file_name().to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
            if let Some(pid) = pid.filter(|_| is_agent)
                && let Err(error) = kill_process(pid, Signal::KILL)
            {
                complain(&error.to_string());
            }
        }
        std::thread::sleep(HUNTS);
    }
    Ok(())
}

fn flood(bytes: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let line = [b'x'; 1023];
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(line.len());
        out.write_all(line.get(..length).unwrap_or_default())?;
        out.write_all(b"\n")?;
        left = left.saturating_sub(1024);
    }
    out.flush()
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(|_| io::Error::other(format!("{name} is not set")))
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "-".to_owned() } else { items.join(",") }
}

/// To stderr; a closed one is no reason to end.
fn complain(text: &str) {
    if writeln!(io::stderr(), "{text}").is_err() {
        // Nobody listens.
    }
}

/// Waits for a signal, from here on caught.
fn heed(signal: i32) -> io::Result<()> {
    let came = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal, Arc::clone(&came))?;
    let deadline = Moment::now();
    while !came.load(Ordering::Relaxed) {
        if deadline.elapsed() > Duration::from_secs(60) {
            return Err(io::Error::other(format!("signal {signal} did not come")));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// What an earlier attempt left, as the result. False: it left nothing.
fn tell_left() -> io::Result<bool> {
    let left = ["TENURE_CHECKPOINT", "TENURE_PARTIAL_RESULT"].map(|name| env::var(name).ok());
    if left.iter().all(Option::is_none) {
        return Ok(false);
    }
    let [checkpoint, partial] = left.map(|path| path.map(fs::read_to_string).transpose());
    let text = format!("{} | {}", checkpoint?.unwrap_or_default(), partial?.unwrap_or_default());
    fs::write(variable("TENURE_RESULT")?, text)?;
    Ok(true)
}

//! One attempt inside its shim: the command, its output, its end, and what it leaves behind.
//!
//! Responsible for starting the command through `exec-stage`, for draining its output, for signals to the tree and
//! for the exit record. Not responsible for waiting (`keeper.rs`): `turn` does what can be done now and
//! `wake_at` and `inputs` say what to wait for.
//! Invariants: the child stands in the state file before it may execute the command; the record is written before
//! `Ended`; `Reaped` follows two scans in a row that found nothing, zombies included.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, wait};

use super::deadlines::{Deadlines, Due};
use super::files::State;
use super::met::{self, Met};
use super::spec::{Cause, ExitRecord, Spec, VERSION};
use super::sweep::{Sweep, Verdict};
use super::tag;
use super::tree::{self, Identity, Tree};
use super::usage::{Excess, Watch};
use super::wire::{Inbox, Notice, Opening, Standing};
use crate::clock::Mono;
use crate::exec_stage::{Answer, Plan};
use crate::output::{Capture, Stream};

/// How long after the end of the command its output may still come: whoever else holds a pipe open is not waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// For how long a record that the disk refuses is tried again, and how often.
const RECORD_TRIES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(1));
/// How many chunks of one stream are taken in one turn, so that a flood delays no deadline.
const CHUNKS: usize = 16;

/// One attempt that was let go.
pub(super) struct Attempt {
    spec: Spec,
    tree: Tree,
    deadlines: Deadlines,
    /// Absent if not even the stage could be started.
    child: Option<Identity>,
    /// Open until the command is executed.
    stage: Option<Stage>,
    /// Why it could not start.
    failed: Option<String>,
    /// The command was executed.
    running: bool,
    stdout: Channel,
    stderr: Channel,
    end: Option<End>,
    /// Members that got SIGTERM, each once.
    asked: BTreeSet<Identity>,
    sweep: Sweep,
    /// Looks at what it fills, if that is limited.
    usage: Option<Watch>,
    /// What of that was too much.
    excess: Option<Excess>,
    oom_kills: u64,
    told: Told,
}

/// The command is over.
struct End {
    at: Mono,
    /// Absent: it never was a process.
    status: Option<WaitStatus>,
}

/// What the agent has been told, and what stands on the disk.
#[derive(Default)]
struct Told {
    ended: Option<Box<ExitRecord>>,
    notified: bool,
    unkillable: bool,
    reaped: bool,
    /// A record that the disk has refused, and when to try again.
    unwritten: Option<(Box<ExitRecord>, Mono)>,
}

/// Whether there is anything left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Something runs, or its end is not recorded.
    Going,
    /// Recorded and gone.
    Over,
}

impl Attempt {
    /// Starts the command. What fails here ends the attempt with the cause `spawn`.
    pub(super) fn start(opening: &Opening, state: &mut State, now: Mono) -> Self {
        // It was told to go, and nothing says so on the disk.
        #[cfg(feature = "failpoints")]
        fail::fail_point!("shim::before_start", |_| std::process::abort());
        let spec = opening.spec.clone();
        let mut attempt = Self {
            tree: Tree { zombies: true, ..state.tree() },
            deadlines: Deadlines::new(now, spec.hard_time_limit, spec.grace, spec.lease, spec.gone_by)
                .with_soft(spec.soft_time_limit, spec.soft_grace)
                .with_silence(spec.progress_timeout),
            child: None,
            stage: None,
            failed: None,
            running: false,
            stdout: Channel::new(&spec, Stream::Stdout),
            stderr: Channel::new(&spec, Stream::Stderr),
            end: None,
            asked: BTreeSet::new(),
            sweep: Sweep::new(now),
            usage: None,
            excess: None,
            oom_kills: tree::oom_kills(),
            told: Told::default(),
            spec,
        };
        if let Err(error) = attempt.spawn(opening, state) {
            attempt.failed = Some(error.to_string());
            if attempt.child.is_none() {
                attempt.end = Some(End { at: now, status: None });
            }
        }
        attempt
    }

    /// Does all that can be done now. Answers what the agent should hear, in order.
    pub(super) fn turn(&mut self, now: Mono) -> Vec<Notice> {
        let mut notices = Vec::new();
        let reaped_some = self.reap(now);
        self.hear_stage(now, &mut notices);
        self.stdout.drain();
        self.stderr.drain();
        self.look_at_usage(now);
        self.obey_deadlines(now, &mut notices);
        if self.end.is_some() || self.sweep.is_killing() {
            self.sweep_up(now, reaped_some, &mut notices);
        }
        self.conclude(now, &mut notices);
        notices
    }

    /// An order, or a signal to the shim.
    pub(super) fn stop(&mut self, cause: Cause, grace: Duration, now: Mono) {
        self.deadlines.stop(cause, grace, now);
    }

    /// The lease was renewed.
    pub(super) fn renew(&mut self, gone_by: Mono) {
        self.deadlines.renew(gone_by);
    }

    /// The job said something to the agent.
    pub(super) fn heard(&mut self, now: Mono) {
        self.deadlines.heard(now);
    }

    /// Whether there is an agent for the job to talk to.
    pub(super) fn listen(&mut self, listens: bool, now: Mono) {
        self.deadlines.listen(listens, now);
    }

    /// Its run clock stands still, or goes on.
    pub(super) fn pause(&mut self, paused: bool, now: Mono) {
        self.deadlines.pause(paused, now);
    }

    /// All that an agent must hear that takes the attempt over.
    pub(super) fn standing(&self, now: Mono) -> Vec<Notice> {
        let standing = Standing {
            token: self.spec.token,
            gone_by: self.deadlines.gone_by(),
            started: self.running.then(|| self.deadlines.start()),
            stopping: self.deadlines.is_stopping(),
            paused_for: self.deadlines.paused_for(now),
            paused: self.deadlines.is_paused(),
        };
        let mut notices = vec![Notice::Attached(standing)];
        notices.extend(self.told.notified.then_some(Notice::Notified));
        notices.extend(self.told.ended.clone().map(Notice::Ended));
        notices.extend(self.told.unkillable.then_some(Notice::Unkillable));
        notices.extend(self.told.reaped.then_some(Notice::Reaped));
        notices
    }

    /// Whether anything is left to do.
    pub(super) fn progress(&self) -> Progress {
        if self.told.reaped && self.told.unwritten.is_none() { Progress::Over } else { Progress::Going }
    }

    /// When the next turn is due without input.
    pub(super) fn wake_at(&self) -> Option<Mono> {
        let last_words =
            self.end.as_ref().filter(|_| self.told.ended.is_none()).map(|end| end.at + LAST_WORDS);
        let sweeps = (self.end.is_some() || self.sweep.is_killing()) && !self.sweep.is_gone();
        let scan = sweeps.then(|| self.sweep.next_at());
        let record = self.told.unwritten.as_ref().map(|(_, at)| *at);
        [self.deadlines.wake_at(), last_words, scan, record].into_iter().flatten().min()
    }

    /// What to wait for being readable.
    pub(super) fn inputs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let stage = self.stage.as_ref().map(|stage| stage.socket.as_fd());
        let pipes = [&self.stdout, &self.stderr].map(|channel| channel.pipe.as_ref().map(File::as_fd));
        let usage = self.usage.as_ref().map(Watch::as_fd);
        stage.into_iter().chain(pipes.into_iter().flatten()).chain(usage)
    }

    fn spawn(&mut self, opening: &Opening, state: &mut State) -> io::Result<()> {
        let (socket, theirs) = UnixStream::pair()?;
        let mut child = Command::new("/proc/self/exe")
            .arg0("tenure")
            .arg("exec-stage")
            .env_clear()
            .envs(self.spec.env.iter().map(|(name, value)| (name, value)))
            .env(tag::VARIABLE, opening.tag.as_str())
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        self.stdout.open(child.stdout.take().map(OwnedFd::from))?;
        self.stderr.open(child.stderr.take().map(OwnedFd::from))?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        // It cannot be anybody else: only this process reaps it, and has not.
        let identity = Identity::of(pid)?;
        self.child = Some(identity);
        state.child = Some(identity);
        // The stage waits for its plan: if the state cannot be written it gets none and leaves.
        state.write(&self.spec.dir)?;
        // The disk names a child, and the child has nothing to do yet.
        #[cfg(feature = "failpoints")]
        fail::fail_point!("shim::before_plan", |_| std::process::abort());
        if let Some(limit) = self.spec.limits.disk {
            self.usage = Some(Watch::start(self.spec.filled.clone(), limit)?);
        }
        let plan = Plan {
            argv: self.spec.argv.clone(),
            workdir: self.spec.workdir.clone(),
            stdin: self.spec.stdin.clone(),
            user: self.spec.user.clone(),
            limits: self.spec.own_limits(),
            cgroup: self.tree.cgroup.as_ref().map(|cgroup| cgroup.dir().to_owned()),
            shim: getpid().as_raw_pid(),
        };
        let mut line = serde_json::to_vec(&plan)?;
        line.push(b'\n');
        (&socket).write_all(&line)?;
        socket.set_nonblocking(true)?;
        self.stage = Some(Stage { socket, inbox: Inbox::default(), executing: false, failed: None });
        Ok(())
    }

    /// Takes every child that has ended, orphans included. Answers whether there was one.
    fn reap(&mut self, now: Mono) -> bool {
        let mut some = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            some = true;
            if self.end.is_none() && self.child.is_some_and(|child| child.pid == pid.as_raw_pid()) {
                // Killed past a deadline that this shim has slept through: somebody did its work.
                if status.signaled() && self.deadlines.due(now) == Due::Kill {
                    self.sweep.kill(now);
                }
                self.end = Some(End { at: now, status: Some(status) });
                self.deadlines.clear_away(now);
            }
        }
        some
    }

    fn hear_stage(&mut self, now: Mono, notices: &mut Vec<Notice>) {
        let Some(stage) = &mut self.stage else { return };
        let open = stage.hear();
        if let Some(reason) = stage.failed.take() {
            self.failed = Some(reason);
        }
        if open && self.end.is_none() {
            return;
        }
        if stage.executing && self.failed.is_none() {
            self.running = true;
            self.deadlines.started(now);
            let pid = self.child.map_or(0, |child| child.pid);
            notices.push(Notice::Started { pid });
        }
        self.stage = None;
    }

    /// Stops what has filled its directories, without a grace if it is far beyond its limit.
    fn look_at_usage(&mut self, now: Mono) {
        let Some(excess) = self.usage.as_ref().and_then(Watch::take) else { return };
        if self.end.is_some() {
            return;
        }
        let twice = self.spec.limits.disk.unwrap_or(u64::MAX).saturating_mul(2);
        let far = matches!(excess, Excess::Bytes(bytes) if bytes > twice);
        self.deadlines.stop(Cause::Disk, if far { Duration::ZERO } else { self.spec.grace }, now);
        self.excess.get_or_insert(excess);
    }

    fn obey_deadlines(&mut self, now: Mono, notices: &mut Vec<Notice>) {
        match self.deadlines.due(now) {
            Due::Nothing => {}
            Due::Notify => {
                self.notify();
                if !self.told.notified {
                    self.told.notified = true;
                    notices.push(Notice::Notified);
                }
            }
            Due::Ask => self.ask(),
            Due::Kill => self.sweep.kill(now),
        }
    }

    /// SIGUSR1 to the command itself, if it catches it: else it would die of it. Others of its tree may catch it for
    /// something else.
    fn notify(&self) {
        if let Some(child) = self.child.filter(|child| child.catches(Signal::USR1)) {
            child.signal(Signal::USR1).ok(); // One that has just ended needs no notice.
        }
    }

    /// SIGTERM to the whole tree: to the command's group in one stroke, to what has left it one by one.
    fn ask(&mut self) {
        let group = self.child.filter(|_| self.end.is_none()).and_then(|child| Pid::from_raw(child.pid));
        for member in self.tree.members().unwrap_or_default() {
            let in_group = group.is_some_and(|group| group.as_raw_pid() == member.group);
            if self.asked.insert(member.identity) && !in_group {
                ask_one(member.identity);
            }
        }
        if let Some(group) = group {
            // The command is not reaped, so the number is its own. What is stopped must wake up to hear it.
            kill_process_group(group, Signal::TERM).ok();
            kill_process_group(group, Signal::CONT).ok();
        }
    }

    fn sweep_up(&mut self, now: Mono, reaped_some: bool, notices: &mut Vec<Notice>) {
        match self.sweep.round(&self.tree, now, reaped_some) {
            Verdict::Wait => {}
            Verdict::Alive { members, unkillable } => {
                for member in members.iter().filter(|member| !member.zombie) {
                    if !self.sweep.is_killing() && self.asked.insert(member.identity) {
                        ask_one(member.identity);
                    }
                }
                if unkillable && !self.told.unkillable {
                    self.told.unkillable = true;
                    notices.push(Notice::Unkillable);
                }
            }
            Verdict::Gone => {}
        }
    }

    /// Writes the record once the output is complete, and says what is true by then.
    fn conclude(&mut self, now: Mono, notices: &mut Vec<Notice>) {
        let Some(end) = &self.end else { return };
        let complete = self.stdout.pipe.is_none() && self.stderr.pipe.is_none();
        if self.told.ended.is_none() && (complete || now >= end.at + LAST_WORDS) {
            self.stdout.pipe = None;
            self.stderr.pipe = None;
            let record = Box::new(self.record(end));
            self.told.ended = Some(record.clone());
            self.told.unwritten = Some((record.clone(), now));
            self.write_record(now);
            notices.push(Notice::Ended(record));
        }
        self.write_record(now);
        if self.told.ended.is_some() && !self.told.reaped && self.sweep.is_gone() {
            self.tree.remove_cgroup();
            self.told.reaped = true;
            notices.push(Notice::Reaped);
        }
    }

    /// A disk that refuses the record is tried again for a while; the agent has it by the socket anyway.
    fn write_record(&mut self, now: Mono) {
        let Some((record, at)) = &self.told.unwritten else { return };
        let Some(end) = &self.end else { return };
        if now < *at {
            return;
        }
        let (limit, pause) = RECORD_TRIES;
        match record.write(&self.spec.dir) {
            Err(error) if now < end.at + limit && error.kind() != io::ErrorKind::NotFound => {
                self.told.unwritten = Some((record.clone(), now + pause))
            }
            // Written; or its directory is gone, or it was tried for long enough.
            Ok(()) | Err(_) => self.told.unwritten = None,
        }
    }

    fn record(&self, end: &End) -> ExitRecord {
        let signal = end.status.and_then(WaitStatus::terminating_signal);
        let cause = if self.failed.is_some() {
            Cause::Spawn
        } else if let Some(cause) = self.deadlines.cause() {
            cause
        } else if !self.running {
            Cause::Spawn
        } else if signal == Some(Signal::KILL.as_raw())
            && met::out_of_memory(self.tree.cgroup.as_ref(), self.oom_kills)
        {
            Cause::Oom
        } else if signal.is_some() {
            Cause::Signal
        } else {
            Cause::Exit
        };
        let error = match (&self.failed, self.running) {
            (Some(reason), _) => reason.clone(),
            (None, true) => Met { cause, limits: &self.spec.limits, excess: self.excess.as_ref() }
                .before(self.stderr.capture.last_lines(), self.tree.cgroup.as_ref()),
            (None, false) => "it was ended before its command could be executed".to_owned(),
        };
        ExitRecord {
            version: VERSION,
            job: self.spec.job.clone(),
            token: self.spec.token,
            started: self.running,
            cause,
            exit_code: end.status.and_then(WaitStatus::exit_status).filter(|_| self.running),
            signal: signal.filter(|_| self.running),
            error,
            ran_for: if self.running { end.at.since(self.deadlines.start()) } else { Duration::ZERO },
            stdout: self.stdout.capture.captured(),
            stderr: self.stderr.capture.captured(),
            notified: self.deadlines.was_notified(),
        }
    }
}

/// A process that has gone in the meantime needs no signal; one that may not be signalled is left to SIGKILL's rounds.
fn ask_one(identity: Identity) {
    if identity.signal(Signal::TERM).unwrap_or(false) {
        identity.signal(Signal::CONT).ok();
    }
}

/// The stage's end of the conversation.
struct Stage {
    socket: UnixStream,
    inbox: Inbox,
    executing: bool,
    failed: Option<String>,
}

impl Stage {
    /// Answers whether it is still open.
    fn hear(&mut self) -> bool {
        let open = self.inbox.fill(&self.socket).unwrap_or(false);
        while let Ok(Some(answer)) = self.inbox.pop() {
            match answer {
                Answer::Executing => self.executing = true,
                Answer::Failed(reason) => self.failed = Some(reason),
            }
        }
        open
    }
}

/// One stream of the command: its pipe and what is kept of it.
struct Channel {
    /// Absent before the start and after the end.
    pipe: Option<File>,
    capture: Capture,
}

impl Channel {
    fn new(spec: &Spec, stream: Stream) -> Self {
        Self { pipe: None, capture: Capture::new(&spec.dir, stream) }
    }

    fn open(&mut self, pipe: Option<OwnedFd>) -> io::Result<()> {
        if let Some(pipe) = pipe {
            rustix::io::ioctl_fionbio(&pipe, true)?;
            self.pipe = Some(File::from(pipe));
        }
        Ok(())
    }

    /// Takes what is there, within bounds.
    fn drain(&mut self) {
        let mut chunk = [0; 65_536];
        for _ in 0..CHUNKS {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(count) => self.capture.push(chunk.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
    }
}

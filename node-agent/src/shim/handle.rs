//! The agent's half of a shim: starts it, talks to it, and steps in where it fails.
//!
//! Responsible for the process, its socket and the events; for killing the tree of a shim that died, and of one that
//! is late (stopped by its own job, say). Not responsible for deadlines in the normal case: those are the shim's.
//! Invariants: no method waits for the shim but `start` and `next`; `next` ends with `Reaped`, whatever happens.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::files::State;
use super::killer::{Killer, Word};
use super::spec::{Cause, ExitRecord, HEARS, Spec, StopReason, VERSION};
use super::tag::Owner;
use super::tree::{Identity, Tree};
use super::wire::{Inbox, MESSAGE_LIMIT, Notice, Opening, Order, Outbox};
use super::{Error, Event, Options};
use crate::cgroup::Place;
use crate::clock::{Clock, Mono};
use crate::output::Captured;

/// A shim is ready in some milliseconds; on a host where it takes this long nothing should be started.
const READY: Duration = Duration::from_secs(10);
/// How long a shim may be late before the agent does its work, and then to tell of it.
const LATE: Duration = Duration::from_secs(5);
/// How long a shim that gives up may take to say why.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What the shim says in words when it fails, in the attempt directory.
const ERRORS: &str = "shim.err";
/// How much of it is quoted, in bytes.
const QUOTE: usize = 512;

/// One attempt, seen from the agent. Dropped early, the shim goes on alone until its own deadlines, or leaves if it
/// was not told `go`.
#[derive(Debug)]
pub struct Shim {
    pub(super) known: Known,
    tree: Tree,
    /// Absent: an earlier agent's child, to wait for which is somebody else's.
    child: Option<Child>,
    socket: UnixStream,
    pub(super) inbox: Inbox,
    outbox: Outbox,
    phase: Phase,
    /// Said, but not fetched by `next`.
    events: VecDeque<Event>,
    /// When the command was executed, as heard here.
    pub(super) started: Option<Mono>,
    ended: bool,
    unkillable: bool,
    /// The hard limit and its grace are over by then. A job that keeps its shim from acting gets no more than that.
    limit_by: Mono,
    /// Since when its run clock stands still.
    paused: Option<Mono>,
    /// It was told to stop, or its command has ended: its grace is over by then.
    stop_by: Mono,
}

/// What this half knows of its attempt, whoever started it.
#[derive(Debug)]
pub(super) struct Known {
    /// Of the words that it understands.
    pub(super) version: u32,
    pub(super) job: String,
    pub(super) token: u64,
    pub(super) dir: PathBuf,
    pub(super) clock: Clock,
    pub(super) grace: Duration,
    pub(super) hard_time_limit: Duration,
    pub(super) gone_by: Mono,
}

/// Where the conversation is.
#[derive(Debug)]
enum Phase {
    /// The shim does what it should, as far as we know.
    Talking,
    /// It is late: the agent kills the tree beside it.
    Helping(Killer),
    /// The tree is dead and the shim, who should say so, has until then.
    Waiting(Mono),
    /// It is gone without `Reaped`: the agent kills what is left.
    Clearing(Killer),
    /// It has said `Reaped` and is about to end.
    Leaving,
    /// Everything is said.
    Over,
}

/// What `next` woke up for.
enum Input {
    /// The socket can be read.
    Readable,
    /// The moment that the phase waits for.
    Late,
    /// The agent's own killing.
    Killed(Word),
    /// The shim's process has ended.
    Left,
}

impl Shim {
    /// Starts a shim and waits until it has written its `state` file. Nothing runs yet; dropped now, it leaves
    /// without a trace but the file.
    pub async fn start(options: &Options, spec: Spec) -> Result<Self, Error> {
        let tag =
            Owner::of(&options.state_dir).and_then(|owner| owner.tag(spec.token)).map_err(Error::Start)?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(Error::Start)?;
        ours.set_nonblocking(true).map_err(Error::Start)?;
        let socket = UnixStream::from_std(ours).map_err(Error::Start)?;
        let errors = fs::File::create(spec.dir.join(ERRORS)).map_err(Error::Start)?;
        let mut command = Command::new(&options.exe);
        command.arg0("tenure").arg("shim").env_clear();
        #[cfg(feature = "failpoints")]
        command.envs(std::env::var_os("FAILPOINTS").map(|points| ("FAILPOINTS", points)));
        let child = command
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(Error::Start)?;
        // It holds the shim's end of the socket: without this nobody would hear of the shim's end.
        drop(command);
        // Its pid is its own as long as the child was not waited for.
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
        let keeper = Identity::of(pid).map_err(Error::Start)?;
        let uid = spec.user.as_ref().map(|user| user.uid);
        let cgroup = spec.cgroup.as_ref().map(Place::cgroup);
        let tree = Tree { tag: tag.clone(), keeper, uid, zombies: false, cgroup };
        let known = Known {
            version: VERSION,
            job: spec.job.clone(),
            token: spec.token,
            dir: spec.dir.clone(),
            clock: spec.clock,
            grace: spec.grace,
            hard_time_limit: spec.hard_time_limit,
            gone_by: spec.gone_by,
        };
        let mut shim = Self { child: Some(child), ..Self::new(known, tree, socket) };
        let opening = Opening { version: VERSION, tag, spec };
        match timeout(READY, shim.open(&opening)).await {
            Ok(Ok(())) => Ok(shim),
            Ok(Err(error)) => Err(shim.not_ready(&error.to_string()).await),
            Err(_) => Err(shim.not_ready("it said nothing in 10 s").await),
        }
    }

    /// A conversation that has just begun.
    pub(super) fn new(known: Known, tree: Tree, socket: UnixStream) -> Self {
        Self {
            known,
            tree,
            child: None,
            socket,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            phase: Phase::Talking,
            events: VecDeque::new(),
            started: None,
            ended: false,
            unkillable: false,
            limit_by: Mono::MAX,
            paused: None,
            stop_by: Mono::MAX,
        }
    }

    /// The shim's own process.
    pub fn pid(&self) -> u32 {
        self.tree.keeper.pid.unsigned_abs()
    }

    /// Starts the command. Call it once, after `accepted` was said.
    pub fn go(&mut self) -> Result<(), Error> {
        self.limit();
        self.say(&Order::Go)
    }

    /// Moves `gone_by` (on the clock of the spec). Later ones win; an earlier one is ignored.
    pub fn renew(&mut self, gone_by: Mono) -> Result<(), Error> {
        if gone_by <= self.known.gone_by {
            return Ok(());
        }
        self.say(&Order::Renew { gone_by })?;
        self.known.gone_by = gone_by;
        Ok(())
    }

    /// The job said something: it is not stalled. An older shim knows of no such limit.
    pub fn heard(&mut self) -> Result<(), Error> {
        if self.known.version < HEARS { Ok(()) } else { self.say(&Order::Heard) }
    }

    /// Lets its run clock stand still, or go on: parked, it spends none of its time limits. Saying it again changes nothing.
    /// With an older shim the clock runs on.
    pub fn pause(&mut self, paused: bool) -> Result<(), Error> {
        if self.known.version < HEARS || paused == self.paused.is_some() {
            return Ok(());
        }
        let now = self.known.clock.now();
        match self.paused.take() {
            Some(since) if self.limit_by != Mono::MAX => self.limit_by = self.limit_by + now.since(since),
            Some(_) => {}
            None => self.paused = Some(now),
        }
        self.say(&Order::Pause { paused })
    }

    /// Stops the attempt: SIGTERM now, SIGKILL to the whole tree after `grace` (zero: at once). Repeating it
    /// may only shorten the grace; the first reason stands. Before `go` it makes the shim leave: nothing is
    /// started, and `next` says so (`Cause::Terminated`, without `Started`).
    pub fn stop(&mut self, reason: StopReason, grace: Duration) -> Result<(), Error> {
        self.end_within(grace);
        self.say(&Order::Stop { reason, grace })
    }

    /// The next event; `None` after `Reaped`. Cancel-safe. If the shim dies early, what it left is killed here:
    /// `Ended` with [`Cause::Lost`] unless it had written a record, then `Reaped`.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let (clock, late_at) = (self.known.clock, self.late_at());
            let input = match &mut self.phase {
                Phase::Over => return None,
                Phase::Talking => tokio::select! {
                    _ = self.socket.readable() => Input::Readable, // cancel-safe: reads nothing
                    () = clock.sleep_until(late_at) => Input::Late, // cancel-safe: a deadline
                },
                Phase::Helping(killer) => tokio::select! {
                    _ = self.socket.readable() => Input::Readable, // cancel-safe: reads nothing
                    word = killer.next() => Input::Killed(word), // cancel-safe: mpsc recv
                },
                Phase::Waiting(until) => tokio::select! {
                    _ = self.socket.readable() => Input::Readable, // cancel-safe: reads nothing
                    () = clock.sleep_until(*until) => Input::Late, // cancel-safe: a deadline
                },
                Phase::Clearing(killer) => Input::Killed(killer.next().await), // cancel-safe: mpsc recv
                Phase::Leaving => {
                    // Cancel-safe: waiting for a process again is the same wait. A shim that does not leave though
                    // its tree is gone keeps nothing; the runtime, or init, reaps it later.
                    match &mut self.child {
                        Some(child) => drop(timeout(LATE, child.wait()).await),
                        None => drop(timeout(LATE, self.tree.keeper.left()).await),
                    }
                    Input::Left
                }
            };
            self.decide(input);
        }
    }

    /// What follows from an input.
    fn decide(&mut self, input: Input) {
        match input {
            Input::Readable => self.hear(),
            // The tree is dead and it does not say so: it is stopped, or stuck.
            Input::Late if matches!(self.phase, Phase::Waiting(_)) => self.clear(),
            Input::Late => self.help(),
            Input::Killed(Word::Unkillable) => {
                if !self.unkillable {
                    self.unkillable = true;
                    self.events.push_back(Event::Unkillable);
                }
            }
            Input::Killed(Word::Gone) if matches!(self.phase, Phase::Helping(_)) => {
                self.phase = Phase::Waiting(self.known.clock.now() + LATE);
            }
            Input::Killed(Word::Gone) => self.end_without_shim(),
            Input::Left => {
                self.events.push_back(Event::Reaped);
                self.phase = Phase::Over;
            }
        }
    }

    pub(super) fn hear(&mut self) {
        let open = self.outbox.flush(Tried(&self.socket)).and_then(|()| self.inbox.fill(Tried(&self.socket)));
        let mut broken = false;
        loop {
            match self.inbox.pop() {
                Ok(Some(notice)) => self.note(notice),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(lease.token = self.known.token, %error, "a shim spoke nonsense");
                    broken = true;
                    break;
                }
            }
        }
        let over = matches!(self.phase, Phase::Leaving | Phase::Over);
        if !over && (broken || !open.unwrap_or(false)) {
            self.clear();
        }
    }

    fn note(&mut self, notice: Notice) {
        match notice {
            Notice::Ready | Notice::Attached(_) => {}
            Notice::Started { pid } => {
                self.started = Some(self.known.clock.now());
                self.limit();
                self.events.push_back(Event::Started { pid: pid.unsigned_abs() });
            }
            Notice::Notified => self.events.push_back(Event::Notified),
            Notice::Ended(record) => {
                self.ended = true;
                self.end_within(self.known.grace); // What outlives the command gets no more.
                self.events.push_back(Event::Ended(record));
            }
            Notice::Unkillable if self.unkillable => {}
            Notice::Unkillable => {
                self.unkillable = true;
                self.events.push_back(Event::Unkillable);
            }
            Notice::Reaped => self.phase = Phase::Leaving,
        }
    }

    /// From when on the shim is late: everything should be gone by then.
    fn late_at(&self) -> Mono {
        let limit_by = if self.paused.is_some() { Mono::MAX } else { self.limit_by };
        self.known.gone_by.min(limit_by).min(self.stop_by)
    }

    /// The hard limit counts from now.
    fn limit(&mut self) {
        self.limit_from(self.known.clock.now());
    }

    /// The hard limit counts from then.
    pub(super) fn limit_from(&mut self, began: Mono) {
        self.limit_by = began + self.known.hard_time_limit + self.known.grace + LATE;
    }

    /// Its run clock stands still, as its shim says.
    pub(super) fn hold_limit(&mut self) {
        self.paused = Some(self.known.clock.now());
    }

    /// Everything is to be gone after this grace.
    pub(super) fn end_within(&mut self, grace: Duration) {
        self.stop_by = self.stop_by.min(self.known.clock.now() + grace + LATE);
    }

    /// The shim is late. Its job may have stopped it: it is woken, and the tree killed beside it.
    fn help(&mut self) {
        tracing::warn!(
            job.id = self.known.job,
            lease.token = self.known.token,
            "a shim is late; the agent kills its tree"
        );
        self.tree.keeper.signal(Signal::CONT).ok();
        self.phase = Phase::Helping(Killer::start(self.tree.clone(), self.known.clock));
    }

    /// The shim is gone or useless: ends it, and begins to kill what it may have left.
    fn clear(&mut self) {
        tracing::warn!(
            job.id = self.known.job,
            lease.token = self.known.token,
            "a shim ended before its attempt"
        );
        // An error means that it has ended already.
        match &mut self.child {
            Some(child) => drop(child.start_kill()),
            None => drop(self.tree.keeper.signal(Signal::KILL)),
        }
        self.phase = Phase::Clearing(Killer::start(self.tree.clone(), self.known.clock));
    }

    /// Nothing is left and no shim to say so: the agent says what it knows.
    fn end_without_shim(&mut self) {
        if !self.ended {
            let record =
                ExitRecord::read(&self.known.dir).ok().flatten().filter(|it| it.token == self.known.token);
            let record = record.unwrap_or_else(|| self.without_record());
            self.events.push_back(Event::Ended(Box::new(record)));
        }
        self.phase = Phase::Leaving;
    }

    /// Nobody saw how it ended; unless no child was ever noted: then it never started, whatever was said.
    fn without_record(&self) -> ExitRecord {
        let now = self.known.clock.now();
        let never = State::read(&self.known.dir).ok().flatten().is_some_and(|state| state.child.is_none());
        let (cause, error) = if never {
            (Cause::Terminated, "its shim ended before the command was started")
        } else {
            (Cause::Lost, "its shim ended early, so nobody saw how the command ended")
        };
        ExitRecord {
            version: VERSION,
            job: self.known.job.clone(),
            token: self.known.token,
            started: self.started.is_some(),
            cause,
            exit_code: None,
            signal: None,
            error: error.to_owned(),
            ran_for: self.started.map_or(Duration::ZERO, |started| now.since(started)),
            stdout: Captured::default(),
            stderr: Captured::default(),
            notified: false,
        }
    }

    /// Sends without waiting. What the socket does not take at once is sent with the next word.
    fn say(&mut self, order: &Order) -> Result<(), Error> {
        self.outbox.push(order).and_then(|()| self.outbox.flush(Tried(&self.socket))).map_err(Error::Gone)
    }

    /// Sends a message and waits until the socket has taken it. Not cancel-safe.
    pub(super) async fn send<T: serde::Serialize>(&mut self, message: &T) -> io::Result<()> {
        self.outbox.push(message)?;
        loop {
            self.outbox.flush(Tried(&self.socket))?;
            if self.outbox.is_empty() {
                return Ok(());
            }
            self.socket.writable().await?;
        }
    }

    /// Waits for the next notice. Not cancel-safe.
    pub(super) async fn receive(&mut self) -> io::Result<Notice> {
        loop {
            self.socket.readable().await?;
            let open = self.inbox.fill(Tried(&self.socket))?;
            match self.inbox.pop()? {
                Some(notice) => return Ok(notice),
                None if open => {}
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Sends the spec and waits for `ready`. Only within `start`: not cancel-safe.
    async fn open(&mut self, opening: &Opening) -> io::Result<()> {
        let line = serde_json::to_vec(opening)?;
        if line.len() >= MESSAGE_LIMIT {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the spec is too long"));
        }
        self.send(opening).await?;
        match self.receive().await? {
            Notice::Ready => Ok(()),
            Notice::Attached(_)
            | Notice::Started { .. }
            | Notice::Notified
            | Notice::Ended(_)
            | Notice::Unkillable
            | Notice::Reaped => Err(io::Error::new(io::ErrorKind::InvalidData, "it said something else")),
        }
    }

    /// Ends a shim that did not come up; with its own words if it left any.
    async fn not_ready(mut self, reason: &str) -> Error {
        // A shim that gives up hangs up before it says why.
        if let Some(child) = &mut self.child
            && timeout(LAST_WORDS, child.wait()).await.is_err()
        {
            child.kill().await.ok();
        }
        let said = fs::read(self.known.dir.join(ERRORS)).unwrap_or_default();
        let said =
            String::from_utf8_lossy(said.get(..said.len().min(QUOTE)).unwrap_or_default()).trim().to_owned();
        Error::NotReady(if said.is_empty() { reason.to_owned() } else { said })
    }
}

/// A tokio socket as one that never blocks.
struct Tried<'a>(&'a UnixStream);

impl io::Read for Tried<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl io::Write for Tried<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.try_write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

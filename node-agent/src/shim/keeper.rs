//! `tenure shim`: the process that keeps one attempt, from `ready` to the last of its processes.
//!
//! Responsible for one loop over sockets, signals, pipes and timer, and for the order of what it makes true: door and
//! state file, then `ready`; child in the state file, then the plan; record on disk, then `ended`; two empty scans, then
//! `reaped`. One thread, no runtime: the death signal of the command hangs on the thread that started it. (Where the
//! disk is limited, another one looks at it: `usage.rs`.)
//! Not responsible for deciding when (`deadlines.rs`), nor for single processes (`tree.rs`, `attempt.rs`).
//! Invariant: nothing that the agent does or fails to do keeps it from enforcing the deadlines.

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{getpid, set_child_subreaper, setsid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::attempt::{Attempt, Progress};
use super::door::Door;
use super::files::State;
use super::spec::{Cause, StopReason, VERSION};
use super::tree::{self, Identity};
use super::wire::{Inbox, MESSAGE_LIMIT, Notice, Opening, Order, Outbox};
use crate::cgroup::{Cgroup, Place};
use crate::clock::{Clock, Mono};

/// Why a shim could not do its work. Nothing has been started then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Error {
    /// The agent's first message is missing or broken.
    #[error("no spec came")]
    Spec(#[source] io::Error),
    /// The agent speaks another version.
    #[error("the spec has version {0}, this shim speaks {VERSION}")]
    Version(u32),
    /// A system call that must not fail.
    #[error("cannot {step}")]
    System {
        /// What it was for.
        step: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

trait Step<T> {
    fn step(self, step: &'static str) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::System { step, source: source.into() })
    }
}

/// Runs the shim to its end.
pub(super) fn run() -> Result<(), Error> {
    let (agent, opening) = open()?;
    if opening.version != VERSION {
        return Err(Error::Version(opening.version));
    }
    // Executed as `/proc/self/exe` it would be listed as "exe". Only a name: if it cannot be set, it is listed so.
    rustix::thread::set_name(c"tenure-shim").ok();
    let cgroup = opening.spec.cgroup.as_ref().map(Place::cgroup);
    if let Some(place) = &opening.spec.cgroup {
        place.enter().step("enter its cgroup")?;
    }
    let served = serve(agent, opening);
    // It is empty; one that an error has left is removed by whoever clears up.
    cgroup.iter().for_each(Cgroup::remove);
    served
}

/// Holds the attempt, in its cgroup.
fn serve(agent: UnixStream, opening: Opening) -> Result<(), Error> {
    // Its own session: no terminal, and a number by which everything that stays in it is known.
    setsid().step("make a session")?;
    // Orphans of the attempt become children of this process, wherever they moved.
    set_child_subreaper(Some(getpid())).step("become a subreaper")?;
    let signals = Signals::register().step("listen to signals")?;
    let state = state(&opening).step("read this process")?;
    state.write(&opening.spec.dir).step("write the state file")?;
    #[cfg(feature = "failpoints")]
    fail::fail_point!("shim::after_state", |_| std::process::abort());
    let door = Door::open(&opening.spec.dir).step("open its door")?;
    let timer = Timer::new(opening.spec.clock).step("make a timer")?;
    let mut agent = Agent::new(agent).step("talk to the agent")?;
    agent.say(&Notice::Ready);
    Keeper { opening, state, agent, door, signals, timer, attempt: None }.serve()
}

/// Takes the socket off descriptor 0 and reads the spec from it, while it still blocks.
fn open() -> Result<(UnixStream, Opening), Error> {
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(Error::Spec)?;
    // What this process starts must not find the agent's socket there.
    let nothing = OpenOptions::new().read(true).open("/dev/null").map_err(Error::Spec)?;
    rustix::stdio::dup2_stdin(nothing).map_err(|error| Error::Spec(error.into()))?;
    let socket = UnixStream::from(socket);
    let mut line = String::new();
    // The agent says nothing more before `ready`, so no second message can hide in the reader's buffer.
    BufReader::new((&socket).take(MESSAGE_LIMIT as u64)).read_line(&mut line).map_err(Error::Spec)?;
    let opening = serde_json::from_str(&line).map_err(|error| Error::Spec(error.into()))?;
    Ok((socket, opening))
}

fn state(opening: &Opening) -> io::Result<State> {
    let spec = &opening.spec;
    Ok(State {
        version: VERSION,
        job: spec.job.clone(),
        token: spec.token,
        tag: opening.tag.clone(),
        boot_id: tree::boot_id()?,
        shim: Identity::of(getpid().as_raw_pid())?,
        child: None,
        uid: spec.user.as_ref().map(|user| user.uid),
        clock: spec.clock,
        grace: spec.grace,
        lease: spec.lease,
        hard_time_limit: spec.hard_time_limit,
        gone_by: spec.gone_by,
        cgroup: spec.cgroup.as_ref().map(|place| place.cgroup().dir().to_owned()),
    })
}

/// The loop and what it waits on.
struct Keeper {
    opening: Opening,
    state: State,
    agent: Agent,
    door: Door,
    signals: Signals,
    timer: Timer,
    /// Absent before `go`.
    attempt: Option<Attempt>,
}

impl Keeper {
    fn serve(mut self) -> Result<(), Error> {
        loop {
            // Also before the first wait: an agent that went before it heard `ready` wakes nobody.
            if self.attempt.is_none() && self.agent.is_gone() {
                // Nothing was started: the state file without a child says so.
                return Ok(());
            }
            let ready = self.wait()?;
            let now = self.opening.spec.clock.now();
            if ready.agent {
                self.hear(now);
            }
            if ready.door {
                self.look_at_door(now);
            }
            let signals = self.signals.take();
            if let Some(attempt) = &mut self.attempt {
                attempt.listen(!self.agent.is_gone(), now);
                if signals.terminate {
                    attempt.stop(Cause::Terminated, self.opening.spec.grace, now);
                }
                for notice in attempt.turn(now) {
                    self.agent.say(&notice);
                }
                if attempt.progress() == Progress::Over {
                    return Ok(());
                }
            } else if signals.terminate || now >= self.opening.spec.gone_by {
                return Ok(());
            }
        }
    }

    /// Blocks until something can be done.
    fn wait(&mut self) -> Result<Ready, Error> {
        let wake_at = self.attempt.as_ref().map_or(Some(self.opening.spec.gone_by), Attempt::wake_at);
        self.timer.set(wake_at).step("set the timer")?;
        let mut fds =
            vec![PollFd::new(&self.signals.pipe, PollFlags::IN), PollFd::new(&self.timer.fd, PollFlags::IN)];
        if let Some(socket) = &self.agent.socket {
            let unsent = if self.agent.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::new(socket, PollFlags::IN | unsent));
        }
        let agent_at = self.agent.socket.as_ref().map(|_| fds.len() - 1);
        let door_at = fds.len();
        // Before `go` there is nothing to take over: an agent that goes then has started nothing.
        if self.attempt.is_some() {
            fds.extend(self.door.inputs().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        let door_until = fds.len();
        if let Some(attempt) = &self.attempt {
            fds.extend(attempt.inputs().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).step("wait"),
        }
        let agent = agent_at.and_then(|at| fds.get(at)).is_some_and(|fd| !fd.revents().is_empty());
        let door =
            fds.get(door_at..door_until).is_some_and(|fds| fds.iter().any(|fd| !fd.revents().is_empty()));
        Ok(Ready { agent, door })
    }

    /// Lets in the next agent, which has the attempt from then on. The one before it, if it is still there, is dead or
    /// about to be: one state directory has one agent.
    fn look_at_door(&mut self, now: Mono) {
        let Some(attempt) = &self.attempt else { return };
        let Some((socket, inbox)) = self.door.answer(self.opening.spec.token) else { return };
        self.agent = Agent { socket: Some(socket), inbox, outbox: Outbox::default() };
        for notice in attempt.standing(now) {
            self.agent.say(&notice);
        }
        self.hear(now);
    }

    /// Does what the agent says.
    fn hear(&mut self, now: Mono) {
        for order in self.agent.hear() {
            match (order, &mut self.attempt) {
                // Read late, as after a freeze: its job may run elsewhere by now.
                (Order::Go, None) if now >= self.opening.spec.gone_by => return self.agent.hang_up(),
                (Order::Go, None) => self.attempt = Some(Attempt::start(&self.opening, &mut self.state, now)),
                (Order::Go, Some(_)) => {}
                (Order::Renew { gone_by }, Some(attempt)) => attempt.renew(gone_by),
                (Order::Renew { gone_by }, None) => {
                    self.opening.spec.gone_by = self.opening.spec.gone_by.max(gone_by);
                }
                (Order::Heard, Some(attempt)) => attempt.heard(now),
                (Order::Pause { paused }, Some(attempt)) => attempt.pause(paused, now),
                (Order::Heard | Order::Pause { .. }, None) => {}
                (Order::Stop { reason, grace }, Some(attempt)) => attempt.stop(cause(reason), grace, now),
                // Nothing runs, and nothing is to: as if the agent had hung up.
                (Order::Stop { .. }, None) => return self.agent.hang_up(),
            }
        }
    }
}

/// What `wait` found besides what every turn looks at anyway.
struct Ready {
    agent: bool,
    door: bool,
}

fn cause(reason: StopReason) -> Cause {
    match reason {
        StopReason::Revoked => Cause::Revoked,
        StopReason::Drained => Cause::Drained,
        StopReason::CutOff => Cause::CutOff,
    }
}

/// The agent's end. Once it is gone it stays gone: the next agent comes to the door.
struct Agent {
    socket: Option<UnixStream>,
    inbox: Inbox,
    outbox: Outbox,
}

impl Agent {
    fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Some(socket), inbox: Inbox::default(), outbox: Outbox::default() })
    }

    fn hang_up(&mut self) {
        self.socket = None;
    }

    fn is_gone(&self) -> bool {
        self.socket.is_none()
    }

    /// Says it without waiting. An agent that cannot be told is gone.
    fn say(&mut self, notice: &Notice) {
        let Some(socket) = &self.socket else { return };
        if self.outbox.push(notice).and_then(|()| self.outbox.flush(socket)).is_err() {
            self.socket = None;
        }
    }

    /// Every whole order that has arrived.
    fn hear(&mut self) -> Vec<Order> {
        let Some(socket) = &self.socket else { return Vec::new() };
        let mut open = self.outbox.flush(socket).and_then(|()| self.inbox.fill(socket)).unwrap_or(false);
        let mut orders = Vec::new();
        loop {
            match self.inbox.pop() {
                Ok(Some(order)) => orders.push(order),
                Ok(None) => break,
                // Nothing after a broken line can be trusted.
                Err(_) => {
                    open = false;
                    break;
                }
            }
        }
        if !open {
            self.socket = None;
        }
        orders
    }
}

/// SIGCHLD and the signals that mean "stop", through a pipe.
struct Signals {
    pipe: UnixStream,
    terminate: Arc<AtomicBool>,
}

/// What has come since the last look.
struct Seen {
    terminate: bool,
}

impl Signals {
    fn register() -> io::Result<Self> {
        let (pipe, writer) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let terminate = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            // The flag before the pipe: whoever is woken finds it set.
            signal_hook::flag::register(signal, Arc::clone(&terminate))?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(SIGCHLD, writer)?;
        Ok(Self { pipe, terminate })
    }

    fn take(&mut self) -> Seen {
        let mut bytes = [0; 64];
        while matches!((&self.pipe).read(&mut bytes), Ok(count) if count > 0) {}
        Seen { terminate: self.terminate.swap(false, Ordering::Relaxed) }
    }
}

/// A timer on the clock of the deadlines: it counts suspended time if that clock does.
struct Timer {
    fd: OwnedFd,
}

impl Timer {
    fn new(clock: Clock) -> io::Result<Self> {
        let id = match clock {
            Clock::Boottime => TimerfdClockId::Boottime,
            Clock::Monotonic => TimerfdClockId::Monotonic,
        };
        let fd = timerfd_create(id, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Self { fd })
    }

    /// Fires at `wake_at`, at once if that is over; never without one. Setting it also takes back what has fired.
    fn set(&self, wake_at: Option<Mono>) -> io::Result<()> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = match wake_at.map(Mono::to_timespec) {
            Some(moment) if moment == never => Timespec { tv_sec: 0, tv_nsec: 1 },
            Some(moment) => moment,
            None => never,
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: never, it_value })?;
        Ok(())
    }
}

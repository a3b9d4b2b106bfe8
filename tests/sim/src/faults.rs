//! Which faults a history has, and when they happen.
//!
//! Each seed switches on a subset of them (a swarm: what always happens together hides what happens alone); one in five
//! is a storm with most of them at once; one in ten is calm: few long jobs, so that its leader mostly renews, and little
//! but a database out of reach. After the storm everything heals, and whatever is left has to end.

use crate::{
    clock::{MOST_DRIFT, MS, S},
    db::Line,
    random::Random,
    trace::say,
    world::{FaultInput, Happening, World},
};

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident $name:literal,)*) => {
        /// What can go wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        impl Fault {
            /// All of them, in the order of their declaration.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$fault),*];

            /// The word for it in counts and traces.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$fault => $name,)*
                }
            }
        }
    };
}

faults! {
    /// A server is killed, and started again later.
    ServerKilled "server killed",
    /// A server is stopped for up to 30 s, and goes on as if nothing had been.
    ServerStopped "server stopped",
    /// A server resigns, ends and is started again.
    ServerRestarted "server restarted",
    /// The database restarts.
    DbRestarted "database restarted",
    /// The database fails over to a standby that lags behind.
    DbFailedOver "database failed over, tail lost",
    /// One connection of a server to the database passes nothing on, in one direction or both.
    DbHeld "database connection held",
    /// A COMMIT waits for the disk.
    CommitSlow "commit slow",
    /// A COMMIT comes late, inside an open transaction.
    CommitHeld "commit held",
    /// A commit is rolled back and nobody says so.
    CommitLost "commit lost, outcome unknown",
    /// A commit is written and nobody says so.
    AnswerLost "commit applied, outcome unknown",
    /// A commit is rolled back by a deadlock.
    CommitDeadlock "deadlock",
    /// A takeover ended a transaction that held its lock. It follows from others.
    Terminated "transaction terminated",
    /// A host and a server do not reach each other.
    NetCut "network cut",
    /// A host does not reach a server, or the other way round.
    NetOneWay "network cut one way",
    /// A connection is reset.
    NetReset "connection reset",
    /// One end of a connection goes away and the other hears nothing of it.
    HalfOpen "connection half-open",
    /// A message takes up to 20 s.
    NetSlow "message delayed",
    /// A call of a client, or its answer, is lost.
    CallLost "call lost",
    /// A client calls twice.
    CallTwice "call duplicated",
    /// An agent is killed, and started again later.
    AgentKilled "agent killed",
    /// An agent is restarted in good order.
    AgentRestarted "agent restarted",
    /// An agent is stopped, its shims are not.
    AgentStopped "agent stopped",
    /// A host reboots.
    Rebooted "host rebooted",
    /// A host is suspended with everything on it.
    Suspended "host suspended",
    /// An agent is killed and its state directory is deleted before the next one starts.
    StateLost "state directory lost",
    /// Another host says Hello under the same name.
    Cloned "instance cloned",
    /// An operator drains a node for a while.
    Drained "node drained",
    /// A wall clock is set, by up to ten years.
    WallStepped "wall clock stepped",
    /// Clocks run wrong, by up to 5 %.
    Drift "clocks drift",
    /// A process tree does not die by SIGKILL.
    Unkillable "process unkillable",
    /// A process ignores SIGTERM.
    Stubborn "process ignores SIGTERM",
    /// A process tree outlives its command.
    Lingering "tree outlives its command",
    /// A shim is killed; its tree lives on until its agent has cleaned up.
    ShimKilled "shim killed",
}

/// What one seed has.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    enabled: Vec<Fault>,
    /// Of 10,000 that could, so many do: for what happens in passing.
    rate: u64,
    /// Between two of those that are planned, on average, in microseconds.
    every: u64,
}

impl Mix {
    /// Nothing goes wrong.
    pub(crate) fn none() -> Self {
        Self { enabled: Vec::new(), rate: 0, every: S }
    }

    pub(crate) fn new(random: &mut Random, (storm, calm): (bool, bool)) -> Self {
        if calm {
            let mut enabled: Vec<Fault> = (0..2).filter_map(|_| random.pick(&Fault::ALL)).collect();
            enabled.push(Fault::DbHeld);
            return Self { enabled, rate: 50, every: random.between(8 * S, 20 * S) };
        }
        let chance = if storm { 85 } else { random.between(10, 45) };
        let enabled = Fault::ALL.into_iter().filter(|_| random.percent(chance)).collect();
        let rate = if storm { 150 } else { random.between(20, 200) };
        let every = if storm { random.between(S, 3 * S) } else { random.between(2 * S, 15 * S) };
        Self { enabled, rate, every }
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.enabled.contains(&fault)
    }
}

impl World {
    /// Whether something that may go wrong in passing does now.
    pub(crate) fn happens(&mut self, fault: Fault) -> bool {
        if self.healed || !self.mix.has(fault) {
            return false;
        }
        let happens = self.random.below(10_000) < self.mix.rate;
        if happens {
            self.counts.fault(fault);
            say!(self, ("fault"), "{}", fault.name());
        }
        happens
    }

    pub(crate) fn plan_fault(&mut self) {
        let at = self.now + self.random.between(self.mix.every / 2, self.mix.every * 3 / 2);
        self.plan(at, Happening::Fault(FaultInput::Strike));
    }

    pub(crate) fn fault_input(&mut self, input: FaultInput) {
        match input {
            FaultInput::Strike if self.healed => {}
            FaultInput::Strike => {
                if let Some(fault) = self.random.pick(&self.mix.enabled.clone()) {
                    self.strike(fault);
                }
                self.plan_fault();
            }
            FaultInput::ThawServer { server, life } => self.thaw_server(server, life),
            FaultInput::StartServer { server } => self.start_server(server),
            FaultInput::ThawAgent { host, life } => self.thaw_agent(host, life),
            FaultInput::StartAgent { host } => self.start_agent(host),
            FaultInput::Wake { host } => self.wake_host(host),
            FaultInput::Mend { host, server } => self.mend(host, server),
            FaultInput::ReleaseDb { server, line } => self.release_db(server, line),
            FaultInput::EndCopy { host } => self.end_copy(host),
            FaultInput::Outage { length } => self.outage_begins(length),
            FaultInput::Heal => self.heal(),
        }
    }

    fn strike(&mut self, fault: Fault) {
        let server = self.random.index(self.servers.len());
        let host = self.random.index(self.hosts.len());
        let done = match fault {
            Fault::ServerKilled => self.kill_server(server),
            Fault::ServerStopped => self.stop_server(server),
            Fault::ServerRestarted => self.restart_server(server),
            Fault::DbRestarted => self.restart_db(false),
            Fault::DbFailedOver => self.restart_db(true),
            Fault::DbHeld => self.hold_db(server),
            Fault::NetCut => self.cut(host, server, (true, true)),
            Fault::NetOneWay => {
                let inward = self.random.percent(50);
                self.cut(host, server, (inward, !inward))
            }
            Fault::NetReset => self.reset_connection(),
            Fault::HalfOpen => self.half_open(),
            Fault::AgentKilled => self.kill_agent(host, false),
            Fault::StateLost => self.kill_agent(host, true),
            Fault::AgentRestarted => self.restart_agent(host),
            Fault::AgentStopped => self.stop_agent(host),
            Fault::Rebooted => self.reboot(host),
            Fault::Suspended => self.suspend(host),
            Fault::Cloned => self.clone_instance(host),
            Fault::Drained => self.drain_node(host),
            Fault::ShimKilled => self.kill_shim(host),
            Fault::WallStepped => self.step_wall(server),
            // They happen in passing, or once and for all.
            Fault::CommitSlow
            | Fault::CommitHeld
            | Fault::CommitLost
            | Fault::AnswerLost
            | Fault::CommitDeadlock
            | Fault::Terminated
            | Fault::NetSlow
            | Fault::CallLost
            | Fault::CallTwice
            | Fault::Drift
            | Fault::Unkillable
            | Fault::Stubborn
            | Fault::Lingering => false,
        };
        if done {
            self.counts.fault(fault);
        }
    }

    fn restart_db(&mut self, fail_over: bool) -> bool {
        if !self.db.up || (fail_over && self.db.lag.is_none()) {
            return false;
        }
        let length = self.random.between(100 * MS, 12 * S);
        say!(self, ("fault"), "the database goes away for {} ms", length / MS);
        self.db_goes(length);
        if fail_over {
            self.db_fails_over();
        }
        true
    }

    fn hold_db(&mut self, server: usize) -> bool {
        let both = self.random.percent(40);
        let inward = self.random.percent(50);
        let lines: &[Line] = match self.random.below(3) {
            0 => &[Line::Election],
            1 => &[Line::Commit],
            _ => &[Line::Election, Line::Commit],
        };
        let length = self.random.between(S, if self.calm { 120 * S } else { 40 * S });
        let what = (both || inward, both || !inward);
        say!(
            self,
            ("fault"),
            "connections {lines:?} of s{server} pass nothing on {what:?} for {} ms",
            length / MS
        );
        for line in lines {
            self.db.held.insert((server, *line), what);
            let at = self.now + length;
            self.plan(at, Happening::Fault(FaultInput::ReleaseDb { server, line: *line }));
        }
        true
    }

    /// Of a server: on a host nobody reads the wall clock, all deadlines of agents and shims are by the other one.
    fn step_wall(&mut self, server: usize) -> bool {
        const HOUR: i64 = 3_600_000_000;
        let by = self.random.pick(&[HOUR, 24 * 365 * HOUR, 24 * 3650 * HOUR]).unwrap_or(HOUR);
        let by = if self.random.percent(50) { by } else { -by };
        say!(self, ("fault"), "the wall clock of s{server} is set by {} h", by / HOUR);
        self.servers[server].clock.step(by);
        true
    }

    /// By how many millionths a clock is fast.
    pub(crate) fn drift(random: &mut Random, mix: &Mix) -> i64 {
        if !mix.has(Fault::Drift) {
            return 0;
        }
        i64::try_from(random.below(2 * MOST_DRIFT + 1)).unwrap_or(0) - i64::try_from(MOST_DRIFT).unwrap_or(0)
    }

    /// No fault happens any more, and what is broken is mended.
    fn heal(&mut self) {
        say!(self, ("fault"), "no more: everything heals");
        self.healed = true;
        for server in 0..self.servers.len() {
            for line in [Line::Election, Line::Commit] {
                self.release_db(server, line);
            }
            self.mend_server(server);
        }
        for host in 0..self.hosts.len() {
            for server in 0..self.servers.len() {
                self.mend(host, server);
            }
            self.mend_host(host);
            self.uncordon(host);
        }
    }
}

//! One host: its clocks, its agent, what its disk keeps, and the processes that its shims hold.
//!
//! Responsible for everything that kills, stops and starts them. The agent's session is in `host/agent.rs`; its attempts
//! are in `host/runner.rs`, their shims in `host/shim.rs`.

mod agent;
mod runner;
mod shim;

use std::collections::BTreeMap;

use tenure_node_agent::holdings::{End, Holdings};
use tenure_scheduler::{JobId, NodeName, Statement};

pub(crate) use self::{
    agent::{Agent, AgentInput},
    shim::{Attempt, ShimInput},
};
use crate::{
    clock::{Clock, MS, S},
    net::Ending,
    trace::say,
    world::{FaultInput, Happening, World},
};

/// The state directory of an agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct StateDir {
    pub(crate) instance: String,
    pub(crate) incarnation: u64,
    max_epoch: u64,
    /// Ends that the server has not answered, by token.
    pub(crate) spool: BTreeMap<u64, Spooled>,
}

#[derive(Debug, Clone)]
pub(crate) struct Spooled {
    job: JobId,
    end: End,
    statement: Statement,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: NodeName,
    pub(crate) clock: Clock,
    pub(crate) boot: u64,
    pub(crate) suspended: bool,
    /// What waits for it to wake.
    held: Vec<Happening>,
    pub(crate) agent: Agent,
    pub(crate) dir: StateDir,
    pub(crate) attempts: BTreeMap<u64, Attempt>,
    /// It has the disk of another, or will have it. It has no place in a healed world.
    copy: bool,
    /// It is switched on. Others always are.
    on: bool,
}

/// What one node offers.
pub(crate) const CPU: u32 = 3;

impl Host {
    pub(crate) fn new(name: &str, number: usize, clock: Clock) -> Self {
        let instance = format!("i{number}.0");
        Self {
            name: NodeName::new(name),
            clock,
            boot: 1,
            suspended: false,
            held: Vec::new(),
            agent: Agent::new(Holdings::new(runner::options(), BTreeMap::new(), 0)),
            dir: StateDir { instance, ..StateDir::default() },
            attempts: BTreeMap::new(),
            copy: false,
            on: true,
        }
    }

    /// Whether nothing is left to be said or to end.
    pub(crate) fn is_idle(&self) -> bool {
        self.copy || (self.agent.holdings.is_idle() && self.attempts.is_empty() && self.dir.spool.is_empty())
    }
}

impl World {
    pub(crate) fn reach_agent(&mut self, index: usize, life: u64, input: AgentInput) {
        let host = &mut self.hosts[index];
        if !host.agent.up || host.agent.life != life {
            return;
        }
        if host.suspended {
            host.held.push(Happening::Agent { host: index, life, input });
        } else if host.agent.stopped {
            host.agent.held.push(Happening::Agent { host: index, life, input });
        } else {
            self.agent_input(index, input);
        }
    }

    pub(crate) fn reach_shim(&mut self, index: usize, boot: u64, token: u64, input: ShimInput) {
        let host = &mut self.hosts[index];
        if host.boot != boot || !host.attempts.contains_key(&token) {
            return;
        }
        if host.suspended {
            host.held.push(Happening::Shim { host: index, boot, token, input });
        } else {
            self.shim_input(index, token, input);
        }
    }

    pub(crate) fn start_agent(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if host.agent.up || host.suspended || !host.on {
            return;
        }
        host.dir.incarnation += 1;
        let life = host.agent.life + 1;
        self.spool_ended(index);
        let host = &mut self.hosts[index];
        let unstored = host.dir.spool.iter().map(|(token, spooled)| runner::unstored(*token, spooled));
        let holdings = Holdings::new(runner::options(), unstored.collect(), host.dir.max_epoch);
        host.agent = Agent::new(holdings);
        (host.agent.life, host.agent.up) = (life, true);
        say!(
            self,
            ("h{index}"),
            "its agent starts, {} incarnation {}",
            self.hosts[index].dir.instance,
            self.hosts[index].dir.incarnation
        );
        let after = self.find_leftovers(index);
        self.connect_soon(index, after);
        self.settle(index);
    }

    /// Its agent ends; shims do not.
    fn end_agent(&mut self, index: usize, silently: bool) {
        let agent = &mut self.hosts[index].agent;
        agent.up = false;
        agent.stopped = false;
        agent.held.clear();
        self.close_all(Some(index), None, silently);
    }

    /// SIGTERM: it gives back what has not started, and leaves the rest to the next agent.
    pub(crate) fn restart_agent(&mut self, index: usize) -> bool {
        let host = &self.hosts[index];
        if !host.agent.up || host.agent.stopped || host.suspended {
            return false;
        }
        say!(self, ("fault"), "the agent of h{index} is restarted");
        self.say_draining(index);
        let now = self.node_now(index);
        self.hosts[index].agent.holdings.hand_over(now);
        self.settle(index);
        self.end_agent(index, false);
        let at = self.now + self.random.between(50 * MS, 3 * S);
        self.plan(at, Happening::Fault(FaultInput::StartAgent { host: index }));
        true
    }

    pub(crate) fn kill_agent(&mut self, index: usize, lose: bool) -> bool {
        if !self.hosts[index].agent.up || self.hosts[index].suspended {
            return false;
        }
        say!(
            self,
            ("fault"),
            "the agent of h{index} is killed{}",
            if lose { ", its directory deleted" } else { "" }
        );
        self.end_agent(index, false);
        if lose {
            self.lose_directory(index);
        }
        let at = self.now + self.random.between(100 * MS, 40 * S);
        self.plan(at, Happening::Fault(FaultInput::StartAgent { host: index }));
        true
    }

    fn lose_directory(&mut self, index: usize) {
        self.instances += 1;
        let instance = format!("i{index}.{}", self.instances);
        let host = &mut self.hosts[index];
        host.dir = StateDir { instance, ..StateDir::default() };
        for attempt in host.attempts.values_mut() {
            attempt.lose_files();
        }
    }

    pub(crate) fn stop_agent(&mut self, index: usize) -> bool {
        let agent = &mut self.hosts[index].agent;
        if !agent.up || agent.stopped {
            return false;
        }
        agent.stopped = true;
        let life = agent.life;
        let length = self.random.between(200 * MS, 60 * S);
        say!(self, ("fault"), "the agent of h{index} is stopped for {} ms", length / MS);
        self.plan(self.now + length, Happening::Fault(FaultInput::ThawAgent { host: index, life }));
        true
    }

    pub(crate) fn thaw_agent(&mut self, index: usize, life: u64) {
        let agent = &mut self.hosts[index].agent;
        if !agent.up || agent.life != life || !std::mem::take(&mut agent.stopped) {
            return;
        }
        let held = std::mem::take(&mut agent.held);
        say!(self, ("h{index}"), "its agent goes on");
        let host = &mut self.hosts[index];
        if host.suspended {
            // It came before everything that has waited for the host since.
            host.held.splice(0..0, held);
        } else {
            held.into_iter().for_each(|happening| self.plan(self.now, happening));
        }
    }

    pub(crate) fn suspend(&mut self, index: usize) -> bool {
        let host = &mut self.hosts[index];
        if host.suspended || !host.on {
            return false;
        }
        host.suspended = true;
        let length = self.random.between(S, 90 * S);
        say!(self, ("fault"), "h{index} is suspended for {} ms", length / MS);
        self.oracle.suspended(index);
        self.plan(self.now + length, Happening::Fault(FaultInput::Wake { host: index }));
        true
    }

    /// Everything on it goes on in an order that nobody knows: a shim that is late looks at its clock first of all.
    pub(crate) fn wake_host(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if !std::mem::take(&mut host.suspended) {
            return;
        }
        let held = std::mem::take(&mut host.held);
        say!(self, ("h{index}"), "wakes");
        let shims_by = self.now + 100 * MS;
        // A look, a signal, and the end of the tree.
        self.oracle.woken(index, shims_by + 100 * MS);
        for happening in held {
            let at = if let Happening::Shim { .. } = happening {
                self.random.between(self.now, shims_by)
            } else {
                self.now
            };
            self.plan(at, happening);
        }
        let (boot, tokens) = (self.hosts[index].boot, self.hosts[index].attempts.keys().copied());
        for token in tokens.collect::<Vec<_>>() {
            let at = self.random.between(self.now, shims_by);
            self.plan(at, Happening::Shim { host: index, boot, token, input: ShimInput::Wake });
        }
        // Somebody started its agent while it slept.
        let at = self.now + self.random.between(S, 5 * S);
        self.plan(at, Happening::Fault(FaultInput::StartAgent { host: index }));
    }

    /// Power off and on: nobody says goodbye.
    pub(crate) fn reboot(&mut self, index: usize) -> bool {
        if !self.hosts[index].on {
            return false;
        }
        say!(self, ("fault"), "h{index} reboots");
        self.hosts[index].suspended = false;
        self.hosts[index].held.clear();
        self.end_agent(index, true);
        self.trees_die(index);
        self.hosts[index].boot += 1;
        let at = self.now + self.random.between(S, 60 * S);
        self.plan(at, Happening::Fault(FaultInput::StartAgent { host: index }));
        true
    }

    /// Its disk is copied to another host, which starts an agent of the same name. A copy is noticed (machine id, device,
    /// inode) unless the whole machine is one; that has another boot.
    pub(crate) fn clone_instance(&mut self, index: usize) -> bool {
        let Some(copy) = self.hosts.iter().position(|host| !host.on) else { return false };
        if self.hosts[index].copy || self.healed {
            return false;
        }
        say!(self, ("fault"), "h{index} is cloned as h{copy}");
        let noticed = self.random.percent(50);
        self.instances += 1;
        let instance = format!("i{index}.{}", self.instances);
        let (name, dir, boot) =
            (self.hosts[index].name.clone(), self.hosts[index].dir.clone(), self.instances + 1_000);
        let host = &mut self.hosts[copy];
        (host.name, host.boot, host.on) = (name, boot, true);
        let spool = BTreeMap::new();
        let instance = if noticed { instance } else { dir.instance.clone() };
        host.dir = StateDir { instance, spool, ..dir };
        let at = self.now + self.random.between(S, 10 * S);
        self.plan(at, Happening::Fault(FaultInput::StartAgent { host: copy }));
        let end = at + self.random.between(S, 60 * S);
        self.plan(end, Happening::Fault(FaultInput::EndCopy { host: copy }));
        true
    }

    /// A host that has the disk of another.
    pub(crate) fn spare_host(number: usize, clock: Clock) -> Host {
        let mut host = Host::new("spare", number, clock);
        (host.copy, host.on) = (true, false);
        host
    }

    pub(crate) fn end_copy(&mut self, index: usize) {
        say!(self, ("h{index}"), "is switched off");
        self.hosts[index].suspended = false;
        self.hosts[index].held.clear();
        self.end_agent(index, true);
        self.trees_die(index);
        self.hosts[index].attempts.clear();
        self.hosts[index].boot += 1;
        self.hosts[index].on = false;
    }

    pub(crate) fn mend_host(&mut self, index: usize) {
        if self.hosts[index].copy {
            return self.end_copy(index);
        }
        let life = self.hosts[index].agent.life;
        self.thaw_agent(index, life);
        self.wake_host(index);
        self.kill_what_cannot_be(index);
        self.start_agent(index);
    }

    /// The agent drops its connection.
    fn hang_up_session(&mut self, index: usize) {
        if let Some(conn) = self.hosts[index].agent.conn.take() {
            self.close(conn, true, Ending::Closed);
        }
    }
}

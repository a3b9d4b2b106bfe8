//! What goes wrong in a history: nodes that vanish, restart, reboot or lose their state, leaders that end, and peers
//! that say absurd things.

use std::time::Duration;

use tenure_scheduler::{
    ClosedGroup, Command, CounterName, Finish, FinishedHow, Group, Held, KindName, Ordinal, Phase, Pressure,
    SessionId, SlotName, Statement, Throttled,
};

use super::fuzz::{FLEET_SLOTS, Fuzz, KINDS, NODE_SLOTS};
use crate::support::{Agent, token_of};

impl Fuzz {
    pub(crate) fn press(&mut self) {
        let name = self.node();
        let group = match self.rng.below(3) {
            0 => Group::All,
            1 => Group::Slot(SlotName::new(self.rng.pick(&[NODE_SLOTS, FLEET_SLOTS].concat()).unwrap())),
            _ => Group::Kind(KindName::new(self.rng.pick(&KINDS).unwrap())),
        };
        let closed = self.rng.percent(60).then(|| ClosedGroup {
            group,
            rule: "uid_procs".into(),
            signal: "procs.used".into(),
            observed: 600.0,
            threshold: 550.0,
            closed_for: Duration::ZERO,
        });
        let caps = if self.rng.percent(20) { vec![(SlotName::new("s1"), 1)] } else { Vec::new() };
        let Some(agent) = self.world.agents.get_mut(&name) else { return };
        let pressure = Pressure {
            generation: agent.pressure.generation + 1,
            closed: closed.into_iter().collect(),
            caps: caps.into_iter().collect(),
            weight: 1,
        };
        agent.pressure = pressure;
        if agent.session.is_some() {
            let result = self.world.beat(&name);
            self.note(result);
        }
    }

    pub(crate) fn trouble(&mut self) {
        self.world.closeness.look_next();
        let name = self.node();
        let chance = self.rng.below(20);
        if chance == 0 {
            self.world.batch = false;
            self.world.reload();
            return;
        }
        if !self.world.agents.contains_key(&name) {
            return;
        }
        match chance {
            1..4 => self.agent(&name).steady ^= true,
            4 => self.agent(&name).deaf = true,
            5..8 => self.close(&name),
            8..12 => {
                self.close_unheard(&name);
                self.agent(&name).deaf = false;
                self.hello(&name);
            }
            12..14 => self.restart(&name),
            14 => self.reboot(&name),
            15 => self.lose_state(&name),
            16 => self.forget(&name),
            17 => self.block(&name),
            _ => {
                let mut agent = self.world.agents[&name].clone();
                self.offer(&mut agent);
                self.world.agents.insert(name.clone(), agent);
                self.hello(&name);
            }
        }
    }

    fn agent(&mut self, name: &tenure_scheduler::NodeName) -> &mut Agent {
        self.world.agents.get_mut(name).unwrap()
    }

    /// Its stream ends, and the server hears of it.
    fn close(&mut self, name: &tenure_scheduler::NodeName) {
        if let Some(session) = self.agent(name).session.take() {
            self.run(Command::SessionClosed { node: name.clone(), session });
        }
    }

    /// Its stream ends, and the server does not hear of it.
    fn close_unheard(&mut self, name: &tenure_scheduler::NodeName) {
        self.agent(name).session = None;
    }

    /// The agent died; before it says Hello again it has killed what it finds.
    fn restart(&mut self, name: &tenure_scheduler::NodeName) {
        let agent = self.agent(name);
        (agent.incarnation, agent.stream, agent.session, agent.deaf) =
            (agent.incarnation + 1, 0, None, false);
        agent.drop_held();
        self.hello(name);
    }

    fn reboot(&mut self, name: &tenure_scheduler::NodeName) {
        let agent = self.agent(name);
        agent.boot.push('+');
        self.restart(name);
    }

    /// Another instance takes the name; what the old one runs goes on until its leases are over.
    fn lose_state(&mut self, name: &tenure_scheduler::NodeName) {
        if self.rng.percent(50) {
            self.close(name); // Else the name is in use until the old stream has been silent for long enough.
        }
        let agent = self.agent(name);
        agent.instance.push('+');
        agent.spool.clear();
        let running = agent.held.values().filter(|held| held.started.is_some() && !held.ended);
        let ghosts: Vec<_> = running.map(|held| (name.clone(), held.job, held.gone_by)).collect();
        self.ghosts.extend(ghosts);
        self.restart(name);
        if self.rng.percent(50) {
            self.hello(name); // What it does not list this time is not its own either.
        }
    }

    fn forget(&mut self, name: &tenure_scheduler::NodeName) {
        let lost = self.rng.percent(50);
        let gone = self.run(Command::Forget { node: name.clone(), lost, validate_only: false }).is_some();
        if gone {
            // The operator said that it is dead, and it is, with what any instance of it ran.
            self.ghosts.retain(|(node, ..)| node != name);
            let agent = self.agent(name);
            agent.drop_held();
            agent.spool.clear();
            agent.session = None;
        }
    }

    fn block(&mut self, name: &tenure_scheduler::NodeName) {
        let Some(session) = self.agent(name).session else { return };
        for blocked in [true, false] {
            self.run(Command::SessionBlocked { node: name.clone(), session, blocked });
            self.tick();
        }
    }

    /// Statements that no honest peer makes. None of them is of the right node, job, token and session at once.
    pub(crate) fn absurd(&mut self) {
        let (name, other) = (self.node(), self.node());
        let Some((job, token, node)) = self.rng.pick(&self.grants) else { return };
        let statement = match self.rng.below(6) {
            0 => Statement::Accepted,
            1 => Statement::Started { elapsed: Duration::MAX },
            2 => Statement::Reaped,
            3 => Statement::Finished(Finish {
                how: FinishedHow::Succeeded,
                exit_code: None,
                cause: "x".repeat(10_000).into(),
                error: "ä".repeat(10_000).into(),
                retry_after: Some(Duration::MAX),
                throttled: Some(Throttled {
                    slot: SlotName::new(FLEET_SLOTS[0]),
                    retry_after: Duration::MAX,
                }),
                usage: [(CounterName::new("tokens"), u64::MAX)].into(),
                has_result: true,
                partial: true,
                checkpoint: Some(u64::MAX),
                detach: None,
            }),
            4 => Statement::Checkpoint { size: u64::MAX },
            _ => Statement::Progress { percent: 40, message: "on it".into() },
        };
        let some_job = self.rng.pick(&self.jobs).filter(|some| *some != job);
        let choice = self.rng.below(6);
        let Some(agent) = self.world.agents.get_mut(&name) else { return };
        let mut command = match choice {
            0 if node != name => agent.say(job, token, statement),
            1 => agent.say(some_job.unwrap_or(tenure_scheduler::JobId(uuid::Uuid::nil())), token, statement),
            2 => agent.say(job, token_of("9.9"), statement),
            3 => agent.say(job, tenure_scheduler::FencingToken(token.0.wrapping_sub(1)), statement),
            _ => agent.beat(self.world.clock),
        };
        if let Command::Heartbeat(beat) = &mut command {
            if choice == 4 && !agent.deaf {
                beat.session = SessionId(self.rng.below(self.world.sessions + 2));
                if agent.session == Some(beat.session) {
                    return;
                }
            } else {
                let strange = Held {
                    job,
                    token,
                    phase: Phase::Unkillable,
                    elapsed: Duration::MAX,
                    wait_epoch: Some(7),
                };
                beat.held.push(strange);
                beat.seen = Ordinal(agent.seen);
                if node == other {
                    beat.held.pop();
                }
                if node == name {
                    return;
                }
            }
        }
        self.run(command);
    }
}

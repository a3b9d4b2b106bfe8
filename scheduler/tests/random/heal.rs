//! "Heal, then converge": once every fault is gone, every job comes to its end.

use std::time::Duration;

use tenure_scheduler::{
    Command, Finish, FinishedHow, KindName, NodeName, Phase, Pressure, SlotName, Statement,
};

use super::fuzz::{Fuzz, KINDS, NODE_SLOTS, NODES, fleet};

/// How long it may take: back-offs, `run_at`, leases that run out, one after the other.
const WITHIN: u32 = 600;

impl Fuzz {
    pub(crate) fn heal(&mut self) {
        self.world.batch = false;
        self.world.commit();
        // The next leader tries to end what this one could not.
        self.world.reload();
        self.run(Command::Apply { fleet: Box::new(fleet(4, 4)), validate_only: false });
        for slot in [NODE_SLOTS, super::fuzz::FLEET_SLOTS].concat() {
            self.run(Command::ResumeSlot { slot: SlotName::new(slot) });
        }
        for kind in KINDS {
            self.run(Command::ResumeKind { kind: KindName::new(kind) });
        }
        for n in 0..NODES {
            let node = NodeName::new(format!("n{n}"));
            self.run(Command::Uncordon { node: node.clone() });
            let agent = self.world.agents.get_mut(&node).unwrap();
            agent.session = None;
            (agent.steady, agent.deaf) = (true, false);
            super::routing::heal(n, agent);
            agent.slots = NODE_SLOTS.map(|slot| (SlotName::new(slot), 4)).into();
            agent.kinds = KINDS.map(KindName::new).into();
            agent.pressure = Pressure { generation: agent.pressure.generation + 1, ..Pressure::default() };
        }
        for round in 0..WITHIN {
            if round % 20 == 0 {
                self.free_the_set_aside();
            }
            for n in 0..NODES {
                self.get_on(&NodeName::new(format!("n{n}")));
            }
            self.advance(Duration::from_secs(1));
            let rows = self.world.state.durable();
            if rows.jobs.is_empty() && rows.leases.is_empty() && rows.workflows.is_empty() {
                self.world.closeness.look_next();
                self.tick();
                return;
            }
        }
        let rows = self.world.state.durable();
        let now = self.world.now();
        let why: Vec<_> = rows.jobs.keys().map(|id| (id, self.world.state.live_view(now, *id))).collect();
        panic!(
            "not at rest after {WITHIN} s: {:#?}\n{:#?}\n{:#?}\n{why:#?}",
            rows.workflows, rows.jobs, rows.leases
        );
    }

    fn free_the_set_aside(&mut self) {
        let ids: Vec<_> = self.world.state.durable().jobs.keys().copied().collect();
        for job in ids {
            self.run(Command::Requeue { job, force: true, prior: None, key_taken: false });
        }
    }

    /// A healthy node does everything that it can.
    fn get_on(&mut self, name: &NodeName) {
        let clock = self.world.clock;
        let agent = self.world.agents.get_mut(name).unwrap();
        agent.kill_overdue(clock);
        if agent.session.is_none() && !self.hello(name) {
            return;
        }
        self.unspool(name);
        let agent = &self.world.agents[name];
        let held: Vec<_> = agent.held.iter().map(|(token, held)| (*token, *held)).collect();
        for (token, held) in held {
            if held.parked.is_some() {
                continue; // Its children get on.
            }
            let statement = match held.phase {
                Phase::Granted => Statement::Accepted,
                Phase::Accepted => {
                    self.starts(name, held.job);
                    Statement::Started { elapsed: Duration::ZERO }
                }
                Phase::Started | Phase::Parked | Phase::Stopping | Phase::Unkillable => {
                    Statement::Finished(Finish { exit_code: Some(0), ..Finish::new(FinishedHow::Succeeded) })
                }
                Phase::Finished => Statement::Reaped,
            };
            self.say(name, held.job, token, statement);
        }
    }
}

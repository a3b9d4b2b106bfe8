//! No control plane for minutes, with hundreds of jobs that run: shorter than their leases, it costs nobody anything.

use std::time::Duration;

use tenure_scheduler::{Command, Enqueue, Fingerprint, JobId, KindName, Producer, Tenant, micros};
use uuid::Uuid;

use crate::{
    clock::S,
    trace::say,
    world::{FaultInput, Happening, KINDS, STEADY, World},
};

/// How many jobs run meanwhile.
const JOBS: u64 = 200;

/// When all of them run.
const BEGINS: u64 = 60 * S;

impl World {
    /// All that happens, after the first start of servers and agents.
    pub(crate) fn plan_outage(&mut self, length: Duration) {
        for number in 0..JOBS {
            let id = Uuid::from_u128((u128::from(number) << 80) | 0x7000_8000_0000_0000_0000);
            let mut fingerprint = [0; 32];
            fingerprint.iter_mut().zip(id.as_bytes()).for_each(|(to, from)| *to = *from);
            let command = Command::Enqueue(Box::new(Enqueue {
                producer: Producer::new("p"),
                fingerprint: Fingerprint(fingerprint),
                ..Enqueue::new(JobId(id), KindName::new(KINDS[STEADY].name), Tenant::new("a"))
            }));
            let at = self.random.between(2 * S, 20 * S);
            self.plan_client(at, command);
        }
        let length = micros(length);
        self.plan(BEGINS, Happening::Fault(FaultInput::Outage { length }));
        self.healed_at = BEGINS + length;
        self.plan(self.healed_at + S, Happening::Look);
    }

    pub(crate) fn outage_begins(&mut self, length: u64) {
        let running = self.oracle.processes() as u64;
        if running != JOBS {
            self.violated(format!("{running} of {JOBS} jobs run when the outage begins"));
        }
        say!(self, ("fault"), "no server for {} s", length / S);
        for server in 0..self.servers.len() {
            self.end_server(server);
            let at = self.now + length + self.random.between(0, S);
            self.plan(at, Happening::Fault(FaultInput::StartServer { server }));
        }
    }

    /// Every job ended where it ran.
    pub(crate) fn outage_ends(&mut self) {
        if self.outage.is_none() {
            return;
        }
        let spoilt = self.db.tables.jobs.values().find(|job| {
            job.state.name() != "succeeded"
                || job.failures + job.losses + job.returns > 0
                || job.token.epoch().0 > 1
        });
        if let Some(job) = spoilt {
            let (id, state, token) = (job.id, job.state.name(), job.token);
            let (failures, losses, returns) = (job.failures, job.losses, job.returns);
            self.violated(format!(
                "{id} is {state} under {token}: {failures} failures, {losses} losses, {returns} returns"
            ));
        }
    }
}

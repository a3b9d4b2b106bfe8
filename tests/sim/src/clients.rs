//! Producers and operators: each call is repeated until it is answered, under the same job id.

use std::time::Duration;

use tenure_scheduler::{
    Command, DedupeKey, Enqueue, Fingerprint, JobId, KindName, Producer, Reply, Tenant, WorkflowId,
};
use uuid::Uuid;

use crate::{
    clock::{MS, S},
    faults::Fault,
    flows::Flow,
    server::{ClientCall, No, ServerInput},
    trace::say,
    world::{Happening, KINDS, LONG, SWARM, World},
};

/// A call that is not answered by then is repeated.
const PATIENCE: u64 = 4 * S;

/// One call, until it is answered.
#[derive(Debug)]
pub(crate) struct Client {
    command: Command,
    attempt: u64,
    pub(crate) done: bool,
    /// What its first answer named.
    answered: Option<JobId>,
    leader: Option<usize>,
    /// What it calls once that is answered.
    then: Option<Command>,
}

/// What happens to a client.
#[derive(Debug)]
pub(crate) enum ClientInput {
    Try {
        client: usize,
    },
    Timeout {
        client: usize,
        attempt: u64,
    },
    Answer {
        client: usize,
        attempt: u64,
        answer: Box<Result<Reply, No>>,
    },
    /// It calls once more what was answered already.
    Again {
        client: usize,
    },
}

impl World {
    /// What all clients of a history will call.
    pub(crate) fn plan_clients(&mut self, until: u64) {
        let calm = self.calm;
        // No more than can run: a queue is saved every second, and so is not calm.
        let jobs = if calm { self.random.between(1, 3) } else { self.random.between(10, 45) };
        let until = if calm { 5 * S } else { until };
        for number in 0..jobs {
            let id = JobId(Uuid::from_u128((u128::from(number) << 80) | 0x7000_8000_0000_0000_0000));
            let command = self.enqueue(id, number);
            let at = self.random.between(0, until);
            self.plan_client(at, command);
            if !calm && self.random.percent(12) {
                let at = at + self.random.between(0, 30 * S);
                self.plan_client(at, Command::Cancel { job: id, reason: None, prior: None });
            }
            if !calm && self.random.percent(10) {
                let at = at + self.random.between(10 * S, 90 * S);
                self.plan_client(
                    at,
                    Command::Requeue { job: id, force: false, prior: None, key_taken: false },
                );
            }
        }
    }

    fn enqueue(&mut self, job: JobId, number: u64) -> Command {
        let kind = if self.calm { &KINDS[LONG] } else { &KINDS[self.random.index(SWARM)] };
        let mut fingerprint = [0; 32];
        fingerprint.iter_mut().zip(job.0.as_bytes()).for_each(|(to, from)| *to = *from);
        let key = self.random.percent(20).then(|| DedupeKey::new(format!("k{}", number % 3)));
        let stale = self.random.percent(10).then(|| Duration::from_secs(20 + number));
        let tenant = Tenant::new(if number.is_multiple_of(3) { "a" } else { "b" });
        Command::Enqueue(Box::new(Enqueue {
            producer: Producer::new("p"),
            fingerprint: Fingerprint(fingerprint),
            dedupe_key: key,
            stale_after: stale,
            ..Enqueue::new(job, KindName::new(kind.name), tenant)
        }))
    }

    pub(crate) fn plan_client(&mut self, at: u64, command: Command) {
        let client = self.clients.len();
        self.clients.push(Client {
            command,
            attempt: 0,
            done: false,
            answered: None,
            leader: None,
            then: None,
        });
        self.plan(at, Happening::Client(ClientInput::Try { client }));
    }

    /// An operator drains a node, or takes it out of use, and a while later takes that back.
    pub(crate) fn drain_node(&mut self, host: usize) -> bool {
        let node = self.hosts[host].name.clone();
        if node.as_str() == "spare" {
            return false;
        }
        let deadline = Duration::from_secs(self.random.between(1, 30));
        let command = if self.random.percent(60) {
            Command::Drain { node: node.clone(), deadline }
        } else {
            Command::Cordon { node: node.clone() }
        };
        say!(self, ("fault"), "an operator drains or cordons {node}");
        self.plan_client(self.now, command);
        if let Some(client) = self.clients.last_mut() {
            client.then = Some(Command::Uncordon { node });
        }
        true
    }

    /// Whatever call was still on its way when all healed: no node stays out of use.
    pub(crate) fn uncordon(&mut self, host: usize) {
        let node = self.hosts[host].name.clone();
        self.plan_client(self.now + 30 * S, Command::Uncordon { node });
    }

    pub(crate) fn client_input(&mut self, input: ClientInput) {
        match input {
            ClientInput::Try { client } => self.call(client),
            ClientInput::Again { client } => {
                self.clients[client].done = false;
                self.call(client);
            }
            ClientInput::Timeout { client, attempt } => {
                if !self.clients[client].done && self.clients[client].attempt == attempt {
                    self.clients[client].leader = None;
                    self.call(client);
                }
            }
            ClientInput::Answer { client, attempt, answer } => {
                self.answered(client, attempt, *answer);
                let one = &mut self.clients[client];
                if one.done
                    && let Some(command) = one.then.take()
                {
                    let at = self.now + self.random.between(S, 30 * S);
                    self.plan_client(at, command);
                }
            }
        }
    }

    fn call(&mut self, client: usize) {
        let index = self.clients[client].leader.unwrap_or_else(|| self.random.index(self.servers.len()));
        let one = &mut self.clients[client];
        one.attempt += 1;
        let attempt = one.attempt;
        let call = ClientCall { client, attempt, command: one.command.clone() };
        let (life, at) = (self.servers[index].life, self.now + self.random.between(MS, 20 * MS));
        self.plan(self.now + PATIENCE, Happening::Client(ClientInput::Timeout { client, attempt }));
        if self.happens(Fault::CallLost) {
            return;
        }
        if self.happens(Fault::CallTwice) {
            let input = ServerInput::Call(Box::new(call.clone()));
            let at = at + self.random.between(0, S);
            self.plan(at, Happening::Server { server: index, life, input });
        }
        self.plan(at, Happening::Server { server: index, life, input: ServerInput::Call(Box::new(call)) });
    }

    /// A server says something to a client.
    pub(crate) fn answer_client(&mut self, client: usize, attempt: u64, answer: Result<Reply, No>) {
        if let (Ok(reply), Command::Cancel { .. }) = (&answer, &self.clients[client].command) {
            self.oracle_cancelled(reply);
        } else if let (Ok(reply), Command::CancelWorkflow { .. }) = (&answer, &self.clients[client].command) {
            self.oracle_cancelled_workflow(reply);
        }
        if self.happens(Fault::CallLost) {
            return;
        }
        let at = self.now + self.random.between(MS, 20 * MS);
        let answer = Box::new(answer);
        self.plan(at, Happening::Client(ClientInput::Answer { client, attempt, answer }));
    }

    fn answered(&mut self, client: usize, attempt: u64, answer: Result<Reply, No>) {
        let one = &mut self.clients[client];
        if one.done {
            return;
        }
        match answer {
            Err(No::Unavailable { leader }) => {
                if one.attempt == attempt {
                    one.leader = leader;
                    // The attempt is over: its timeout means nothing any more.
                    one.attempt += 1;
                    let at = self.now + self.random.between(50 * MS, S);
                    self.plan(at, Happening::Client(ClientInput::Try { client }));
                }
            }
            Err(No::Refused(refusal)) => {
                one.done = true;
                let enqueues = matches!(one.command, Command::Enqueue(_) | Command::SubmitWorkflow(_));
                say!(self, ("client"), "{client} is refused: {}", refusal.reason());
                if enqueues {
                    self.violated(format!("an enqueue is refused: {refusal}"));
                }
            }
            Ok(reply) => {
                one.done = true;
                let submits = matches!(one.command, Command::SubmitWorkflow(_));
                if let Reply::Enqueued { job, deduplicated } = reply {
                    self.enqueued(client, job.id, deduplicated);
                } else if let Reply::Workflow { workflow, changed } = reply
                    && submits
                {
                    self.submitted(client, workflow.id, changed);
                }
            }
        }
    }

    /// All members of a workflow are stored.
    fn submitted(&mut self, client: usize, id: WorkflowId, changed: bool) {
        say!(self, ("client"), "workflow {id} is submitted{}", if changed { "" } else { ", again" });
        let places = self.flows.get(&id).map(Flow::places).unwrap_or_default();
        let again = self.clients[client].answered.replace(id.member(0)).is_some();
        places.for_each(|place| self.oracle_acknowledged(id.member(place)));
        if !again && self.random.percent(15) {
            let at = self.now + self.random.between(S, 60 * S);
            self.plan(at, Happening::Client(ClientInput::Again { client }));
        }
    }

    fn enqueued(&mut self, client: usize, job: JobId, deduplicated: bool) {
        let one = &mut self.clients[client];
        let Command::Enqueue(enqueue) = &one.command else { return };
        let (asked, keyed) = (enqueue.job, enqueue.dedupe_key.is_some());
        let before = one.answered.replace(job);
        say!(
            self,
            ("client"),
            "{asked} is enqueued as {job}{}",
            if deduplicated { ", deduplicated" } else { "" }
        );
        if !keyed && job != asked {
            self.violated(format!("I2: {asked} is answered with {job}"));
        }
        let lost = self.oracle.has_lost(asked) || before.is_some_and(|before| self.oracle.has_lost(before));
        // A key of a job that is final may be free for another one, so that only the job's own id says the same again.
        if before == Some(asked) && job != asked && !lost {
            self.violated(format!("I2: {asked} was answered with itself, now with {job}"));
        }
        self.oracle_acknowledged(job);
        if before.is_none() && self.random.percent(15) {
            let at = self.now + self.random.between(S, 60 * S);
            self.plan(at, Happening::Client(ClientInput::Again { client }));
        }
    }
}

//! Nodes: what they do with messages, and what they say.

use std::{collections::BTreeMap, time::Duration};

use tenure_scheduler::{
    Command, CounterName, FencingToken, Finish, FinishedHow, Held, Hello, Host, JobId, KindName, Message,
    NodeName, Ordinal, Phase, Pressure, Return, SessionId, SlotName, Statement, Stored, Throttled, Usage,
    Verdict,
};

use super::KINDS;
use crate::{random::Random, samples::texts};

/// A node's agent: its session, and what it holds.
#[derive(Default)]
pub(super) struct Agent {
    pub(super) session: Option<SessionId>,
    pub(super) seq: u64,
    pub(super) applied: Ordinal,
    /// How often its state directory was lost.
    pub(super) instance: u64,
    pub(super) incarnation: u64,
    pub(super) stream: u64,
    pub(super) held: BTreeMap<FencingToken, (JobId, Phase)>,
    /// The newest wait of each lease.
    pub(super) waits: BTreeMap<FencingToken, u64>,
}

impl Agent {
    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(super) fn listing(&self) -> Vec<Held> {
        let held = self.held.iter();
        let wait =
            |token: FencingToken, phase| self.waits.get(&token).copied().filter(|_| phase == Phase::Parked);
        held.map(|(&token, &(job, phase))| Held {
            job,
            token,
            phase,
            elapsed: Duration::ZERO,
            wait_epoch: wait(token, phase),
        })
        .collect()
    }
}

/// What a node does with a message.
pub(super) fn receive(agent: &mut Agent, message: Message) {
    match message {
        Message::Grant(grant) => {
            agent.held.insert(grant.token, (grant.job, Phase::Granted));
        }
        Message::Revoke { leases } => {
            for (token, _) in leases {
                if let Some((_, phase)) = agent.held.get_mut(&token) {
                    *phase = (*phase).max(Phase::Stopping);
                }
            }
        }
        Message::Stored(Stored { token, verdict: Verdict::LeaseLost(_), .. }) => {
            if let Some((_, phase)) = agent.held.get_mut(&token) {
                *phase = (*phase).max(Phase::Stopping);
            }
        }
        Message::Resume { token, .. } => {
            if let Some((_, phase)) = agent.held.get_mut(&token).filter(|(_, phase)| *phase == Phase::Parked)
            {
                *phase = Phase::Started;
            }
        }
        Message::Stored(_)
        | Message::Welcome { .. }
        | Message::Renewed { .. }
        | Message::Drain { .. }
        | Message::Configure { .. } => {}
    }
}

/// What a node says next of a lease, and how far it is then; none: it lets go of it.
pub(super) fn statement(random: &mut Random, phase: Phase) -> (Statement, Option<Phase>) {
    let returned = |started| {
        let (observed, threshold) = (600.0, 550.0);
        let rule = if started { "drained" } else { "uid_procs" };
        Statement::Returned(Return {
            rule: rule.into(),
            observed,
            threshold,
            generation: 1,
            retry_after: None,
            started,
            usage: Usage::new(),
            has_result: started,
            checkpoint: None,
        })
    };
    let finished = |random: &mut Random, how| {
        Statement::Finished(Finish {
            how,
            exit_code: Some(i32::from(how != FinishedHow::Succeeded) * 9),
            cause: "exit".into(),
            error: if how == FinishedHow::Succeeded { "".into() } else { "boom \"ä\"".into() },
            retry_after: random.chance(20).then(|| Duration::from_millis(1_500)),
            throttled: random.chance(20).then(|| Throttled {
                slot: SlotName::new("anthropic"),
                retry_after: Duration::from_millis(2_500),
            }),
            usage: [(CounterName::new("tokens"), random.below(50))].into(),
            has_result: random.chance(60),
            partial: random.chance(30),
            checkpoint: random.chance(30).then_some(9),
            detach: None,
        })
    };
    match phase {
        Phase::Granted if random.chance(15) => (returned(false), None),
        Phase::Granted => (Statement::Accepted, Some(Phase::Accepted)),
        Phase::Accepted if random.chance(10) => (returned(true), None),
        Phase::Accepted => (Statement::Started { elapsed: Duration::ZERO }, Some(Phase::Started)),
        // Some trees are gone before their report is sent.
        Phase::Started if random.chance(5) => (Statement::Reaped, Some(Phase::Started)),
        Phase::Started => {
            let how = match random.below(10) {
                0..5 => FinishedHow::Succeeded,
                5..8 => FinishedHow::Failed,
                8 if random.chance(50) => FinishedHow::Stalled,
                8 => FinishedHow::TimedOut,
                _ => FinishedHow::FailedPermanent,
            };
            (finished(random, how), Some(Phase::Finished))
        }
        // A process may die while it waits.
        Phase::Parked => (finished(random, FinishedHow::Failed), Some(Phase::Finished)),
        Phase::Stopping => {
            let how = if random.chance(50) { FinishedHow::Revoked } else { FinishedHow::Lost };
            (finished(random, how), Some(Phase::Finished))
        }
        Phase::Finished | Phase::Unkillable => (Statement::Reaped, None),
    }
}

/// How a node begins a session.
pub(super) fn hello(random: &mut Random, node: NodeName, agent: &mut Agent, session: SessionId) -> Command {
    if random.chance(5) {
        *agent = Agent { instance: agent.instance + 1, ..Agent::default() };
    }
    if agent.incarnation == 0 || random.chance(5) {
        // A restarted agent lists what it finds as stopping.
        agent.incarnation += 1;
        agent.stream = 0;
        agent.held.values_mut().for_each(|(_, phase)| *phase = Phase::Stopping);
    }
    agent.stream += 1;
    agent.seq = 0;
    agent.applied = Ordinal(0);
    agent.session = Some(session);
    Command::Hello(Box::new(Hello {
        instance: format!("instance {} of {node}", agent.instance).into(),
        node,
        session,
        seq: agent.next_seq(),
        boot_id: "boot".into(),
        incarnation: agent.incarnation,
        stream: agent.stream,
        labels: texts(&[("os", "linux")]),
        slots: [("browser", 1 + random.below(3)), ("shell", 2)]
            .map(|(slot, units)| (SlotName::new(slot), u32::try_from(units).unwrap()))
            .into(),
        kinds: KINDS.map(KindName::new).into(),
        host: Host { cpus: 2, memory_bytes: 1 << 33, os: "linux".into(), ..Host::default() },
        agent_version: "0.1.0".into(),
        inputs: true,
        pressure: Pressure::default(),
        max_epoch_seen: 0,
        held: agent.listing(),
        unstored: Vec::new(),
        credits: 4,
    }))
}

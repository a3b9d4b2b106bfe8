//! A model of a node agent: what it holds, what it has read, what it has yet to report. It decides nothing by itself.

use std::{collections::BTreeMap, time::Duration};

use tenure_scheduler::{
    Applied, Command, FencingToken, Heartbeat, Held, Hello, Host, JobId, KindName, Message, NodeName,
    Ordinal, Phase, Pressure, Refusal, Reply, Report, ReportKind, Return, SessionId, SlotName, Statement,
    Usage, WaitAnswer, WaitVerdict,
};

use super::world::World;

/// A node counts on 95 % of what it was given.
fn most(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap() / 20 * 19
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) name: NodeName,
    pub(crate) instance: String,
    pub(crate) boot: String,
    pub(crate) incarnation: u64,
    pub(crate) stream: u64,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) host: Host,
    pub(crate) slots: BTreeMap<SlotName, u32>,
    pub(crate) kinds: Vec<KindName>,
    pub(crate) credits: u32,
    pub(crate) max_epoch_seen: u64,
    pub(crate) pressure: Pressure,
    pub(crate) session: Option<SessionId>,
    pub(crate) seq: u64,
    pub(crate) seen: u64,
    pub(crate) interval: Duration,
    pub(crate) held: BTreeMap<FencingToken, Holding>,
    /// Ends that are not answered.
    pub(crate) spool: BTreeMap<FencingToken, (JobId, Statement)>,
    /// Leases that the server wants back.
    pub(crate) revoked: Vec<FencingToken>,
    /// It sends heartbeats while time passes.
    pub(crate) steady: bool,
    /// It is of a version that hands no execution what it goes on from.
    pub(crate) is_old: bool,
    /// What is sent to it does not arrive.
    pub(crate) deaf: bool,
    /// When its next heartbeat is due, in microseconds of the world.
    pub(crate) next_beat: u64,
    /// It kills what it holds when its lease is over, as shims do. Off in scripts, where every word is written down.
    pub(crate) honest: bool,
    /// When each message of this session was sent: anchors name them.
    sent_at: BTreeMap<u64, u64>,
}

/// A lease that an agent holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holding {
    pub(crate) job: JobId,
    pub(crate) phase: Phase,
    /// When its process started, in microseconds of the world.
    pub(crate) started: Option<u64>,
    /// Its process is gone by then.
    pub(crate) gone_by: u64,
    /// It may not be accepted after this.
    pub(crate) start_by: u64,
    /// Its process has ended.
    pub(crate) ended: bool,
    /// The wait in which it is parked.
    pub(crate) parked: Option<u64>,
    /// How many waits it has begun.
    pub(crate) waits: u64,
    /// It was told to detach.
    pub(crate) must_detach: bool,
}

impl Agent {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: NodeName::new(name),
            instance: format!("{name}-instance"),
            boot: "boot-1".into(),
            incarnation: 1,
            stream: 0,
            labels: BTreeMap::new(),
            host: Host::default(),
            slots: BTreeMap::new(),
            kinds: Vec::new(),
            credits: 100,
            max_epoch_seen: 0,
            pressure: Pressure { weight: 1, ..Pressure::default() },
            session: None,
            seq: 0,
            seen: 0,
            interval: Duration::from_secs(5),
            held: BTreeMap::new(),
            spool: BTreeMap::new(),
            revoked: Vec::new(),
            steady: true,
            is_old: false,
            deaf: false,
            next_beat: 0,
            honest: false,
            sent_at: BTreeMap::new(),
        }
    }

    /// The next Hello, by a new session.
    pub(crate) fn hello(&mut self, session: SessionId, clock: u64) -> Command {
        self.kill_overdue(clock);
        self.stream += 1;
        (self.session, self.seq, self.seen) = (Some(session), 1, 0);
        self.sent_at = BTreeMap::from([(1, clock)]);
        Command::Hello(Box::new(Hello {
            node: self.name.clone(),
            session,
            seq: 1,
            instance: self.instance.as_str().into(),
            boot_id: self.boot.as_str().into(),
            incarnation: self.incarnation,
            stream: self.stream,
            labels: self.labels.clone(),
            slots: self.slots.clone(),
            kinds: self.kinds.clone(),
            host: self.host.clone(),
            agent_version: "0.1.0".into(),
            inputs: !self.is_old,
            pressure: self.pressure.clone(),
            max_epoch_seen: self.max_epoch_seen,
            held: self.listing(clock),
            unstored: self.spool.iter().map(|(token, (job, _))| (*job, *token)).collect(),
            credits: self.credits,
        }))
    }

    pub(crate) fn listing(&self, clock: u64) -> Vec<Held> {
        let held = |(token, holding): (&FencingToken, &Holding)| Held {
            job: holding.job,
            token: *token,
            phase: if holding.parked.is_some() { Phase::Parked } else { holding.phase },
            wait_epoch: holding.parked,
            elapsed: Duration::from_micros(holding.started.map_or(0, |at| clock - at)),
        };
        self.held.iter().map(held).collect()
    }

    /// The next heartbeat of its session, or of session 0.
    pub(crate) fn beat(&mut self, clock: u64) -> Command {
        self.kill_overdue(clock);
        self.seq += 1;
        self.sent_at.insert(self.seq, clock);
        Command::Heartbeat(Box::new(Heartbeat {
            node: self.name.clone(),
            session: self.session.unwrap_or_default(),
            seq: self.seq,
            seen: Ordinal(self.seen),
            held: self.listing(clock),
            pressure: self.pressure.clone(),
        }))
    }

    /// Says something of a lease, and remembers what that means for itself.
    pub(crate) fn report(
        &mut self,
        job: JobId,
        token: FencingToken,
        statement: Statement,
        clock: u64,
    ) -> Command {
        match &statement {
            Statement::Accepted => self.phase(token, Phase::Accepted),
            Statement::Checkpoint { .. } => self.phase(token, Phase::Started),
            Statement::Started { elapsed } => {
                self.phase(token, Phase::Started);
                let at = clock.saturating_sub(u64::try_from(elapsed.as_micros()).unwrap_or(0));
                self.held.entry(token).and_modify(|holding| holding.started = Some(at));
            }
            Statement::Finished(_) => {
                self.phase(token, Phase::Finished);
                self.held.entry(token).and_modify(|holding| (holding.ended, holding.parked) = (true, None));
                self.spool.insert(token, (job, statement.clone()));
            }
            Statement::Returned(returned) => {
                self.held.remove(&token);
                if returned.started {
                    self.spool.insert(token, (job, statement.clone()));
                }
            }
            Statement::Reaped => {
                self.held.remove(&token);
            }
            Statement::Progress { .. } => {}
        }
        self.sent_at.insert(self.seq + 1, clock);
        self.say(job, token, statement)
    }

    /// The bare report.
    pub(crate) fn say(&mut self, job: JobId, token: FencingToken, statement: Statement) -> Command {
        self.seq += 1;
        Command::Report(Box::new(Report {
            node: self.name.clone(),
            session: self.session.unwrap_or_default(),
            seq: Some(self.seq),
            seen: Ordinal(self.seen),
            job,
            token,
            statement,
            prior: None,
        }))
    }

    fn phase(&mut self, token: FencingToken, phase: Phase) {
        self.held.entry(token).and_modify(|holding| holding.phase = holding.phase.max(phase));
    }

    /// Hears what a wait is to be: parked, or over at once.
    pub(crate) fn answered(&mut self, token: FencingToken, epoch: u64, result: &Result<Applied, Refusal>) {
        let reply = result.as_ref().ok().and_then(|applied| World::reply(&applied.effects));
        let Some(Reply::Wait { answer, .. }) = reply else { return };
        let Some(held) = self.held.get_mut(&token) else { return };
        held.waits = held.waits.max(epoch);
        held.parked = (*answer == WaitAnswer::Parked).then_some(epoch);
        held.must_detach = *answer == WaitAnswer::Over(WaitVerdict::MustDetach);
    }

    /// Reads a message of its session.
    pub(crate) fn read(&mut self, session: SessionId, ordinal: Ordinal, applied: u64, message: &Message) {
        if self.deaf || self.session != Some(session) {
            return;
        }
        assert_eq!(ordinal.0, self.seen + 1, "messages to {} are numbered without gaps", self.name);
        self.seen = ordinal.0;
        match message {
            Message::Welcome { heartbeat_interval, anchor, renewed, .. } => {
                self.interval = *heartbeat_interval;
                self.renew(*anchor, renewed);
            }
            Message::Configure { heartbeat_interval } => self.interval = *heartbeat_interval,
            Message::Grant(grant) => {
                let anchor = self.sent_at.get(&applied).copied().unwrap_or(0);
                let holding = Holding {
                    job: grant.job,
                    phase: Phase::Granted,
                    started: None,
                    gone_by: anchor + most(grant.first_lease),
                    start_by: anchor + most(grant.start_window),
                    ended: false,
                    parked: None,
                    waits: 0,
                    must_detach: false,
                };
                self.held.insert(grant.token, holding);
            }
            Message::Renewed { anchor, leases } => self.renew(*anchor, leases),
            Message::Revoke { leases } => {
                self.revoked.extend(leases.iter().map(|(token, _)| *token));
            }
            Message::Stored(stored) => match stored.report {
                ReportKind::Finished | ReportKind::Returned => {
                    self.spool.remove(&stored.token);
                }
                ReportKind::Reaped => {}
            },
            Message::Resume { token, wait_epoch, verdict } => {
                if let Some(held) = self.held.get_mut(token).filter(|held| held.parked == Some(*wait_epoch)) {
                    held.parked = None;
                    held.must_detach = *verdict == WaitVerdict::MustDetach;
                }
            }
            Message::Drain { .. } => {}
        }
    }

    fn renew(&mut self, anchor: u64, leases: &[(FencingToken, Duration)]) {
        let Some(sent) = self.sent_at.get(&anchor).copied() else { return };
        for (token, length) in leases {
            if let Some(holding) = self.held.get_mut(token) {
                holding.gone_by = holding.gone_by.max(sent + most(*length));
            }
        }
    }

    /// What its shims do without it: a process whose lease is over is killed, and that is a return.
    pub(crate) fn kill_overdue(&mut self, clock: u64) {
        if !self.honest {
            return;
        }
        let over = |holding: &Holding| holding.gone_by <= clock && !holding.ended;
        let over: Vec<_> =
            self.held.iter().filter(|(_, held)| over(held)).map(|(t, held)| (*t, *held)).collect();
        for (token, holding) in over {
            self.held.remove(&token);
            let started = holding.started.is_some();
            let cut_off = Return {
                rule: "cut_off".into(),
                observed: 0.0,
                threshold: 0.0,
                generation: 0,
                retry_after: None,
                started,
                usage: Usage::new(),
                has_result: false,
                checkpoint: None,
            };
            self.spool.insert(token, (holding.job, Statement::Returned(cut_off)));
        }
    }

    /// Whether a process of this job runs here.
    pub(crate) fn runs(&self, job: JobId, clock: u64) -> bool {
        self.held.values().any(|held| {
            held.job == job && held.started.is_some() && !held.ended && (!self.honest || held.gone_by > clock)
        })
    }

    /// Its process died with everything that it held; the state directory is left.
    pub(crate) fn drop_held(&mut self) {
        self.held.clear();
    }
}

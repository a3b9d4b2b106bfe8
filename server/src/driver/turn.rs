//! One turn between `apply` and release: what is to be committed, and what waits for the commit.
//!
//! Responsible for keeping every answer, effect and log line back until it is known what became of the commit, and for
//! choosing the bytes that travel beside it: those of the command that was stored, never those of a duplicate. Not for
//! deciding (the scheduler's) or for sending (the sessions').

use std::sync::Arc;

use bytes::Bytes;
use opentelemetry::trace::SpanContext;
use tenure_scheduler::{
    Changes, Command, Effect, Event, FencingToken, Now, Refusal, Reply, ReportKind, SessionId, State,
    Statement, Stored, Verdict,
};
use tenure_store::{Beside, LogTail, Payload};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    batch::Item,
    isolation::{Isolation, Suspect, Tried, suspects_of},
};
use crate::{
    handle::{Answer, Call, Submission, SubmitError},
    sessions::{FromNode, Peers},
    trace::MOST_LINKS,
};

/// Everything that waits for one commit.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) now: Now,
    /// Commands applied, the Tick included.
    pub(super) commands: u64,
    pub(super) looked: u64,
    pub(super) answers: Vec<Waiting>,
    pub(super) events: Vec<Event>,
    pub(super) effects: Vec<Effect>,
    /// Sessions whose command was refused: they end.
    pub(super) ended: Vec<(SessionId, Ending)>,
    pub(super) changes: Changes,
    pub(super) beside: Beside,
    /// Placement stopped at its budget.
    pub(super) more: bool,
    /// What to blame if it cannot be stored.
    pub(super) tried: Tried,
    /// What an operator took care of: once that is stored it need not be set aside any more.
    pub(super) freed: Vec<Suspect>,
    /// The spans of its first calls.
    pub(super) calls: Vec<Arc<SpanContext>>,
    /// Held until the turn is over: so many commands of one node are on their way at most.
    _credits: Vec<OwnedSemaphorePermit>,
}

/// A caller and what it will be told.
#[derive(Debug)]
pub(super) struct Waiting {
    /// None once it was answered because the commit takes too long.
    pub(super) answer: Option<Answer>,
    /// Its command was made of a row of the inbox.
    pub(super) of_row: bool,
    pub(super) reply: Result<Reply, SubmitError>,
}

/// Why a session ends with this turn.
#[derive(Debug)]
pub(super) enum Ending {
    /// The scheduler refused its Hello or a later command.
    Refused(Refusal),
    /// Its Hello failed alone a short while ago.
    Quarantined,
}

impl Turn {
    /// Applies the items, then the clock if `tick`.
    pub(super) fn apply(
        state: &mut State,
        peers: &mut Peers,
        isolation: &mut Isolation,
        clock: (Now, std::time::Duration),
        items: Vec<Item>,
        tick: bool,
    ) -> Self {
        let (now, steady) = clock;
        let tried = match &items[..] {
            [] => Tried::Tick(Vec::new()),
            [only] if !tick => tried_alone(only.command()),
            _ => Tried::Many,
        };
        let mut turn = Self {
            now,
            commands: 0,
            looked: 0,
            answers: Vec::new(),
            events: Vec::new(),
            effects: Vec::new(),
            ended: Vec::new(),
            changes: Changes::default(),
            beside: Beside::default(),
            more: false,
            tried,
            freed: Vec::new(),
            calls: Vec::new(),
            _credits: Vec::new(),
        };
        for item in items {
            match item {
                Item::Call(call) => turn.call(state, call),
                Item::Node(from) => turn.node(state, peers, isolation, steady, from),
                Item::Own(command) => turn.own(state, command),
            }
        }
        if tick {
            turn.own(state, Command::Tick);
        }
        if let Tried::Tick(about) = &mut turn.tried {
            *about = suspects_of(&turn.events);
        }
        turn.changes = state.take_changes();
        turn
    }

    /// Answers every caller that still waits: the commit takes too long, or failed.
    pub(super) fn answer_all(&mut self, error: &SubmitError) {
        for waiting in &mut self.answers {
            if let Some(answer) = waiting.answer.take() {
                drop(answer.send(Err(error.clone()))); // who went away wants no answer
            }
        }
    }

    /// Answers every caller that still waits: by a fault of ours the turn could not be stored. A row of the inbox has nobody
    /// who would ask again, so it is not blamed for what a neighbour may have done: it hears that the store is away, stays,
    /// and comes again while commands are taken one by one. Only what was alone is told that it is broken.
    pub(super) fn answer_broken(&mut self) {
        let alone = matches!(self.tried, Tried::Command);
        for waiting in &mut self.answers {
            if let Some(answer) = waiting.answer.take() {
                drop(answer.send(Err(blame(waiting.of_row, alone)))); // who went away wants no answer
            }
        }
    }

    fn call(&mut self, state: &mut State, call: Call) {
        let Call { submission: Submission { command, payload, more }, answer, span, row, .. } = call;
        if answer.is_closed() {
            return; // nobody waits, nothing was promised
        }
        // The commands of one batch came by one call.
        if let Some(span) = span
            && self.calls.len() < MOST_LINKS
            && self.calls.last() != Some(&span)
        {
            self.calls.push(span);
        }
        let stored = if let Command::Enqueue(enqueue) = &command { Some(enqueue.job) } else { None };
        let freed = Suspect::freed_by(&command);
        let reply = match self.run(state, command) {
            Err(refusal) => Err(SubmitError::Refused(refusal)),
            Ok(first) => {
                if let (Some(job), Some(payload)) = (stored, payload)
                    && self
                        .events_since(first)
                        .any(|event| matches!(event, Event::Enqueued(new) if new.id == job))
                {
                    self.beside.payloads.insert(job, payload);
                }
                // All jobs of a workflow are new, or none is.
                if self.events_since(first).any(|event| matches!(event, Event::WorkflowSubmitted(_))) {
                    self.beside.payloads.extend(more);
                }
                self.freed.extend(freed);
                // Also if the job was there already: what the row asks for is done.
                self.beside.inbox.extend(row);
                self.take_reply()
            }
        };
        self.answers.push(Waiting { answer: Some(answer), of_row: row.is_some(), reply });
    }

    fn node(
        &mut self,
        state: &mut State,
        peers: &mut Peers,
        isolation: &mut Isolation,
        steady: std::time::Duration,
        from: FromNode,
    ) {
        let FromNode { session, command, carried, attach, credit } = from;
        self._credits.extend(credit);
        if let Some(peer) = attach {
            peers.attach(session, peer);
        } else if !peers.is_known(session) {
            return; // it spoke to a state that is gone
        }
        if let Command::SessionClosed { .. } = command {
            peers.detach(session);
            // Of a session that was superseded or never welcomed the scheduler knows nothing: that is no refusal.
            return self.own(state, command);
        }
        if let Command::Hello(hello) = &command
            && isolation.is_quarantined(steady, &hello.node)
        {
            self.ended.push((session, Ending::Quarantined));
            return;
        }
        let about = if let Command::Report(report) = &command {
            Some((report.job, report.token, kind_of(&report.statement)))
        } else {
            None
        };
        if let Some((_, token, Some(kind))) = about
            && isolation.is_broken(token, kind)
        {
            peers.answer_broken(session, broken(token, kind));
            return;
        }
        match self.run(state, command) {
            Err(refusal) => self.ended.push((session, Ending::Refused(refusal))),
            Ok(first) => {
                let Some((job, token, _)) = about else { return };
                if let Some(result) = carried.result
                    && self.events_since(first).any(|event| keeps_result(event, token))
                {
                    self.beside.results.insert((job, token), result);
                }
                if let Some(checkpoint) = carried.checkpoint
                    && self.events_since(first).any(|event| keeps_checkpoint(event, token))
                {
                    self.beside.checkpoints.insert((job, token), checkpoint);
                }
                if let Some(log) = carried.log
                    && self.events_since(first).any(|event| records_end(event, token))
                {
                    let created_at = self.now.wall;
                    self.beside.log_tails.insert((job, token), LogTail { created_at, ..log });
                }
            }
        }
    }

    fn own(&mut self, state: &mut State, command: Command) {
        if let Err(refusal) = self.run(state, command) {
            // The driver speaks of what it saw a moment ago; that it is gone now is no fault.
            tracing::debug!(error = %refusal, "a command of the driver was refused");
        }
    }

    /// Applies one command. The answer is where its events begin.
    fn run(&mut self, state: &mut State, command: Command) -> Result<usize, Refusal> {
        self.commands += 1;
        let applied = state.apply(self.now, command)?;
        self.take_payloads(state, &applied.events);
        let first = self.events.len();
        self.events.extend(applied.events);
        self.effects.extend(applied.effects);
        self.more |= applied.more;
        self.looked += applied.looked;
        Ok(first)
    }

    /// The payload of a job of a cron entry is that of the entry, as it is when the job is enqueued.
    fn take_payloads(&mut self, state: &State, events: &[Event]) {
        for event in events {
            if let Event::CronFired { entry, job, .. } = event
                && let Some(of) = state.cron(entry).map(|entry| &entry.policy.job)
                && !of.payload.is_empty()
            {
                let data = Bytes::copy_from_slice(of.payload.as_bytes());
                let payload = Payload { data, content_type: of.content_type.to_string() };
                self.beside.payloads.insert(*job, payload);
            }
        }
    }

    fn events_since(&self, first: usize) -> impl Iterator<Item = &Event> {
        self.events.iter().skip(first)
    }

    /// The one Reply of the command that was just applied.
    fn take_reply(&mut self) -> Result<Reply, SubmitError> {
        let at = self.effects.iter().rposition(|effect| matches!(effect, Effect::Reply(_)));
        match at.map(|at| self.effects.remove(at)) {
            Some(Effect::Reply(reply)) => Ok(reply),
            _ => {
                tracing::error!("a command of a caller was applied and not answered");
                Err(SubmitError::Broken)
            }
        }
    }
}

/// What a call hears whose turn could not be stored by a fault of ours.
pub(super) fn blame(of_row: bool, alone: bool) -> SubmitError {
    if of_row && !alone { SubmitError::away() } else { SubmitError::Broken }
}

/// The answer to a report that cannot be stored.
pub(crate) fn broken(token: FencingToken, report: ReportKind) -> Stored {
    Stored { token, report, verdict: Verdict::Broken, job_state: None }
}

/// Which answer a report gets, if it gets one.
pub(crate) fn kind_of(statement: &Statement) -> Option<ReportKind> {
    match statement {
        Statement::Finished(_) => Some(ReportKind::Finished),
        Statement::Reaped => Some(ReportKind::Reaped),
        Statement::Returned(_) => Some(ReportKind::Returned),
        Statement::Accepted
        | Statement::Started { .. }
        | Statement::Progress { .. }
        | Statement::Checkpoint { .. } => None,
    }
}

/// What is to blame if this command alone cannot be stored.
pub(super) fn tried_alone(command: &Command) -> Tried {
    if let Command::Report(report) = command
        && let Some(kind) = kind_of(&report.statement)
    {
        Tried::Report(report.token, kind)
    } else if let Command::Hello(hello) = command {
        Tried::Hello(hello.node.clone())
    } else {
        Tried::Command
    }
}

fn keeps_result(event: &Event, token: FencingToken) -> bool {
    if let Event::AttemptEnded(end) | Event::LossReplaced(end) = event {
        end.token == token && end.keep_result
    } else {
        false
    }
}

fn records_end(event: &Event, token: FencingToken) -> bool {
    if let Event::AttemptEnded(end) | Event::LossReplaced(end) = event { end.token == token } else { false }
}

fn keeps_checkpoint(event: &Event, token: FencingToken) -> bool {
    if let Event::AttemptEnded(end) | Event::LossReplaced(end) = event {
        end.token == token && end.checkpoint.is_some()
    } else {
        matches!(event, Event::Checkpointed { token: of, .. } if *of == token)
    }
}

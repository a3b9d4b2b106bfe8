//! Who leads: renewals, patience, trust in oneself, takeovers. The rules of "Leadership on Postgres".

use tenure_scheduler::{Durable, JobState};

use crate::{
    clock::{MS, S},
    db::{Answer, Expected, Fence, Line, Request},
    faults::Fault,
    server::{Role, ServerInput, turn::Leader},
    trace::say,
    world::{Broken, World},
};

/// Between two renewals, and how long one may take.
const RENEWAL: (u64, u64) = (800 * MS, 700 * MS);
/// A leader trusts itself for so long after it sent the last renewal that went well.
const TRUST: u64 = 2_400 * MS;
/// A follower takes over what it saw unchanged for so long.
const PATIENCE: u64 = 3 * S;
/// Between two looks of a follower, and how long one may take.
const POLL: (u64, u64) = (300 * MS, 700 * MS);
/// Looks further apart than this are no continuous observation.
const GAP: u64 = S;
/// How long a takeover and a load may take.
const TAKEOVER: u64 = 5 * S;
/// Between two attempts to take over from oneself, at first and at the most.
const WAIT: (u64, u64) = (100 * MS, 2 * S);

/// What was asked on a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pending {
    Poll,
    /// Sent then, by the server's own clock.
    Renew {
        sent: u64,
    },
    Resign,
    /// Sent then; from oneself, or from another.
    Take {
        sent: u64,
    },
    Load,
    Commit,
}

impl World {
    /// It watches the row, from now on.
    pub(super) fn follow(&mut self, index: usize) {
        let server = &mut self.servers[index];
        server.term += 1;
        server.role = Role::Follower { saw: None, since: 0, read: 0 };
        let term = server.term;
        let after = self.random.below(POLL.0);
        self.plan_server(index, after, ServerInput::Poll { term });
    }

    pub(super) fn poll(&mut self, index: usize) {
        let term = self.servers[index].term;
        if let Role::Follower { .. } = self.servers[index].role {
            self.ask(index, Line::Election, (Pending::Poll, Request::Poll), POLL.1);
            self.plan_server(index, POLL.0, ServerInput::Poll { term });
        }
    }

    pub(super) fn renew(&mut self, index: usize) {
        let server = &self.servers[index];
        let (term, sent) = (server.term, server.clock.at(self.now));
        let epoch = match &server.role {
            Role::Loading { epoch } => *epoch,
            Role::Leading(leader) => leader.epoch(),
            Role::Follower { .. } | Role::Taking | Role::Reloading { .. } => return,
        };
        self.ask(index, Line::Election, (Pending::Renew { sent }, Request::Renew { epoch }), RENEWAL.1);
        self.plan_server(index, RENEWAL.0, ServerInput::Renew { term });
    }

    /// Whether it may act as leader now.
    pub(super) fn is_trusted(&self, index: usize) -> bool {
        let server = &self.servers[index];
        server.clock.at(self.now) < server.trusted || self.broken == Broken::NoTrust
    }

    pub(super) fn check_trust(&mut self, index: usize) {
        if self.is_trusted(index) {
            return;
        }
        let epoch = match &self.servers[index].role {
            Role::Loading { epoch } => *epoch,
            Role::Leading(leader) => leader.epoch(),
            Role::Follower { .. } | Role::Taking | Role::Reloading { .. } => return,
        };
        self.reload(index, epoch, "it trusts itself no more");
    }

    fn trust(&mut self, index: usize, sent: u64) {
        let server = &mut self.servers[index];
        server.trusted = sent + TRUST;
        let (term, after) = (server.term, server.trusted.saturating_sub(server.clock.at(self.now)));
        self.plan_server(index, after, ServerInput::Trust { term });
    }

    /// Drops everything, and takes over from oneself.
    pub(super) fn reload(&mut self, index: usize, epoch: u64, why: &str) {
        self.end_leading(index, why);
        let server = &mut self.servers[index];
        server.term += 1;
        server.role = Role::Reloading { epoch, wait: WAIT.0 };
        self.take_over_from_self(index);
    }

    pub(super) fn take_over_from_self(&mut self, index: usize) {
        let server = &self.servers[index];
        let Role::Reloading { epoch, .. } = server.role else { return };
        let request = Request::Take { expected: Expected::Own { epoch }, at_least: server.at_least };
        let sent = server.clock.at(self.now);
        self.ask(index, Line::Election, (Pending::Take { sent }, request), TAKEOVER);
    }

    fn try_again(&mut self, index: usize) {
        let server = &mut self.servers[index];
        let Role::Reloading { wait, .. } = &mut server.role else { return };
        let (after, term) = (*wait, server.term);
        *wait = (*wait * 2).min(WAIT.1);
        self.plan_server(index, after, ServerInput::Retry { term });
    }

    pub(super) fn db_answered(&mut self, index: usize, line: Line, answer: Answer) {
        let Some(state) = self.servers[index].lines.get_mut(&line) else { return };
        let Some(pending) = state.pending.take() else { return };
        if let Answer::Failed(why) = answer {
            self.hang_up(index, line);
            return self.db_failed(index, pending, why);
        }
        match (pending, answer) {
            (Pending::Poll, Answer::Row(fence)) => self.saw(index, fence),
            (Pending::Renew { sent }, Answer::Renewed(true)) => self.trust(index, sent),
            (Pending::Renew { .. }, Answer::Renewed(false)) => {
                self.end_leading(index, "another one leads");
                self.follow(index);
            }
            (Pending::Take { sent }, Answer::Taken(Some(epoch))) => {
                if self.happens(Fault::AnswerLost) {
                    self.hang_up(index, line);
                    return self.db_failed(index, pending, "the answer is lost");
                }
                self.taken(index, epoch, sent);
            }
            (Pending::Take { .. }, Answer::Taken(None)) => self.follow(index),
            (Pending::Load, Answer::Loaded(mut rows)) => {
                if let Role::Loading { epoch } = self.servers[index].role {
                    let fast = self.broken == Broken::HalfLease;
                    if self.broken == Broken::NoGates {
                        let_begin(&mut rows);
                    }
                    let server = &mut self.servers[index];
                    let leader = Leader::new(epoch, *rows, (&server.clock, self.now), fast);
                    server.role = Role::Leading(Box::new(leader));
                    say!(self, ("s{index}"), "leads epoch {epoch}");
                    self.counts.takeovers += 1;
                    self.oracle_loaded(index);
                    self.wake_leader(index, 0);
                }
            }
            (Pending::Commit, Answer::Committed) => self.committed(index),
            (Pending::Commit, Answer::Deposed) => {
                self.end_leading(index, "deposed");
                self.follow(index);
            }
            (pending, answer) => self.violated(format!("the model: {answer:?} answers {pending:?}")),
        }
    }

    fn taken(&mut self, index: usize, epoch: u64, sent: u64) {
        let server = &mut self.servers[index];
        server.term += 1;
        server.role = Role::Loading { epoch };
        server.leader = Some(index);
        let term = server.term;
        self.trust(index, sent);
        self.plan_server(index, RENEWAL.0, ServerInput::Renew { term });
        self.hang_up(index, Line::Commit);
        self.ask(index, Line::Commit, (Pending::Load, Request::Load), TAKEOVER);
    }

    fn db_failed(&mut self, index: usize, pending: Pending, why: &str) {
        match pending {
            // It starts anew: an outage of the database is no dead leader.
            Pending::Poll => {
                if let Role::Follower { saw, .. } = &mut self.servers[index].role {
                    *saw = None;
                }
            }
            Pending::Renew { .. } | Pending::Resign => {}
            Pending::Take { .. } => match self.servers[index].role {
                Role::Reloading { .. } => self.try_again(index),
                Role::Follower { .. } | Role::Taking | Role::Loading { .. } | Role::Leading(_) => {
                    self.follow(index);
                }
            },
            Pending::Load => {
                if let Role::Loading { epoch } = self.servers[index].role {
                    self.reload(index, epoch, why);
                }
            }
            Pending::Commit => {
                if let Some(epoch) = self.servers[index].leads().map(Leader::epoch) {
                    self.reload(index, epoch, why);
                }
            }
        }
    }

    /// A follower has read the row.
    fn saw(&mut self, index: usize, fence: Fence) {
        let server = &mut self.servers[index];
        let now = server.clock.at(self.now);
        let Role::Follower { saw, since, read } = &mut server.role else { return };
        server.leader = fence.holder.map(|(server, _)| server);
        let same = *saw == Some((fence.epoch, fence.beats)) && now - *read <= GAP;
        if !same {
            (*saw, *since) = (Some((fence.epoch, fence.beats)), now);
        }
        *read = now;
        let over = fence.holder.is_none() || now - *since >= PATIENCE;
        if fence.holder == Some((index, server.life)) {
            // A takeover of its own whose outcome it does not know: settled by another one.
            let epoch = fence.epoch;
            server.term += 1;
            server.role = Role::Reloading { epoch, wait: WAIT.0 };
            self.take_over_from_self(index);
        } else if over {
            server.term += 1;
            server.role = Role::Taking;
            let expected = Expected::Row { epoch: fence.epoch, beats: fence.beats };
            let request = Request::Take { expected, at_least: server.at_least };
            self.ask(index, Line::Election, (Pending::Take { sent: now }, request), TAKEOVER);
        }
    }
}

/// As if nobody waited for others.
fn let_begin(rows: &mut Durable) {
    for job in rows.jobs.values_mut() {
        if let JobState::Blocked { since } = job.state {
            job.state = JobState::Queued { since };
        }
    }
}

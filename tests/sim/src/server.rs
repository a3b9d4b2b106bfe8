//! One server process: its life, its connections to the database, and what it is at the moment.
//!
//! Responsible for starting, stopping and thawing it, and for handing what arrives to the part that it is for. Who leads
//! is in `server/election.rs`, a leader's turns in `server/turn.rs`, its sessions in `server/sessions.rs`.

mod election;
mod pulse;
mod sessions;
mod turn;

use std::collections::{BTreeMap, VecDeque};

use self::{
    election::Pending,
    turn::{Call, FromNode, Leader},
};
use crate::{
    clock::{Clock, MS, S},
    db::{Answer, Back, Line, Request},
    net::{ConnId, Packet},
    trace::say,
    world::{FaultInput, Happening, World},
};

pub(crate) use self::{
    sessions::no_pressure,
    turn::{Call as ClientCall, No},
};

/// What reaches a server process.
#[derive(Debug)]
pub(crate) enum ServerInput {
    /// Look at the row. Timers belong to one term of the process: what it was then.
    Poll {
        term: u64,
    },
    Renew {
        term: u64,
    },
    /// Trust may be over.
    Trust {
        term: u64,
    },
    /// Try again to take over from oneself.
    Retry {
        term: u64,
    },
    Turn {
        term: u64,
        planned: u64,
    },
    DbAnswers {
        line: Line,
        number: u64,
        answer: Answer,
    },
    DbTimeout {
        line: Line,
        number: u64,
        asked: u64,
    },
    Packet {
        conn: ConnId,
        packet: Packet,
    },
    Call(Box<Call>),
}

/// What it is.
#[derive(Debug)]
pub(crate) enum Role {
    /// It watches the row.
    Follower {
        /// (epoch, beats) as it saw it last.
        saw: Option<(u64, u64)>,
        /// Since when, by its own clock.
        since: u64,
        /// When it last read it.
        read: u64,
    },
    /// It takes over from another.
    Taking,
    /// It takes over from itself.
    Reloading {
        epoch: u64,
        wait: u64,
    },
    /// The row is its own; it reads the rest.
    Loading {
        epoch: u64,
    },
    Leading(Box<Leader>),
}

/// One line to the database.
#[derive(Debug, Default)]
struct DbLine {
    number: u64,
    /// Of the database when it was connected; none: it is not.
    generation: Option<u64>,
    pending: Option<Pending>,
    asked: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) clock: Clock,
    pub(crate) life: u64,
    pub(crate) up: bool,
    /// By SIGSTOP.
    pub(crate) stopped: bool,
    /// What waits for SIGCONT.
    held: Vec<Happening>,
    pub(crate) role: Role,
    term: u64,
    lines: BTreeMap<Line, DbLine>,
    /// By its own clock: until then it may act as leader.
    trusted: u64,
    /// The highest epoch that a node has seen.
    at_least: u64,
    /// Who leads, as far as it knows.
    leader: Option<usize>,
    sessions: BTreeMap<u64, ConnId>,
    next_session: u64,
    nodes: VecDeque<FromNode>,
    calls: VecDeque<Call>,
}

impl Server {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            life: 0,
            up: false,
            stopped: false,
            held: Vec::new(),
            role: Role::Follower { saw: None, since: 0, read: 0 },
            term: 0,
            lines: BTreeMap::new(),
            trusted: 0,
            at_least: 0,
            leader: None,
            sessions: BTreeMap::new(),
            next_session: 0,
            nodes: VecDeque::new(),
            calls: VecDeque::new(),
        }
    }

    /// The state that it leads, if it does.
    pub(crate) fn leads(&self) -> Option<&Leader> {
        match &self.role {
            Role::Leading(leader) => Some(leader),
            Role::Follower { .. } | Role::Taking | Role::Reloading { .. } | Role::Loading { .. } => None,
        }
    }
}

impl World {
    /// Something happens to a process that may be stopped or gone.
    pub(crate) fn reach_server(&mut self, index: usize, life: u64, input: ServerInput) {
        let server = &mut self.servers[index];
        if !server.up || server.life != life {
            return;
        }
        if server.stopped {
            server.held.push(Happening::Server { server: index, life, input });
            return;
        }
        match input {
            ServerInput::Poll { term } if term == server.term => self.poll(index),
            ServerInput::Renew { term } if term == server.term => self.renew(index),
            ServerInput::Trust { term } if term == server.term => self.check_trust(index),
            ServerInput::Retry { term } if term == server.term => self.take_over_from_self(index),
            ServerInput::Turn { term, planned } if term == server.term => self.turn_is_due(index, planned),
            ServerInput::Poll { .. }
            | ServerInput::Renew { .. }
            | ServerInput::Trust { .. }
            | ServerInput::Retry { .. }
            | ServerInput::Turn { .. } => {}
            ServerInput::DbAnswers { line, number, answer } => {
                if server.lines.get(&line).is_some_and(|line| line.number == number) {
                    self.db_answered(index, line, answer);
                }
            }
            ServerInput::DbTimeout { line, number, asked } => {
                let waits = server.lines.get(&line).is_some_and(|line| {
                    line.number == number && line.asked == asked && line.pending.is_some()
                });
                if waits {
                    self.db_answered(index, line, Answer::Failed("timeout"));
                }
            }
            ServerInput::Packet { conn, packet } => self.server_packet(index, conn, packet),
            ServerInput::Call(call) => self.call_arrives(index, *call),
        }
    }

    /// Asks the database, with a timeout; what was asked on this line before is given up with its connection.
    fn ask(&mut self, index: usize, line: Line, (pending, request): (Pending, Request), timeout: u64) {
        let generation = self.db.generation;
        let server = &mut self.servers[index];
        let state = server.lines.entry(line).or_default();
        if state.pending.take().is_some() {
            state.number += 1;
            state.generation = None;
        }
        state.pending = Some(pending);
        state.asked += 1;
        let generation = *state.generation.get_or_insert(generation);
        let (number, asked, life) = (state.number, state.asked, server.life);
        let back = Back { server: index, life, line, number, generation };
        let due = server.clock.when(server.clock.at(self.now) + timeout);
        let input = ServerInput::DbTimeout { line, number, asked };
        self.plan(due, Happening::Server { server: index, life, input });
        self.ask_db(back, request);
    }

    /// Gives up a connection.
    fn hang_up(&mut self, index: usize, line: Line) {
        let state = self.servers[index].lines.entry(line).or_default();
        state.number += 1;
        (state.generation, state.pending) = (None, None);
    }

    pub(crate) fn db_answers(&mut self, back: Back, answer: Answer) {
        let input = ServerInput::DbAnswers { line: back.line, number: back.number, answer };
        self.dispatch(Happening::Server { server: back.server, life: back.life, input });
    }

    /// Plans a timer of this term, by the server's own clock.
    fn plan_server(&mut self, index: usize, after: u64, input: ServerInput) {
        let server = &self.servers[index];
        let due = server.clock.when(server.clock.at(self.now) + after);
        let life = server.life;
        self.plan(due, Happening::Server { server: index, life, input });
    }

    pub(crate) fn start_server(&mut self, index: usize) {
        let server = &mut self.servers[index];
        if server.up {
            return;
        }
        let clock = server.clock.clone();
        let life = server.life + 1;
        *server = Server { life, up: true, term: server.term + 1, ..Server::new(clock) };
        say!(self, ("s{index}"), "starts");
        self.follow(index);
    }

    /// It is killed, and somebody else says when it is started again.
    pub(crate) fn end_server(&mut self, index: usize) {
        say!(self, ("fault"), "s{index} is killed");
        self.servers[index].up = false;
        self.close_all(None, Some(index), false);
    }

    pub(crate) fn kill_server(&mut self, index: usize) -> bool {
        if !self.servers[index].up {
            return false;
        }
        self.end_server(index);
        let at = self.now + self.random.between(500 * MS, 30 * S);
        self.plan(at, Happening::Fault(FaultInput::StartServer { server: index }));
        true
    }

    pub(crate) fn stop_server(&mut self, index: usize) -> bool {
        let server = &mut self.servers[index];
        if !server.up || server.stopped {
            return false;
        }
        server.stopped = true;
        let life = server.life;
        let length = self.random.between(200 * MS, 30 * S);
        say!(self, ("fault"), "s{index} is stopped for {} ms", length / MS);
        self.plan(self.now + length, Happening::Fault(FaultInput::ThawServer { server: index, life }));
        true
    }

    pub(crate) fn thaw_server(&mut self, index: usize, life: u64) {
        let server = &mut self.servers[index];
        if !server.up || server.life != life || !std::mem::take(&mut server.stopped) {
            return;
        }
        let held = std::mem::take(&mut server.held);
        say!(self, ("s{index}"), "goes on");
        for (order, happening) in (1..).zip(held) {
            self.plan(self.now + order * 20, happening);
        }
    }

    /// SIGTERM: it resigns and ends.
    pub(crate) fn restart_server(&mut self, index: usize) -> bool {
        let server = &self.servers[index];
        if !server.up || server.stopped {
            return false;
        }
        if let Role::Leading(leader) = &server.role {
            let epoch = leader.epoch();
            say!(self, ("s{index}"), "resigns epoch {epoch}");
            self.end_leading(index, "the server ends");
            self.ask(index, Line::Election, (Pending::Resign, Request::Resign { epoch }), S);
        }
        self.servers[index].up = false;
        self.close_all(None, Some(index), false);
        let at = self.now + self.random.between(500 * MS, 10 * S);
        self.plan(at, Happening::Fault(FaultInput::StartServer { server: index }));
        true
    }

    pub(crate) fn mend_server(&mut self, index: usize) {
        let life = self.servers[index].life;
        self.thaw_server(index, life);
        self.start_server(index);
    }
}

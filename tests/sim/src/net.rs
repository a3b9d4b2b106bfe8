//! A model of the network: connections between agents and servers, each with two lanes that keep their order.
//!
//! As over TCP nothing is lost on a connection: what meets a cut waits for its end, or for the end of the connection,
//! which each side finds out for itself when it has heard nothing for 15 s.

use std::collections::{BTreeMap, VecDeque};

use tenure_scheduler::{FencingToken, Held, Hello, JobId, Message, Ordinal, Statement};

use crate::{
    clock::{MS, S},
    faults::Fault,
    host::AgentInput,
    server::ServerInput,
    trace::say,
    world::{FaultInput, Happening, World},
};

/// A ping that is not answered for so long ends the connection.
const DEAF: u64 = 15 * S;
/// How often that is looked at.
const PING: u64 = 5 * S;

pub(crate) type ConnId = u64;

/// What travels.
#[derive(Debug)]
pub(crate) enum Packet {
    /// By an agent.
    Node { seq: u64, seen: Ordinal, body: NodeBody },
    /// By a leader.
    Server { ordinal: Ordinal, applied: u64, message: Box<Message> },
    /// The sender has closed its end.
    End(Ending),
}

/// Why a side has closed its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its process ended, or it has given up.
    Closed,
    /// A server says no, and perhaps who leads.
    Refused { reason: &'static str, leader: Option<usize> },
}

#[derive(Debug)]
pub(crate) enum NodeBody {
    Hello(Box<Hello>),
    Beat(Vec<Held>),
    /// Its agent restarts.
    Draining,
    Report {
        job: JobId,
        token: FencingToken,
        statement: Statement,
    },
}

/// A connection. Of a pair, the first is the agent's.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) host: usize,
    pub(crate) server: usize,
    lives: (u64, u64),
    open: (bool, bool),
    heard: (u64, u64),
    /// Inward, to the server; outward.
    lanes: [Lane; 2],
    /// The session that it is to its server.
    pub(crate) session: Option<u64>,
}

#[derive(Debug, Default)]
struct Lane {
    packets: VecDeque<Packet>,
    /// When the newest of them arrives.
    newest: u64,
    /// So many arrived at a cut.
    stuck: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Net {
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    /// By host and server: nothing passes inward, outward.
    cuts: BTreeMap<(usize, usize), (bool, bool)>,
    numbers: u64,
}

impl Net {
    fn cut(&self, host: usize, server: usize) -> (bool, bool) {
        self.cuts.get(&(host, server)).copied().unwrap_or_default()
    }

    /// Whether a host and a server reach each other.
    pub(crate) fn passes(&self, host: usize, server: usize) -> bool {
        self.cut(host, server) == (false, false)
    }
}

/// What happens on the network.
#[derive(Debug)]
pub(crate) enum NetInput {
    Deliver { conn: ConnId, inward: bool },
    Ping { conn: ConnId },
}

impl World {
    /// An agent connects. Nothing is known of whether anybody is there until something comes back.
    pub(crate) fn connect(&mut self, host: usize, server: usize) -> ConnId {
        self.net.numbers += 1;
        let id = self.net.numbers;
        let lives = (self.hosts[host].agent.life, self.servers[server].life);
        let up = self.servers[server].up;
        self.net.conns.insert(
            id,
            Conn {
                host,
                server,
                lives,
                open: (true, up),
                heard: (self.now, self.now),
                lanes: Default::default(),
                session: None,
            },
        );
        if !up {
            self.send(id, false, Packet::End(Ending::Closed));
        }
        self.plan(self.now + PING, Happening::Net(NetInput::Ping { conn: id }));
        id
    }

    /// Puts something on a lane.
    pub(crate) fn send(&mut self, id: ConnId, inward: bool, packet: Packet) {
        let mut delay = self.random.between(100, 5 * MS);
        if self.happens(Fault::NetSlow) {
            delay = self.random.between(100 * MS, 20 * S);
        }
        let now = self.now;
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        let lane = &mut conn.lanes[usize::from(!inward)];
        let at = lane.newest.max(now + delay);
        lane.newest = at;
        lane.packets.push_back(packet);
        self.plan(at, Happening::Net(NetInput::Deliver { conn: id, inward }));
    }

    pub(crate) fn net_input(&mut self, input: NetInput) {
        match input {
            NetInput::Deliver { conn, inward } => self.deliver(conn, inward),
            NetInput::Ping { conn } => self.ping(conn),
        }
    }

    fn deliver(&mut self, id: ConnId, inward: bool) {
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        let (host, server) = (conn.host, conn.server);
        let cut = self.net.cuts.get(&(host, server)).copied().unwrap_or_default();
        let lane = &mut conn.lanes[usize::from(!inward)];
        if if inward { cut.0 } else { cut.1 } {
            lane.stuck += 1;
            return;
        }
        let Some(packet) = lane.packets.pop_front() else { return };
        let (agent_life, server_life) = conn.lives;
        if inward && conn.open.1 {
            let input = ServerInput::Packet { conn: id, packet };
            self.dispatch(Happening::Server { server, life: server_life, input });
        } else if !inward && conn.open.0 {
            let input = AgentInput::Packet { conn: id, packet };
            self.dispatch(Happening::Agent { host, life: agent_life, input });
        }
    }

    /// Both ends look whether the other is there.
    fn ping(&mut self, id: ConnId) {
        let now = self.now;
        let Some(conn) = self.net.conns.get(&id) else { return };
        let (host, server, open) = (conn.host, conn.server, conn.open);
        let (agent_life, server_life) = conn.lives;
        let path = self.net.passes(host, server);
        let agent = &self.hosts[host].agent;
        let agent_lives = open.0 && agent.up && agent.life == agent_life;
        let agent_answers = agent_lives && !agent.stopped && !self.hosts[host].suspended;
        let machine = &self.servers[server];
        let server_lives = open.1 && machine.up && machine.life == server_life;
        let server_answers = server_lives && !machine.stopped;
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        if path && server_answers {
            conn.heard.0 = now;
        }
        if path && agent_answers {
            conn.heard.1 = now;
        }
        // A machine that is up and knows nothing of the connection says so at once.
        let awake = !self.hosts[host].suspended;
        let agent_ends = agent_lives && (now - conn.heard.0 >= DEAF || (path && !server_lives));
        let server_ends = server_lives && (now - conn.heard.1 >= DEAF || (path && awake && !agent_lives));
        if agent_ends {
            let input = AgentInput::Packet { conn: id, packet: Packet::End(Ending::Closed) };
            self.dispatch(Happening::Agent { host, life: agent_life, input });
        }
        if server_ends {
            let input = ServerInput::Packet { conn: id, packet: Packet::End(Ending::Closed) };
            self.dispatch(Happening::Server { server, life: server_life, input });
        }
        if agent_lives || server_lives {
            self.plan(now + PING, Happening::Net(NetInput::Ping { conn: id }));
        } else {
            self.net.conns.remove(&id);
        }
    }

    /// One side closes its end. The other hears of it if the network lets it.
    pub(crate) fn close(&mut self, id: ConnId, by_agent: bool, ending: Ending) {
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        let open = if by_agent { &mut conn.open.0 } else { &mut conn.open.1 };
        if std::mem::take(open) {
            self.send(id, by_agent, Packet::End(ending));
        }
    }

    /// A process has ended, and the kernel of its host closes what it had open; unless the host has ended too.
    pub(crate) fn close_all(&mut self, agent_of: Option<usize>, server: Option<usize>, silently: bool) {
        let of = |conn: &Conn| {
            (conn.open.0 && agent_of == Some(conn.host), conn.open.1 && server == Some(conn.server))
        };
        let conns: Vec<(ConnId, bool)> = self
            .net
            .conns
            .iter()
            .filter_map(|(id, conn)| match of(conn) {
                (true, _) => Some((*id, true)),
                (false, true) => Some((*id, false)),
                (false, false) => None,
            })
            .collect();
        for (id, by_agent) in conns {
            if !silently {
                self.close(id, by_agent, Ending::Closed);
            } else if let Some(conn) = self.net.conns.get_mut(&id) {
                if by_agent {
                    conn.open.0 = false;
                } else {
                    conn.open.1 = false;
                }
            }
        }
    }

    pub(crate) fn cut(&mut self, host: usize, server: usize, how: (bool, bool)) -> bool {
        if self.net.cut(host, server) != (false, false) {
            return false;
        }
        let length = self.random.between(500 * MS, 40 * S);
        // Mostly one host loses all servers: that is what runs leases out.
        let servers: Vec<usize> =
            if self.random.percent(70) { (0..self.servers.len()).collect() } else { vec![server] };
        say!(self, ("fault"), "h{host} | {servers:?} cut {how:?} for {} ms", length / MS);
        for server in servers {
            self.net.cuts.insert((host, server), how);
            self.plan(self.now + length, Happening::Fault(FaultInput::Mend { host, server }));
        }
        true
    }

    pub(crate) fn mend(&mut self, host: usize, server: usize) {
        if self.net.cuts.remove(&(host, server)).is_none() {
            return;
        }
        let mut again = Vec::new();
        for (id, conn) in &mut self.net.conns {
            if (conn.host, conn.server) != (host, server) {
                continue;
            }
            for inward in [true, false] {
                let stuck = std::mem::take(&mut conn.lanes[usize::from(!inward)].stuck);
                again.extend((0..stuck).map(|_| (*id, inward)));
            }
        }
        for (conn, inward) in again {
            let at = self.now + self.random.between(MS, 200 * MS);
            self.plan(at, Happening::Net(NetInput::Deliver { conn, inward }));
        }
    }

    fn any_connection(&mut self) -> Option<ConnId> {
        let open: Vec<ConnId> =
            self.net.conns.iter().filter(|(_, conn)| conn.open == (true, true)).map(|(id, _)| *id).collect();
        self.random.pick(&open)
    }

    pub(crate) fn reset_connection(&mut self) -> bool {
        let Some(id) = self.any_connection() else { return false };
        say!(self, ("fault"), "connection {id} is reset");
        for inward in [true, false] {
            self.send(id, inward, Packet::End(Ending::Closed));
        }
        true
    }

    /// The agent drops its end and connects anew, and the server hears nothing of it.
    pub(crate) fn half_open(&mut self) -> bool {
        let Some(id) = self.any_connection() else { return false };
        let Some(conn) = self.net.conns.get_mut(&id) else { return false };
        let (host, life) = (conn.host, conn.lives.0);
        say!(self, ("fault"), "connection {id} of h{host} is half-open");
        let input = AgentInput::Packet { conn: id, packet: Packet::End(Ending::Closed) };
        self.dispatch(Happening::Agent { host, life, input });
        if let Some(conn) = self.net.conns.get_mut(&id) {
            conn.open.0 = false;
            // What the agent said when it closed its end is lost.
            conn.lanes[0].packets.clear();
        }
        true
    }
}

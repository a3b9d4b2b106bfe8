//! What agents and clients say to a server, on its way to the leader that it is, or not.

use tenure_scheduler::{Command, Heartbeat, Pressure, Report, SessionId};

use crate::{
    net::{ConnId, Ending, NodeBody, Packet},
    server::{
        Role,
        turn::{Call, FromNode, No},
    },
    world::World,
};

/// What rules that close nothing say.
pub(crate) fn no_pressure() -> Pressure {
    Pressure { generation: 1, weight: 1, ..Pressure::default() }
}

impl World {
    pub(super) fn server_packet(&mut self, index: usize, conn: ConnId, packet: Packet) {
        let Some(known) = self.net.conns.get_mut(&conn) else { return };
        let node = self.hosts[known.host].name.clone();
        let server = &mut self.servers[index];
        let session = known.session.filter(|session| server.sessions.contains_key(session));
        let command = match packet {
            Packet::Server { .. } => return,
            Packet::End(_) => {
                self.close(conn, false, Ending::Closed);
                let Some(session) = session else { return };
                let server = &mut self.servers[index];
                server.sessions.remove(&session);
                Command::SessionClosed { node, session: SessionId(session) }
            }
            Packet::Node { seq, seen: _, body: NodeBody::Hello(mut hello) } => {
                let Role::Leading(_) = server.role else {
                    let leader = server.leader.filter(|leader| *leader != index);
                    return self.close(conn, false, Ending::Refused { reason: "NOT_LEADER", leader });
                };
                server.next_session += 1;
                known.session = Some(server.next_session);
                server.sessions.insert(server.next_session, conn);
                (hello.session, hello.seq) = (SessionId(server.next_session), seq);
                Command::Hello(hello)
            }
            Packet::Node { seq, seen, body: NodeBody::Beat(held) } => {
                let Some(session) = session else { return };
                let session = SessionId(session);
                Command::Heartbeat(Box::new(Heartbeat {
                    node,
                    session,
                    seq,
                    seen,
                    held,
                    pressure: no_pressure(),
                }))
            }
            Packet::Node { seq, seen, body: NodeBody::Draining } => {
                let Some(session) = session else { return };
                Command::NodeDraining { node, session: SessionId(session), seq, seen, restart: true }
            }
            Packet::Node { seq, seen, body: NodeBody::Report { job, token, statement } } => {
                let Some(session) = session else { return };
                let (session, seq) = (SessionId(session), Some(seq));
                let report = Report { node, session, seq, seen, job, token, statement, prior: None };
                Command::Report(Box::new(report))
            }
        };
        let Some(session) = self.net.conns.get(&conn).and_then(|conn| conn.session) else { return };
        self.servers[index].nodes.push_back(FromNode { session, command });
        self.wake_leader(index, 0);
    }

    pub(super) fn call_arrives(&mut self, index: usize, call: Call) {
        let server = &mut self.servers[index];
        if let Role::Leading(_) = server.role {
            server.calls.push_back(call);
            self.wake_leader(index, 0);
        } else {
            let leader = server.leader.filter(|leader| *leader != index);
            self.answer_client(call.client, call.attempt, Err(No::Unavailable { leader }));
        }
    }
}

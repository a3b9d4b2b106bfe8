//! The edge of the server, where callers stand: a real server, real sockets, real clients.

#[path = "edge/calls.rs"]
mod calls;
#[path = "edge/cron.rs"]
mod cron;
#[path = "edge/fleet.rs"]
mod fleet;
#[path = "edge/hostile.rs"]
mod hostile;
#[path = "edge/large.rs"]
mod large;
#[path = "edge/node.rs"]
mod node;
#[path = "edge/served.rs"]
mod served;
#[path = "edge/transport.rs"]
mod transport;
#[path = "edge/watch.rs"]
mod watch;
#[path = "edge/workflows.rs"]
mod workflows;

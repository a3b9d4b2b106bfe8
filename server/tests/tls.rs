//! Callers over several hosts: a real server behind real TLS, real certificates, real clients.

#[path = "tls/desk.rs"]
mod desk;
#[path = "tls/handshakes.rs"]
mod handshakes;
#[path = "tls/live.rs"]
mod live;
#[path = "edge/node.rs"]
#[expect(dead_code, reason = "what it runs here does not end")]
mod node;
#[path = "tls/owners.rs"]
mod owners;
#[path = "tls/roles.rs"]
mod roles;
#[path = "tls/sessions.rs"]
mod sessions;
#[path = "tls/watches.rs"]
mod watches;
#[path = "tls/webhooks.rs"]
mod webhooks;

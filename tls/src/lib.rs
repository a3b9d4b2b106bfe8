//! Who is on the other end: certificates, the identities in them, and both ends of mutual TLS.
//!
//! Responsible for: reading certificates and keys, the one strict reading of an identity, the settings of both ends,
//! words for everything that can be wrong with a certificate, and making certificates. Not responsible for: what an
//! identity may do (the server's table), or for accepting connections (its listener).
//! Invariant: a connection that this crate hands out has checked the other end against the authority it was given.
//!
//! Reading order: [`identity`], [`files`], [`server`], [`failure`], [`client`], [`issue`].

pub mod client;
pub mod clock;
pub mod failure;
pub mod files;
pub mod identity;
pub mod issue;
pub mod server;

pub use client::Connector;
pub use failure::Failure;
pub use files::Files;
pub use identity::{Certificate, Identity, Role, Unidentified};

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

/// What gRPC is called in a handshake.
const ALPN: &[u8] = b"h2";

/// The one provider of cryptography: never the process's default, which any library could set.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

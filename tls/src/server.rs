//! The server's end of a handshake.
//!
//! Invariants: a client without a certificate of our authority gets no further; sessions are never resumed, so that
//! every connection shows its certificate anew.

use std::sync::Arc;

use rustls::{
    ServerConfig,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};

use crate::{
    ALPN, Certificate, Files, Role,
    files::{self, Error, Own},
    provider,
};

/// The settings of handshakes from files as they stand now. `own` is the server's certificate, `ca` that of clients.
///
/// # Errors
/// Which file, and what is wrong with it.
pub fn config(ca: &std::path::Path, own: &Own) -> Result<Arc<ServerConfig>, Error> {
    let loaded = own.load()?;
    // One of another authority may have no identity; one of ours must be made for this.
    if let Ok(identity) = &loaded.leaf.identity
        && identity.role != Role::Server
    {
        let (found, wanted) = (identity.to_string(), "a server".to_owned());
        return Err(Error::OtherHolder { path: own.cert.clone(), found, wanted });
    }
    let refused = |source| Error::Authorities { path: ca.to_owned(), source };
    let roots = Arc::new(files::authorities(ca)?);
    let clients = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|source| refused(source.into()))?;
    let pair = |source| Error::Pair { cert: own.cert.clone(), key: own.key.clone(), source };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_client_cert_verifier(clients)
        .with_single_cert(loaded.chain, loaded.key)
        .map_err(pair)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// What is known of the other end after a handshake.
#[must_use]
pub fn peer(connection: &rustls::ServerConnection) -> Option<Certificate> {
    let leaf = connection.peer_certificates()?.first()?;
    Certificate::read(leaf).ok()
}

impl Files {
    /// The settings of a server's handshakes.
    ///
    /// # Errors
    /// Which file, and what is wrong with it.
    pub fn server_config(&self) -> Result<Option<Arc<ServerConfig>>, Error> {
        self.own.as_ref().map(|own| config(&self.ca, own)).transpose()
    }
}

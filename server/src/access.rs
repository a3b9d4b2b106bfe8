//! Who may do what, as the server file says it now: certificates, denied holders, what producers are limited to.
//!
//! Responsible for making these rules of settings, and for replacing them while the server runs. Not responsible for the
//! roles' rights, which no file changes (`rpc/auth.rs`). Invariant: rules are replaced whole or not at all.

use std::sync::Arc;

use rustls::ServerConfig;
use tenure_tls::{Certificate, Identity, clock, files};
use tokio::sync::watch;

use crate::config::{Config, Deny, Producers};

/// The rules in force.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The settings of handshakes; none: there is no TLS.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Whose names certificates carry.
    trust_domain: String,
    deny: Deny,
    producers: Producers,
}

/// Why a certificate of our authority counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Nobody {
    /// It does not say who its holder is, or its time is over.
    Unknown(String),
    /// Its holder, or this very certificate, is denied.
    Denied(String),
}

impl Rules {
    /// The rules of settings, with certificates as their files are now.
    ///
    /// # Errors
    /// Which file, and what is wrong with it.
    pub(crate) fn of(config: &Config) -> Result<Self, files::Error> {
        let tls = config.tls.as_ref();
        Ok(Self {
            tls: tls.map(|tls| tenure_tls::server::config(&tls.client_ca, &tls.own)).transpose()?,
            trust_domain: tls.map(|tls| tls.trust_domain.clone()).unwrap_or_default(),
            deny: config.deny.clone(),
            producers: config.producers.clone(),
        })
    }

    /// The holder of a certificate, now.
    ///
    /// # Errors
    /// Why it is nobody.
    pub(crate) fn holder<'c>(&self, certificate: &'c Certificate) -> Result<&'c Identity, Nobody> {
        let identity = certificate.identity.as_ref().map_err(|why| Nobody::Unknown(why.to_string()))?;
        if identity.domain != self.trust_domain {
            return Err(Nobody::Unknown(format!(
                "the certificate is of the trust domain {:?}, and this server is of {:?}",
                identity.domain, self.trust_domain
            )));
        }
        if certificate.not_after < clock::unix_seconds() {
            return Err(Nobody::Unknown(format!("the certificate of {identity} has expired")));
        }
        if self.deny.names.contains(&format!("{}/{}", identity.role, identity.name)) {
            return Err(Nobody::Denied(format!("{identity} is denied by the server's configuration")));
        }
        if self.deny.serials.contains(&certificate.serial) {
            return Err(Nobody::Denied(format!(
                "the certificate {} of {identity} is denied by the server's configuration",
                certificate.serial
            )));
        }
        Ok(identity)
    }

    /// What producers are limited to.
    pub(crate) fn producers(&self) -> &Producers {
        &self.producers
    }
}

/// Replaces the rules of a server that runs.
#[derive(Debug, Clone)]
pub struct Reload {
    rules: Arc<watch::Sender<Arc<Rules>>>,
}

/// Why rules stay as they were.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate cannot be used.
    #[error("the certificates cannot be used")]
    Files(#[from] files::Error),
    /// TLS begins and ends with the server.
    #[error("TLS cannot be turned on or off while the server runs: restart it")]
    TlsTurned,
}

impl Reload {
    pub(crate) fn new(rules: Rules) -> (Self, watch::Receiver<Arc<Rules>>) {
        let (sender, receiver) = watch::channel(Arc::new(rules));
        (Self { rules: Arc::new(sender) }, receiver)
    }

    /// Takes certificates, `[deny]` and `[producers]` of these settings from now on, and nothing else of them. Sessions
    /// stay, unless their holder is now denied.
    ///
    /// # Errors
    /// If a certificate cannot be used; then everything stays as it was.
    pub fn apply(&self, config: &Config) -> Result<(), Error> {
        let rules = Rules::of(config)?;
        if rules.tls.is_some() != self.rules.borrow().tls.is_some() {
            return Err(Error::TlsTurned);
        }
        self.rules.send_replace(Arc::new(rules));
        Ok(())
    }
}

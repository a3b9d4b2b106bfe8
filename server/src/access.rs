//! What the server file says now: who may do what (certificates, denied holders, what producers are limited to), and
//! every limit that can change while the server runs.
//!
//! Responsible for making these of settings, and for replacing them. Not responsible for the roles' rights, which no
//! file changes (`rpc/auth.rs`). Invariant: settings are replaced whole or not at all.

use std::sync::Arc;

use rustls::ServerConfig;
use tenure_scheduler as scheduler;
use tenure_tls::{Certificate, Files, Identity, Role, clock, files};
use tokio::sync::watch;

use crate::{
    config::{Config, Deny, Limits, Producers, Retention},
    descriptors,
    listener::Room,
    outbox::{Settings, SettingsError},
};

/// The rules in force.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The settings of handshakes; none: there is no TLS.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// For connections to other servers, likewise.
    peers: Option<Files>,
    /// Whose names certificates carry.
    trust_domain: Arc<str>,
    deny: Deny,
    producers: Producers,
    /// Of connections.
    pub(crate) limits: Limits,
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
            peers: tls.map(|tls| Files { ca: tls.client_ca.clone(), own: Some(tls.own.clone()) }),
            trust_domain: tls.map(|tls| tls.trust_domain.as_str()).unwrap_or_default().into(),
            deny: config.deny.clone(),
            producers: config.producers.clone(),
            limits: config.limits,
        })
    }

    /// The holder of a certificate, now.
    ///
    /// # Errors
    /// Why it is nobody.
    pub(crate) fn holder<'c>(&self, certificate: &'c Certificate) -> Result<&'c Identity, Nobody> {
        let identity = certificate.identity.as_ref().map_err(|why| Nobody::Unknown(why.to_string()))?;
        if *identity.domain != *self.trust_domain {
            return Err(Nobody::Unknown(format!(
                "the certificate is of the trust domain {:?}, and this server is of {:?}",
                identity.domain, self.trust_domain
            )));
        }
        if certificate.not_after < clock::unix_seconds() {
            return Err(Nobody::Unknown(format!("the certificate of {identity} has expired")));
        }
        if self.denies(identity.role, &identity.name) {
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

    /// The files and the trust domain for connections to other servers; none: there is no TLS.
    pub(crate) fn peers(&self) -> Option<(Files, Arc<str>)> {
        Some((self.peers.clone()?, Arc::clone(&self.trust_domain)))
    }

    /// Whether the server file denies a holder of this name.
    pub(crate) fn denies(&self, role: Role, name: &str) -> bool {
        self.deny.names.contains(&format!("{role}/{name}"))
    }

    /// What producers are limited to.
    pub(crate) fn producers(&self) -> &Producers {
        &self.producers
    }
}

/// Replaces settings of a server that runs.
#[derive(Debug, Clone)]
pub struct Reload(Arc<InForce>);

/// Where the settings in force are published, and what the server began with.
#[derive(Debug)]
struct InForce {
    began: Config,
    rules: watch::Sender<Arc<Rules>>,
    limits: watch::Sender<scheduler::Limits>,
    retention: watch::Sender<Retention>,
    webhooks: watch::Sender<Arc<Settings>>,
    room: Room,
}

/// Where the parts of a server read the settings in force.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) rules: watch::Receiver<Arc<Rules>>,
    pub(crate) limits: watch::Receiver<scheduler::Limits>,
    pub(crate) retention: watch::Receiver<Retention>,
    pub(crate) webhooks: watch::Receiver<Arc<Settings>>,
}

/// Why settings stay as they were.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate cannot be used.
    #[error("the certificates cannot be used")]
    Files(#[from] files::Error),
    /// A file of webhooks cannot be used.
    #[error("the settings of webhooks cannot be used")]
    Webhooks(#[from] SettingsError),
    /// TLS begins and ends with the server.
    #[error("TLS cannot be turned on or off while the server runs: restart it")]
    TlsTurned,
}

impl Reload {
    pub(crate) fn new(
        config: &Config,
        (rules, webhooks): (Rules, Settings),
        room: Room,
    ) -> (Self, Published) {
        let (rules, rules_read) = watch::channel(Arc::new(rules));
        let (limits, limits_read) = watch::channel(limits_of(config));
        let (retention, retention_read) = watch::channel(config.retention);
        let (webhooks, webhooks_read) = watch::channel(Arc::new(webhooks));
        let in_force = InForce { began: config.clone(), rules, limits, retention, webhooks, room };
        let published = Published {
            rules: rules_read,
            limits: limits_read,
            retention: retention_read,
            webhooks: webhooks_read,
        };
        (Self(Arc::new(in_force)), published)
    }

    /// Takes certificates, `[deny]`, `[producers]`, `[limits]`, `[retention]` and `[webhooks]` of these settings from now on.
    /// Sessions and connections stay, unless their holder is now denied. The answer names the keys that differ from
    /// those that the server began with, and for which it has to be restarted.
    ///
    /// # Errors
    /// If a certificate or a secret cannot be used; then everything stays as it was.
    pub fn apply(&self, config: &Config) -> Result<Vec<&'static str>, Error> {
        let Self(in_force) = self;
        let rules = Rules::of(config)?;
        let webhooks = Settings::of(&config.webhooks)?;
        if rules.tls.is_some() != in_force.began.tls.is_some() {
            return Err(Error::TlsTurned);
        }
        in_force.rules.send_replace(Arc::new(rules));
        in_force.limits.send_replace(limits_of(config));
        in_force.retention.send_replace(config.retention);
        in_force.webhooks.send_replace(Arc::new(webhooks));
        in_force.room.resize(descriptors::connections(config.limits.max_connections));
        Ok(for_a_restart(&in_force.began, config))
    }
}

fn limits_of(config: &Config) -> scheduler::Limits {
    let limits = &config.limits;
    scheduler::Limits {
        max_live_jobs: limits.max_live_jobs,
        tree_depth: limits.tree_depth,
        children: limits.tree_children,
        descendants: limits.tree_descendants,
        ..scheduler::Limits::default()
    }
}

/// Keys that count at the start alone.
fn for_a_restart(began: &Config, now: &Config) -> Vec<&'static str> {
    let differ = [
        ("server.listen", began.listen != now.listen),
        ("server.http", began.http != now.http),
        ("server.peer_listen", began.peer_listen != now.peer_listen),
        ("server.advertise", began.advertise != now.advertise),
        ("server.peer_advertise", began.peer_advertise != now.peer_advertise),
        ("server.data", began.data != now.data),
        ("server.database_url", began.database != now.database),
        ("results", began.results != now.results),
    ];
    differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

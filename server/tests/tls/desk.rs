//! A server behind TLS, with an authority that gives whatever certificate a test asks for.

use std::{error::Error as _, net::SocketAddr, time::Duration};

use rcgen::{CertificateParams, DnType, Issuer, KeyPair, SanType};
use tempfile::TempDir;
use tenure_proto::v1::{ApplyRequest, fleet_service_client::FleetServiceClient};
use tenure_server::{
    Config, Running, Server,
    access::Reload,
    config::{TRUST_DOMAIN, Tls},
};
use tenure_store::memory::Memory;
use tenure_tls::{Connector, Files, Role, files::Own, issue};
use tokio_util::sync::CancellationToken;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

/// No test waits longer for anything.
pub(crate) const SOON: Duration = Duration::from_secs(20);

const FLEET: &str = r#"
[slots]
browser = "node"
[kinds."page"]
needs = { browser = 1 }
[kinds."print"]
"#;

/// A server, its settings, and the directory of its authority.
pub(crate) struct Desk {
    pub(crate) certs: TempDir,
    pub(crate) config: Config,
    running: Running,
    shutdown: CancellationToken,
}

impl Desk {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With settings that a test changes first; a fleet is applied.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let certs = tempfile::tempdir().expect("a directory");
        issue::init(certs.path(), TRUST_DOMAIN).expect("an authority");
        let own = own(&issue::issue(certs.path(), &leaf(Role::Server, "s"), false).expect("a certificate"));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let tls = Tls { own, client_ca: certs.path().join("ca.pem"), trust_domain: TRUST_DOMAIN.to_owned() };
        let mut config = Config { listen: any, http: any, tls: Some(tls), ..Config::default() };
        change(&mut config);
        let (store, shutdown) = (Memory::new(), CancellationToken::new());
        let running = Server::start_on(config.clone(), store.journal(), store.reader(), shutdown.clone());
        let desk = Self { running: running.await.expect("it starts"), certs, config, shutdown };
        let request = ApplyRequest { fleet: FLEET.to_owned(), validate_only: false };
        let admin = desk.channel(Role::Admin, "root").await;
        FleetServiceClient::new(admin).apply(request).await.expect("a fleet");
        desk
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.addresses().grpc
    }

    pub(crate) fn reload(&self) -> Reload {
        self.running.reload()
    }

    /// A certificate of the authority, made the first time it is asked for.
    pub(crate) fn files(&self, role: Role, name: &str) -> Files {
        let made = issue::issue(self.certs.path(), &leaf(role, name), true).expect("a certificate");
        Files { ca: self.certs.path().join("ca.pem"), own: Some(own(&made)) }
    }

    /// A certificate of the authority with whatever a test puts into it.
    pub(crate) fn odd(&self, change: impl FnOnce(&mut CertificateParams)) -> Files {
        let path = |name: &str| self.certs.path().join(name);
        let read = |name: &str| std::fs::read_to_string(path(name)).expect("it is there");
        let key = KeyPair::from_pem(&read("ca-key.pem")).expect("a key");
        let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), key).expect("an authority");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "spiffe://tenure/tenure/admin/root");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        std::fs::write(path("odd.pem"), certificate.pem()).expect("written");
        std::fs::write(path("odd-key.pem"), key.serialize_pem()).expect("written");
        Files { ca: path("ca.pem"), own: Some(Own { cert: path("odd.pem"), key: path("odd-key.pem") }) }
    }

    pub(crate) async fn channel(&self, role: Role, name: &str) -> Channel {
        self.channel_with(self.files(role, name)).await
    }

    pub(crate) async fn channel_with(&self, files: Files) -> Channel {
        self.try_channel(files).await.expect("it is taken")
    }

    /// A connection, or the words that say why there is none.
    pub(crate) async fn try_channel(&self, files: Files) -> Result<Channel, String> {
        let connector = Connector::new(files).map_err(|error| error.to_string())?;
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address())).expect("an address");
        endpoint.connect_with_connector(connector).await.map_err(|error| {
            let causes = std::iter::successors(error.source(), |&error| error.source());
            causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
        })
    }

    /// Ends the server, which must work.
    pub(crate) async fn end(self) {
        self.shutdown.cancel();
        self.running.wait().await.expect("it ends in order");
    }
}

pub(crate) fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().expect("ASCII"))
}

/// The reason that a status gives.
pub(crate) fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

pub(crate) fn own(made: &issue::Made) -> Own {
    Own { cert: made.cert.clone(), key: made.key.clone() }
}

pub(crate) fn leaf(role: Role, name: &str) -> issue::Leaf {
    let hosts = if role == Role::Server { vec!["127.0.0.1".to_owned()] } else { Vec::new() };
    issue::Leaf { role, name: name.to_owned(), hosts, days: 1 }
}

//! Connections to other servers by mutual TLS.
//!
//! Invariant: nothing is handed on to whoever is no server of this trust domain, though its certificate may be of the
//! same authority and name the right host.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::rt::TokioIo;
use tenure_tls::{
    Certificate, Connector, Files, Role,
    client::{self, Taken},
    files,
};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// No TLS.
    #[error("no TLS with the leader")]
    Tls(#[from] client::Error),
    /// It is somebody else.
    #[error("{address} is no server of this fleet: {why}")]
    NoServer {
        /// Who was asked.
        address: String,
        /// Who it is.
        why: String,
    },
}

/// Makes connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct PeerConnector {
    connector: Connector,
    domain: Arc<str>,
}

impl PeerConnector {
    /// A connector with these files, which are read again for each connection.
    ///
    /// # Errors
    /// Which file, and what is wrong with it.
    pub(super) fn new(files: Files, domain: Arc<str>) -> Result<Self, files::Error> {
        Ok(Self { connector: Connector::new(files)?, domain })
    }

    async fn connect(&self, host: &str, port: u16) -> Result<Taken, Error> {
        let taken = self.connector.connect(host, port).await?;
        let no_server = |why| Error::NoServer { address: format!("{host}:{port}"), why };
        let shown = taken.server_certificate().map(Certificate::read);
        let identity = match shown {
            Some(Ok(Certificate { identity: Ok(identity), .. })) => identity,
            Some(Ok(Certificate { identity: Err(why), .. }) | Err(why)) => {
                return Err(no_server(why.to_string()));
            }
            None => return Err(no_server("it showed no certificate".to_owned())),
        };
        if identity.role != Role::Server || *identity.domain != *self.domain {
            return Err(no_server(format!("it is {identity} of the trust domain {}", identity.domain)));
        }
        Ok(taken)
    }
}

impl tower::Service<Uri> for PeerConnector {
    type Response = TokioIo<Taken>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Taken>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default();
            connector.connect(host, uri.port_u16().unwrap_or(443)).await.map(TokioIo::new)
        })
    }
}

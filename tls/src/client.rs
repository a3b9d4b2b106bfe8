//! The client's end: a connector that has heard the server's yes before it hands a connection out.
//!
//! In TLS 1.3 a client is done before the server has looked at its certificate; a no comes as an alert when the client
//! reads next, and whoever sends first may lose it with the connection. A server of HTTP/2 speaks first, so that this
//! connector waits for its first bytes: then each no is an error of the connection attempt, and names its cause.
//! The files are read for each connection: replaced ones count from the next on.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::{AlertDescription, CertificateError, ClientConfig, client::Resumption, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    ALPN, Files,
    files::{self, authorities},
    provider,
};

/// From the first byte of a handshake to the server's first of HTTP/2.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Our own files are wrong.
    #[error("the certificates cannot be used")]
    Files(#[from] files::Error),
    /// Nobody is there.
    #[error("cannot connect to {address}")]
    Connect {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The host cannot be the name in a certificate.
    #[error("{host:?} is no name of a host")]
    Host {
        /// As it was given.
        host: String,
    },
    /// The handshake failed: in words, with the next step.
    #[error("{words}")]
    Refused {
        /// What is wrong.
        words: String,
        /// What TLS calls it.
        #[source]
        source: io::Error,
    },
    /// The handshake did not end.
    #[error("{address} did not end the TLS handshake within {} s: does it speak TLS?", HANDSHAKE_WITHIN.as_secs())]
    Silent {
        /// Who.
        address: String,
    },
}

impl Error {
    /// Whether trying again with the same files meets the same answer.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Files(_) | Self::Host { .. } => true,
            Self::Refused { source, .. } => rustls_error(source).is_some(),
            Self::Connect { .. } | Self::Silent { .. } => false,
        }
    }
}

/// Makes connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Connector {
    files: Arc<Files>,
}

impl Connector {
    /// A connector with these files, which are tried now and read again for each connection.
    ///
    /// # Errors
    /// Which file, and what is wrong with it.
    pub fn new(files: Files) -> Result<Self, files::Error> {
        config(&files)?;
        Ok(Self { files: Arc::new(files) })
    }

    /// A connection that the server has taken.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub async fn connect(&self, host: &str, port: u16) -> Result<Taken, Error> {
        let address = format!("{host}:{port}");
        let files = Arc::clone(&self.files);
        let read = tokio::task::spawn_blocking(move || config(&files)).await;
        let config = read
            .map_err(|gone| Error::Connect { address: address.clone(), source: io::Error::other(gone) })??;
        let bare = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(bare.clone()).map_err(|_| Error::Host { host: host.to_owned() })?;
        let failed = |source| Error::Connect { address: address.clone(), source };
        let stream = TcpStream::connect((bare.as_str(), port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let handshake = async {
            let mut stream = TlsConnector::from(config).connect(name, stream).await?;
            let mut first = vec![0; 1024];
            let length = stream.read(&mut first).await?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            first.truncate(length);
            Ok(Taken { first, given: 0, stream })
        };
        match timeout(HANDSHAKE_WITHIN, handshake).await {
            Err(_) => Err(Error::Silent { address }),
            Ok(Err(source)) => Err(Error::Refused { words: self.words(&address, host, &source), source }),
            Ok(Ok(taken)) => Ok(taken),
        }
    }

    /// What is wrong, and with which file.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "TLS has dozens of others, which all get the same words"
    )]
    fn words(&self, address: &str, host: &str, error: &io::Error) -> String {
        let ca = self.files.ca.display();
        let own = self.files.own.as_ref();
        let cert = own.map_or_else(|| "none".to_owned(), |own| own.cert.display().to_string());
        match rustls_error(error) {
            Some(rustls::Error::InvalidCertificate(wrong)) => match wrong {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    format!("the certificate of {address} is not of an authority in {ca}: another CA made it")
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    format!("the certificate of {address} has expired: renew it on the server")
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    format!("the certificate of {address} is not valid yet: compare the clocks")
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    format!("the certificate of {address} is not for {host}: use an address that it names")
                }
                CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                    format!("the certificate of {address} is not that of a server")
                }
                other => format!("the certificate of {address} cannot be used: {other}"),
            },
            Some(rustls::Error::AlertReceived(alert)) => match alert {
                AlertDescription::CertificateRequired => {
                    format!(
                        "{address} asks for a client certificate, and none was given: name one and its key"
                    )
                }
                // An authority of the same name with another key makes the second.
                AlertDescription::UnknownCA | AlertDescription::DecryptError if own.is_some() => format!(
                    "{address} does not take the certificate in {cert}: it is of another CA than the server's client_ca"
                ),
                AlertDescription::CertificateExpired => {
                    format!(
                        "{address} does not take the certificate in {cert}: it has expired, or the clocks differ"
                    )
                }
                // Up to TLS 1.2 a missing certificate is told by this.
                AlertDescription::HandshakeFailure if own.is_none() => {
                    format!(
                        "{address} refuses the handshake; no client certificate was given: name one and its key"
                    )
                }
                AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::DecryptError
                | AlertDescription::UnknownCA => {
                    format!("{address} does not take the certificate in {cert}")
                }
                other => format!("{address} ended the handshake: {other:?}"),
            },
            Some(rustls::Error::InvalidMessage(_)) => {
                format!("{address} does not speak TLS: write http:// for a server without it")
            }
            Some(other) => format!("no TLS with {address}: {other}"),
            None => format!("{address} cut the TLS handshake off"),
        }
    }
}

fn rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn config(files: &Files) -> Result<Arc<ClientConfig>, files::Error> {
    let pair = |source| match &files.own {
        Some(own) => files::Error::Pair { cert: own.cert.clone(), key: own.key.clone(), source },
        None => files::Error::Authorities { path: files.ca.clone(), source: source.into() },
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_root_certificates(authorities(&files.ca)?);
    let mut config = match &files.own {
        Some(own) => {
            let loaded = own.load()?;
            builder.with_client_auth_cert(loaded.chain, loaded.key).map_err(pair)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// For tonic.
impl tower::Service<Uri> for Connector {
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
            let port = uri.port_u16().unwrap_or(443);
            connector.connect(host, port).await.map(TokioIo::new)
        })
    }
}

/// A connection whose server has spoken.
#[derive(Debug)]
pub struct Taken {
    /// What it said while the connector listened.
    first: Vec<u8>,
    /// How much of that was given on, in bytes.
    given: usize,
    stream: TlsStream<TcpStream>,
}

impl Taken {
    /// The certificate that the server showed, in DER.
    #[must_use]
    pub fn server_certificate(&self) -> Option<&[u8]> {
        self.stream.get_ref().1.peer_certificates()?.first().map(|certificate| &**certificate)
    }
}

impl AsyncRead for Taken {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let left = this.first.get(this.given..).unwrap_or_default();
        if left.is_empty() {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        let now = left.len().min(buffer.remaining());
        buffer.put_slice(left.get(..now).unwrap_or_default());
        this.given += now;
        if this.given == this.first.len() {
            this.first = Vec::new();
            this.given = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Taken {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, data)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

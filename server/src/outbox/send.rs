//! One try: a request to a receiver, and what its answer means.
//!
//! Responsible for TLS, for the bounds of a try, and for saying of an answer no more than its status: a body may hold
//! anything, and is neither kept nor logged. Not for when to try (`deliver.rs`, the scheduler), nor for which addresses may
//! be reached (`guard.rs`).

use std::{error, io, net::IpAddr, sync::Arc, time::Duration};

use reqwest::{Client, Response, StatusCode, Url, header, redirect::Policy};
use rustls::{CertificateError, ClientConfig, RootCertStore, crypto::ring};
use tenure_scheduler::{DeliveryFailure, DueDelivery};

use super::{guard::Closed, settings::Settings};
use crate::chain::Chain;

/// A try takes no longer, from the look-up of the name to the end of the answer.
const TRY_WITHIN: Duration = Duration::from_secs(10);

/// Of an answer so many bytes are read, so that its connection can be used again; a longer one ends it.
const MOST_ANSWER: usize = 64 * 1024;

/// What is said of a failure, in bytes.
const MOST_ERROR: usize = 256;

/// Sends to receivers. Clones share its connections.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    client: Client,
    settings: Arc<Settings>,
}

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("the HTTP client cannot be set up")]
    Client(#[from] reqwest::Error),
}

impl Sender {
    /// A sender by these settings. It reads the certificates that the host trusts.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub(crate) fn new(settings: Arc<Settings>) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        let own = settings.authorities.iter().cloned();
        roots.add_parsable_certificates(found.certs.into_iter().chain(own));
        if roots.is_empty() {
            tracing::warn!(
                "this host trusts no certificates: no webhook can be told anything ([webhooks] ca)"
            );
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .https_only(true)
            .http1_only()
            .redirect(Policy::none())
            .referer(false)
            // Neither the environment nor the host says where this goes.
            .no_proxy()
            .dns_resolver(Arc::new(settings.guard.clone()))
            .timeout(TRY_WITHIN)
            .pool_max_idle_per_host(2)
            .pool_idle_timeout(Duration::from_secs(60))
            .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { client, settings })
    }

    /// Tries once. None: it arrived.
    pub(crate) async fn send(
        &self,
        due: &DueDelivery,
        body: String,
        id: &str,
        seconds: i64,
    ) -> Option<DeliveryFailure> {
        match self.request(due, body, id, seconds).await {
            Ok(response) => judge(response).await,
            Err(error) => Some(failure(&error)),
        }
    }

    async fn request(
        &self,
        due: &DueDelivery,
        body: String,
        id: &str,
        seconds: i64,
    ) -> Result<Response, String> {
        let secret = self.settings.secret(&due.secret).ok_or_else(|| {
            format!("the server file has no secret {:?} under [webhooks.secrets]", &*due.secret)
        })?;
        let url = Url::parse(&due.url).map_err(|_| "the URL is none".to_owned())?;
        // A name is judged when it is looked up; an address is never looked up.
        let host = url.host_str().unwrap_or_default();
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            self.settings.guard.check(address).map_err(|closed| closed.to_string())?;
        }
        let signature = secret.sign(id, seconds, &body);
        let request = self
            .client
            .post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature)
            .body(body);
        request.send().await.map_err(|error| told(&error.without_url()))
    }
}

/// What a request met, without the URL.
fn told(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", TRY_WITHIN.as_secs());
    }
    cause(error).unwrap_or_else(|| Chain(error).to_string())
}

/// The cause alone: what reqwest and hyper say of it before is that a request failed.
fn cause(error: &dyn error::Error) -> Option<String> {
    let mut last = None;
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        if let Some(closed) = cause.downcast_ref::<Closed>() {
            return Some(closed.to_string());
        }
        if let Some(tls) = handshake(cause) {
            return Some(of_handshake(tls));
        }
        last = Some(cause);
    }
    last.map(ToString::to_string)
}

/// The error of a handshake stands in those of its connection, and not behind them.
fn handshake<'a>(cause: &'a (dyn error::Error + 'static)) -> Option<&'a rustls::Error> {
    cause.downcast_ref().or_else(|| handshake(cause.downcast_ref::<io::Error>()?.get_ref()?))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "TLS has dozens of others, which all get the same words")]
fn of_handshake(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(_) => "it does not speak TLS".to_owned(),
        rustls::Error::InvalidCertificate(wrong) => match wrong {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is of no authority that the server trusts: [webhooks] ca names more"
                    .to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: compare the clocks".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is not for the name in the URL".to_owned()
            }
            other => format!("its certificate cannot be used: {other}"),
        },
        other => format!("no TLS with it: {other}"),
    }
}

async fn judge(mut response: Response) -> Option<DeliveryFailure> {
    let status = response.status();
    let retry_after = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
        .then(|| response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok())
        .flatten()
        .map(Duration::from_secs);
    let mut read = 0;
    // What it says is of no interest, nor is that it breaks off.
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > MOST_ANSWER {
            break;
        }
    }
    if status.is_success() {
        return None;
    }
    let error = if status.is_redirection() {
        format!("status {}: redirects are not followed", status.as_u16())
    } else {
        format!("status {}", status.as_u16())
    };
    let gone = status == StatusCode::GONE;
    Some(DeliveryFailure { retry_after, gone, ..failure(&error) })
}

pub(super) fn failure(error: &str) -> DeliveryFailure {
    let end = (0..=error.len().min(MOST_ERROR)).rev().find(|&at| error.is_char_boundary(at)).unwrap_or(0);
    let error = error.get(..end).unwrap_or_default().replace('\0', "");
    DeliveryFailure { error: error.into(), retry_after: None, gone: false }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// As a connector wraps what it met.
    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Connect(#[source] io::Error);

    #[test]
    fn a_handshake_is_told_in_words_of_ours() {
        for (wrong, words) in [
            (CertificateError::UnknownIssuer, "[webhooks] ca"),
            (CertificateError::BadSignature, "[webhooks] ca"),
            (CertificateError::Expired, "expired"),
            (CertificateError::NotValidYet, "clocks"),
            (CertificateError::NotValidForName, "the name in the URL"),
            (CertificateError::Revoked, "cannot be used"),
        ] {
            let error = Connect(io::Error::other(rustls::Error::InvalidCertificate(wrong)));
            let told = cause(&error).unwrap_or_default();
            assert!(told.contains(words), "{told}");
        }
    }

    fn client() -> Client {
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        Client::builder().tls_backend_preconfigured(tls).build().unwrap()
    }

    /// Asks for a URL at this address.
    async fn ask(scheme: &str, listener: TcpListener) -> String {
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            stream
        };
        let client = client();
        let (_stream, answer) = tokio::join!(serve, client.post(format!("{scheme}://{address}")).send());
        told(&answer.unwrap_err().without_url())
    }

    #[tokio::test]
    async fn only_the_cause_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert_eq!(ask("https", listener).await, "it does not speak TLS");
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let error = client().post(format!("http://{nobody}")).send().await.unwrap_err();
        let told = told(&error.without_url());
        assert!(told.starts_with("Connection refused"), "{told}");
    }
}

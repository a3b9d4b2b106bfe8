//! One try: a request to a receiver, and what its answer means.
//!
//! Responsible for TLS, for the bounds of a try, and for saying of an answer no more than its status: a body may hold
//! anything, and is neither kept nor logged. Not for when to try (`deliver.rs`, the scheduler), nor for which addresses may
//! be reached (`guard.rs`).

use std::{error::Error as _, net::IpAddr, sync::Arc, time::Duration};

use reqwest::{Client, Response, StatusCode, Url, header, redirect::Policy};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
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
    let mut causes = std::iter::successors(error.source(), |&cause| cause.source());
    if let Some(closed) = causes.find_map(|cause| cause.downcast_ref::<Closed>()) {
        return closed.to_string();
    }
    if error.is_timeout() {
        return format!("no answer within {} s", TRY_WITHIN.as_secs());
    }
    Chain(error).to_string()
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

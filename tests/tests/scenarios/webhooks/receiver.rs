//! A receiver of webhooks with real TLS, which answers as its paths say and keeps what it was told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use ring::hmac;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What it was told once.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// See the module. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    directory: PathBuf,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Shared {
    told: Mutex<Vec<Told>>,
    connections: Mutex<u32>,
    /// Paths that are answered otherwise than by their names from now on.
    mended: Mutex<bool>,
}

impl Told {
    /// Of `webhook-id`.
    pub(crate) fn id(&self) -> &str {
        self.headers.get("webhook-id").map_or("", String::as_str)
    }

    /// As a receiver would verify it, by the secret that it was given.
    pub(crate) fn is_signed_by(&self, secret: &[u8]) -> bool {
        let time = self.headers.get("webhook-timestamp").map_or("", String::as_str);
        let content = format!("{}.{time}.{}", self.id(), self.body);
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let signatures = self.headers.get("webhook-signature").map_or("", String::as_str);
        let mut given =
            signatures.split(' ').filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
        given.any(|given| hmac::verify(&key, content.as_bytes(), &given).is_ok())
    }
}

impl Receiver {
    /// Listens on loopback; in `directory` is the certificate that vouches for it.
    pub(crate) async fn start(directory: &Path) -> anyhow::Result<Self> {
        let (acceptor, authority) = tls()?;
        std::fs::write(directory.join("receiver-ca.pem"), authority)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        let all = Arc::clone(&shared);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                *all.connections.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&all));
                connections.spawn(async move {
                    // A client that goes away is no fault of a receiver.
                    serve(stream, &acceptor, &shared).await.unwrap_or_default();
                });
            }
        });
        Ok(Self { port, shared, directory: directory.to_owned(), _tasks: tasks })
    }

    /// Lines of `[webhooks]` of the server file that trust it; `allow` opens loopback.
    pub(crate) fn server_file(&self, allow: bool, secrets: &[(&str, &[u8])]) -> anyhow::Result<String> {
        let ca = self.directory.join("receiver-ca.pem");
        let mut text = format!("[webhooks]\nca = \"{}\"\n", ca.display());
        if allow {
            text += "allow = [\"127.0.0.0/8\", \"::1\"]\n";
        }
        for (name, secret) in secrets {
            let file = self.directory.join(format!("{name}.secret"));
            std::fs::write(&file, format!("whsec_{}\n", STANDARD.encode(secret)))?;
            text += &format!("[webhooks.secrets.{name}]\nfile = \"{}\"\n", file.display());
        }
        Ok(text)
    }

    /// A webhook that goes to a path of it.
    pub(crate) fn webhook(&self, name: &str, path: &str, more: &str) -> String {
        format!("[webhooks.{name}]\nurl = \"https://localhost:{}{path}\"\n{more}\n", self.port)
    }

    /// What it was told under a path so far.
    pub(crate) fn told(&self, path: &str) -> Vec<Told> {
        let all = self.shared.told.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|told| told.path == path).cloned().collect()
    }

    /// How often anybody connected.
    pub(crate) fn connections(&self) -> u32 {
        *self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on everything is answered with 204.
    pub(crate) fn mend(&self) {
        *self.shared.mended.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

async fn serve(stream: TcpStream, acceptor: &TlsAcceptor, shared: &Shared) -> anyhow::Result<()> {
    let mut stream = BufReader::new(acceptor.accept(stream).await?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let mut lines = head.lines();
        let path = lines.next().and_then(|line| line.split(' ').nth(1)).context("a request line")?.to_owned();
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.get("content-length").context("a length")?.parse()?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let told = Told { path: path.clone(), headers, body: String::from_utf8(body)? };
        let nth = {
            let mut all = shared.told.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(told);
            all.iter().filter(|told| told.path == path).count()
        };
        let mended = *shared.mended.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match path.as_str() {
            _ if mended => "204 No Content\r\n",
            "/fails-thrice" if nth <= 3 => "500 Internal Server Error\r\nContent-Length: 6\r\n\r\nsecret",
            "/fails" => "500 Internal Server Error\r\nContent-Length: 0\r\n",
            "/gone" => "410 Gone\r\nContent-Length: 0\r\n",
            "/moved" => "302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n",
            // It hangs until the client goes away.
            "/hangs" => {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).await?;
                return Ok(());
            }
            _ => "204 No Content\r\n",
        };
        let end = if answer.contains("\r\n\r\n") { "" } else { "\r\n" };
        stream.write_all(format!("HTTP/1.1 {answer}{end}").as_bytes()).await?;
        stream.flush().await?;
    }
}

/// A certificate for localhost, and the authority that vouches for it as PEM.
fn tls() -> anyhow::Result<(TlsAcceptor, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let own = KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names)?.signed_by(&own, &issuer)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(own.serialize_der().into()),
        )?;
    Ok((TlsAcceptor::from(Arc::new(config)), authority))
}

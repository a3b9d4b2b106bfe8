//! Servers that lead and follow in one process, on real sockets: how each stands is said by the test.

mod calls;
mod identities;
mod unread;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, header::CONTENT_TYPE};
use http_body::Body as _;
use prost::Message;
use tenure_proto::v1;
use tenure_store::{Reader, election::Trust, memory::Memory};
use tenure_tls::{
    Connector, Files, Role,
    files::Own,
    issue::{self, Leaf},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Status,
    body::Body,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;
use tower::{Service as _, ServiceExt as _};
use uuid::Uuid;

use crate::{
    Config, Running, Server, Stage,
    chain::BoxError,
    clock::Clock,
    config::{Producers, TRUST_DOMAIN, Tls},
    leadership::{Leader, Standing},
};

/// Nothing that a test waits for takes this long.
const DEADLINE: Duration = Duration::from_secs(30);

const FLEET: &str =
    "[slots]\nshell = \"node\"\n[kinds.page]\nneeds = { shell = 1 }\n[kinds.other]\nneeds = { shell = 1 }\n";

/// Certificates for a test; none: everything is plain, on loopback.
struct Certificates(Option<tempfile::TempDir>);

impl Certificates {
    fn make(holders: &[(Role, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        issue::init(directory.path(), TRUST_DOMAIN).unwrap();
        for &(role, name) in holders {
            let hosts = if role == Role::Server { vec!["127.0.0.1".to_owned()] } else { Vec::new() };
            let leaf = Leaf { role, name: name.to_owned(), hosts, days: 1 };
            issue::issue(directory.path(), &leaf, false).unwrap();
        }
        Self(Some(directory))
    }

    fn files(&self, role: Role, name: &str) -> Option<Files> {
        let path = |end: &str| self.0.as_ref().map(|made| made.path().join(format!("{role}-{name}{end}")));
        let own = Own { cert: path(".pem")?, key: path("-key.pem")? };
        Some(Files { ca: self.ca()?, own: Some(own) })
    }

    fn ca(&self) -> Option<PathBuf> {
        self.0.as_ref().map(|made| made.path().join("ca.pem"))
    }

    fn tls(&self, name: &str) -> Option<Tls> {
        let Files { ca, own } = self.files(Role::Server, name)?;
        Some(Tls { own: own?, client_ca: ca, trust_domain: TRUST_DOMAIN.to_owned() })
    }
}

/// A server of a test. It ends with this value.
struct Tested {
    running: Running,
    /// How it stands, if that is the test's to say.
    standing: Option<watch::Sender<Standing>>,
    _shutdown: tokio_util::sync::DropGuard,
}

fn config(certificates: &Certificates, name: &str, producers: Producers) -> Config {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Config {
        listen: any,
        http: any,
        peer_listen: Some(any),
        data: Path::new("in memory").to_owned(),
        tls: certificates.tls(name),
        producers,
        ..Config::default()
    }
}

impl Tested {
    /// A server that leads.
    async fn leader(store: &Memory, certificates: &Certificates, producers: Producers) -> Self {
        let shutdown = CancellationToken::new();
        let config = config(certificates, "one", producers);
        let started = Server::start_on(config, store.journal(), store.reader(), shutdown.clone());
        Self { running: started.await.unwrap(), standing: None, _shutdown: shutdown.drop_guard() }
    }

    /// A server that follows.
    async fn follower(reader: Reader, certificates: &Certificates, leader: Option<Leader>) -> Self {
        let shutdown = CancellationToken::new();
        let config = config(certificates, "two", Producers::new());
        let parts = (reader, Clock::new(config.clock), Trust::always());
        let stage = Stage::set(&config, parts, shutdown.clone()).await.unwrap();
        let standing = stage.seed.standing.clone();
        standing.send_replace(Standing::Following { leader });
        let until = shutdown.clone();
        let forever = async move {
            until.cancelled().await;
            Ok::<(), BoxError>(())
        };
        let running = stage.open(&config, forever).unwrap();
        Self { running, standing: Some(standing), _shutdown: shutdown.drop_guard() }
    }

    fn follow(&self, leader: Option<Leader>) {
        self.standing.as_ref().unwrap().send_replace(Standing::Following { leader });
    }

    fn grpc(&self) -> SocketAddr {
        self.running.addresses().grpc
    }

    fn peer(&self) -> SocketAddr {
        self.running.addresses().peer.unwrap()
    }

    /// As others find it in the database.
    fn as_leader(&self) -> Leader {
        leader(self.grpc(), Some(self.peer()))
    }
}

fn leader(addr: SocketAddr, peer_addr: Option<SocketAddr>) -> Leader {
    let text = |address: SocketAddr| Arc::from(address.to_string());
    Leader { holder: Uuid::from_u128(7), addr: Some(text(addr)), peer_addr: peer_addr.map(text) }
}

/// A connection as this holder.
fn channel(address: SocketAddr, files: Option<Files>) -> Channel {
    match files {
        Some(files) => Endpoint::from_shared(format!("https://{address}"))
            .unwrap()
            .connect_with_connector_lazy(Connector::new(files).unwrap()),
        None => Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy(),
    }
}

/// What came back of a call, byte for byte.
#[derive(Debug, PartialEq, Eq)]
struct Answered {
    data: Vec<u8>,
    code: Code,
    message: String,
    details: Vec<u8>,
    rows: bool,
}

impl Answered {
    fn reason(&self) -> String {
        let status = Status::with_details(self.code, self.message.clone(), self.details.clone().into());
        status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
    }

    fn message<M: Message + Default>(&self) -> M {
        assert_eq!(self.code, Code::Ok, "{self:?}");
        M::decode(&self.data[5..]).unwrap()
    }
}

/// One call below all clients, with these headers besides.
async fn call(
    channel: &Channel,
    path: &str,
    message: &impl Message,
    headers: &[(&'static str, &str)],
) -> Answered {
    let message = message.encode_to_vec();
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend(message);
    let mut request = Request::post(path).header(CONTENT_TYPE, "application/grpc").header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::new(axum::body::Body::from(framed))).unwrap();
    let mut channel = channel.clone();
    let answered = async {
        let response = match channel.ready().await.unwrap().call(request).await {
            Ok(response) => response,
            // This side looks at the clock, too.
            Err(late) if format!("{late:?}").contains("TimeoutExpired") => {
                return Answered {
                    data: Vec::new(),
                    code: Code::DeadlineExceeded,
                    message: String::new(),
                    details: Vec::new(),
                    rows: false,
                };
            }
            Err(error) => panic!("{error:?}"),
        };
        let (parts, mut body) = response.into_parts();
        let mut data = Vec::new();
        let mut trailers = parts.headers.clone();
        while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            match frame.unwrap().into_data() {
                Ok(bytes) => data.extend_from_slice(&bytes),
                Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_else(|_| HeaderMap::new())),
            }
        }
        let status = Status::from_header_map(&trailers).expect("an answer ends with a status");
        let (code, message) = (status.code(), status.message().to_owned());
        let rows = parts.headers.contains_key("tenure-read-from");
        Answered { data, code, message, details: Bytes::copy_from_slice(status.details()).to_vec(), rows }
    };
    tokio::time::timeout(DEADLINE, answered).await.expect("an answer in time")
}

const ENQUEUE: &str = "/tenure.v1.JobService/Enqueue";
const GET: &str = "/tenure.v1.JobService/GetJob";
const LIST: &str = "/tenure.v1.JobService/ListJobs";

fn enqueue(kind: &str, id: &Uuid) -> v1::EnqueueRequest {
    let spec = v1::JobSpec { kind: kind.to_owned(), job_id: id.to_string(), ..v1::JobSpec::default() };
    v1::EnqueueRequest { job: Some(spec) }
}

fn get(id: &Uuid) -> v1::GetJobRequest {
    v1::GetJobRequest { job_id: id.to_string() }
}

async fn apply(channel: &Channel) {
    let fleet = v1::ApplyRequest { fleet: FLEET.to_owned(), validate_only: false };
    let applied = call(channel, "/tenure.v1.FleetService/Apply", &fleet, &[]).await;
    assert_eq!(applied.code, Code::Ok, "{applied:?}");
}

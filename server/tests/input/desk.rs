//! A server on a real database, fed with bytes as they are; and what must be as before when something was refused.

use std::{
    fmt::Write as _,
    io,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message as _;
use tempfile::TempDir;
use tenure_proto::v1::{
    self, admin_service_client::AdminServiceClient, fleet_service_client::FleetServiceClient,
    job_service_client::JobServiceClient,
};
use tenure_server::{
    Config, Running, Server,
    config::{Database, SecretFiles, Webhooks},
};
use tenure_tests::raw::Raw;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status, transport::Channel};
use tonic_types::StatusExt as _;
use tracing_subscriber::fmt::MakeWriter;

/// No call takes longer.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// What is declared.
pub(crate) const FLEET: &str = r#"
[slots]
browser = "node"
api = 2
[kinds.plain]
concurrency = { key = "any", limit = 1000000 }
lease = "10m"
[kinds.web]
needs = { browser = 1 }
concurrency = { key = "conversation", limit = 1000 }
[cron.far]
kind = "plain"
when = "0 0 29 2 *"
[webhooks.hook]
url = "https://127.0.0.1:9/"
kinds = ["plain"]
events = ["expired"]
"#;

/// Which database.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
}

/// A running server and a channel to it.
pub(crate) struct Desk {
    pub(crate) channel: Channel,
    running: Running,
    shutdown: CancellationToken,
    log: Log,
    _shown: Shown,
    _directory: TempDir,
}

impl Desk {
    /// A server with [`FLEET`] applied. It needs a thread of its own: large requests are made and read on this one, and
    /// a database that hears nothing for seconds in the middle of a transaction gives it up.
    pub(crate) async fn start(store: Store) -> Self {
        let log = Log::of_process();
        let directory = TempDir::new().expect("a directory");
        let any = "127.0.0.1:0".parse().expect("an address");
        let database = match store {
            Store::Sqlite => None,
            Store::Postgres => {
                let cluster = tenure_test_postgres::shared().expect("a cluster");
                Some(Database::Url(cluster.database().expect("a database")))
            }
        };
        let migrate = database.is_some();
        let data = directory.path().to_owned();
        let file = directory.path().join("secret");
        std::fs::write(&file, format!("whsec_{}", "A".repeat(32))).expect("a secret");
        // No network is opened: what is due is refused before anybody is reached.
        let secrets = [("hook".to_owned(), SecretFiles { file, previous_file: None })].into();
        let webhooks = Webhooks { secrets, ..Webhooks::default() };
        let config =
            Config { listen: any, http: any, data, database, migrate, webhooks, ..Config::default() };
        let shutdown = CancellationToken::new();
        let running = Server::start(config, shutdown.clone()).await.expect("a server");
        tokio::time::timeout(SOON, running.settled()).await.expect("it leads");
        let endpoint = Channel::from_shared(format!("http://{}", running.addresses().grpc));
        let channel = endpoint.expect("an address").connect().await.expect("it listens");
        let desk =
            Self { channel, running, shutdown, _shown: Shown(log.clone()), log, _directory: directory };
        let request = v1::ApplyRequest { fleet: FLEET.to_owned(), validate_only: false };
        desk.fleet().apply(request).await.expect("a fleet file");
        desk
    }

    pub(crate) fn jobs(&self) -> JobServiceClient<Channel> {
        JobServiceClient::new(self.channel.clone())
    }

    pub(crate) fn fleet(&self) -> FleetServiceClient<Channel> {
        FleetServiceClient::new(self.channel.clone())
    }

    pub(crate) async fn enqueue(&self, job: v1::JobSpec) -> v1::Job {
        let stored = self.jobs().enqueue(v1::EnqueueRequest { job: Some(job) }).await.expect("it is stored");
        stored.into_inner().job.expect("an answer has its job")
    }

    /// One call with these bytes as its message.
    pub(crate) async fn call(&self, path: &str, bytes: impl Into<Bytes>) -> Result<Bytes, Status> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready().await.expect("the server is there");
        let path: PathAndQuery = path.parse().expect("a path");
        let call = grpc.unary(Request::new(bytes.into()), path, Raw);
        let answer = tokio::time::timeout(SOON, call).await.expect("an answer in time");
        answer.map(tonic::Response::into_inner)
    }

    /// What refused calls leave as it was: which jobs there are, how the named ones stand, kinds, slots, nodes.
    pub(crate) async fn standing(&self, named: &[&str]) -> String {
        let mut standing = String::new();
        let mut request = v1::ListJobsRequest { page_size: 1000, ..Default::default() };
        loop {
            let page = self.jobs().list_jobs(request.clone()).await.expect("a list").into_inner();
            for job in &page.jobs {
                standing.push_str(&job.id);
                // Others may expire, or become ready, by themselves.
                if named.contains(&job.id.as_str()) {
                    write!(standing, " {} {} {}", job.state, job.version, job.priority).expect("a text");
                }
                standing.push('\n');
            }
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        let fleet = self.fleet().get_fleet(v1::GetFleetRequest {}).await.expect("a fleet").into_inner();
        for kind in fleet.kinds {
            writeln!(standing, "{kind:?}").expect("a text");
        }
        for slot in fleet.slots {
            let slot = v1::Slot { waiting: 0, ..slot };
            writeln!(standing, "{slot:?}").expect("a text");
        }
        for node in self.nodes().await {
            let node = v1::Node { silent_for: None, state: 0, ..node };
            writeln!(standing, "{node:?}").expect("a text");
        }
        standing
    }

    pub(crate) async fn nodes(&self) -> Vec<v1::Node> {
        let mut request = v1::ListNodesRequest { page_size: 1000, ..Default::default() };
        let mut nodes = Vec::new();
        loop {
            let page = self.fleet().list_nodes(request.clone()).await.expect("a list").into_inner();
            nodes.extend(page.nodes);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return nodes;
            }
        }
    }

    /// Everything is in order: a good request is answered, no invariant is violated, nothing was reloaded, and nothing
    /// in the log asks for a person.
    pub(crate) async fn in_order(&self) {
        self.enqueue(v1::JobSpec { kind: "plain".to_owned(), ..Default::default() }).await;
        let mut admin = AdminServiceClient::new(self.channel.clone());
        let checked = admin.check_invariants(v1::CheckInvariantsRequest {}).await.expect("a check");
        assert_eq!(checked.into_inner().violations, []);
        let info = admin.get_server_info(v1::GetServerInfoRequest {}).await.expect("an answer").into_inner();
        assert_eq!((info.epoch, info.reloads), (1, 0), "{info:?}");
        self.log.is_clean();
    }

    /// Everything is in order, and the server ends well.
    pub(crate) async fn end(self) {
        self.in_order().await;
        self.shutdown.cancel();
        drop(self.channel);
        let ended = tokio::time::timeout(SOON, self.running.wait()).await.expect("an end in time");
        ended.expect("an end without fault");
        self.log.is_clean();
    }
}

/// Code and reason of a no; every no has both. `None`: it is none of ours.
pub(crate) fn reason(status: &Status) -> Option<(Code, String)> {
    let info = status.get_details_error_info()?;
    (info.domain == "tenure").then_some((status.code(), info.reason))
}

/// The fields that a no names.
pub(crate) fn fields(status: &Status) -> Vec<String> {
    let violations = status.get_details_bad_request().map(|bad| bad.field_violations);
    violations.into_iter().flatten().map(|violation| violation.field).collect()
}

/// Encoded as a request of that kind.
pub(crate) fn encoded(message: &impl prost::Message) -> Bytes {
    message.encode_to_vec().into()
}

/// The item of a batch with one job, as the answer of a call.
pub(crate) fn only_item(answer: Result<Bytes, Status>) -> Result<Bytes, Status> {
    use v1::enqueue_batch_item::Answer;
    let answer = v1::EnqueueBatchResponse::decode(answer?).expect("an answer of a batch");
    let [item] = <[_; 1]>::try_from(answer.items).expect("one answer for one job");
    match item.answer.expect("an item says something") {
        Answer::Enqueued(enqueued) => Ok(encoded(&enqueued)),
        Answer::Refused(refused) => {
            let details = Bytes::from(refused.encode_to_vec());
            Err(Status::with_details(Code::from(refused.code), refused.message, details))
        }
    }
}

/// What the servers of this process logged; it is shown if the test fails.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn of_process() -> Self {
        static LOG: LazyLock<Log> = LazyLock::new(|| {
            let log = Log::default();
            let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false);
            subscriber.with_writer(log.clone()).init();
            log
        });
        LOG.clone()
    }

    /// Nothing asks for a person, but for the one alarm that a node can raise by what it says (rule 11).
    #[track_caller]
    fn is_clean(&self) {
        const ALARM: &str = "a node claims an epoch too far ahead to be believed";
        let log = self.text();
        let wrong = log.lines().any(|line| line.contains("ERROR") && !line.contains(ALARM));
        assert!(!wrong, "the server logged:\n{log}");
    }

    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Shows a log if its test fails.
struct Shown(Log);

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server logged:\n{}", self.0.text());
        }
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

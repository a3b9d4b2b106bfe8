//! A real server on a store in memory, on ports of its own, with clients of every service.

use std::time::Duration;

use tenure_proto::v1::{
    self, admin_service_client::AdminServiceClient, fleet_service_client::FleetServiceClient,
    health_service_client::HealthServiceClient, job_service_client::JobServiceClient,
};
use tenure_server::{Addresses, Config, Running, Server};
use tenure_store::memory::Memory;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

/// No test waits longer for anything.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The fleet of most tests.
pub(crate) const FLEET: &str = r#"
    [slots]
    browser = "node"
    api = 2
    [kinds.plain]
    [kinds.web]
    needs = { browser = 1, api = 1 }
    [kinds.capped]
    queue_cap = 2
    retry = { intervals = ["0s"] }
    max_failures = 1
    [kinds.live]
    dedupe = "live"
"#;

/// A running server.
pub(crate) struct Served {
    pub(crate) store: Memory,
    pub(crate) jobs: JobServiceClient<Channel>,
    pub(crate) fleet: FleetServiceClient<Channel>,
    pub(crate) health: HealthServiceClient<Channel>,
    pub(crate) admin: AdminServiceClient<Channel>,
    pub(crate) channel: Channel,
    addresses: Addresses,
    running: Running,
    shutdown: CancellationToken,
}

impl Served {
    /// A server with [`FLEET`] applied.
    pub(crate) async fn start() -> Self {
        let served = Self::start_empty().await;
        served.apply(FLEET).await.expect("the fleet file is right");
        served
    }

    /// A server without a fleet.
    pub(crate) async fn start_empty() -> Self {
        Self::start_with(local()).await
    }

    pub(crate) async fn start_with(config: Config) -> Self {
        let store = Memory::new();
        let shutdown = CancellationToken::new();
        let running = Server::start_on(config, store.journal(), store.reader(), shutdown.clone())
            .await
            .expect("a server on loopback");
        let addresses = running.addresses();
        let endpoint = Channel::from_shared(format!("http://{}", addresses.grpc)).expect("an address");
        let channel = endpoint.connect().await.expect("the server listens");
        Self {
            store,
            jobs: JobServiceClient::new(channel.clone()),
            fleet: FleetServiceClient::new(channel.clone()),
            health: HealthServiceClient::new(channel.clone()),
            admin: AdminServiceClient::new(channel.clone()),
            channel,
            addresses,
            running,
            shutdown,
        }
    }

    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }

    pub(crate) async fn apply(&self, fleet: &str) -> Result<Vec<String>, Status> {
        let request = v1::ApplyRequest { fleet: fleet.to_owned(), validate_only: false };
        Ok(self.fleet.clone().apply(request).await?.into_inner().changes)
    }

    pub(crate) async fn enqueue(&self, job: v1::JobSpec) -> Result<v1::EnqueueResponse, Status> {
        Ok(self.jobs.clone().enqueue(v1::EnqueueRequest { job: Some(job) }).await?.into_inner())
    }

    /// Enqueues a job and gives it back.
    pub(crate) async fn job(&self, job: v1::JobSpec) -> v1::Job {
        self.enqueue(job).await.expect("the job is stored").job.expect("an answer has its job")
    }

    pub(crate) async fn get(&self, id: &str) -> Result<v1::Job, Status> {
        let response = self.jobs.clone().get_job(v1::GetJobRequest { job_id: id.to_owned() }).await?;
        Ok(response.into_inner().job.expect("an answer has its job"))
    }

    /// Reads a job until it is as wanted.
    pub(crate) async fn until(&self, id: &str, what: &str, wanted: impl Fn(&v1::Job) -> bool) -> v1::Job {
        let look = async {
            loop {
                match self.get(id).await {
                    Ok(job) if wanted(&job) => return job,
                    Ok(_) => {}
                    Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(SOON, look).await.unwrap_or_else(|_| panic!("{what} in time"))
    }

    /// Stops the server and sees that it ends well.
    pub(crate) async fn end(self) {
        self.shutdown.cancel();
        drop((self.jobs, self.fleet, self.health, self.admin, self.channel));
        let ended = tokio::time::timeout(SOON, self.running.wait()).await.expect("an end in time");
        ended.expect("an end without fault");
    }
}

/// Settings with free ports on loopback.
pub(crate) fn local() -> Config {
    let any = "127.0.0.1:0".parse().expect("an address");
    Config { listen: any, http: any, data: "unused".into(), ..Config::default() }
}

/// A spec of a kind.
pub(crate) fn spec(kind: &str) -> v1::JobSpec {
    v1::JobSpec { kind: kind.to_owned(), ..Default::default() }
}

/// Code and reason of a no.
#[track_caller]
pub(crate) fn no<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.expect_err("a no was expected");
    (status.code(), reason(&status))
}

/// The reason of a no; every no has one.
#[track_caller]
pub(crate) fn reason(status: &Status) -> String {
    let info = status.get_details_error_info().unwrap_or_else(|| panic!("no reason: {status:?}"));
    assert_eq!(info.domain, "tenure");
    info.reason
}

/// The fields that a no is about.
#[track_caller]
pub(crate) fn fields<T: std::fmt::Debug>(answer: Result<T, Status>) -> Vec<String> {
    let status = answer.expect_err("a no was expected");
    assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
    let bad = status.get_details_bad_request().expect("an invalid field is named");
    bad.field_violations.into_iter().map(|violation| violation.field).collect()
}

//! A server that runs, with a fleet applied and clients connected.

use std::{net::SocketAddr, path::Path, time::Duration};

use tenure_proto::v1::{
    ApplyRequest, EnqueueRequest, GetJobRequest, GetResultRequest, Job, JobSpec, Payload,
    fleet_service_client::FleetServiceClient, job_service_client::JobServiceClient,
};
use tenure_server::{Config, Error, Running, Server};
use tenure_store::memory::Memory;
use tokio_util::sync::CancellationToken;
use tonic::{Status, transport::Channel};

/// What all tests declare.
pub(crate) const FLEET: &str = r#"
[slots]
browser = "node"

[kinds."page"]
needs = { browser = 1 }
lease = "10s"
"#;

/// A server and a channel to it.
pub(crate) struct Served {
    pub(crate) shutdown: CancellationToken,
    running: Running,
    channel: Channel,
}

pub(crate) fn spec(kind: &str, payload: &[u8]) -> JobSpec {
    let payload = Payload { data: payload.to_vec().into(), content_type: "text/plain".to_owned() };
    JobSpec { kind: kind.to_owned(), payload: Some(payload), ..JobSpec::default() }
}

fn config(data: &Path) -> Config {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Config { listen: any, http: any, data: data.to_owned(), ..Config::default() }
}

impl Served {
    pub(crate) async fn in_memory() -> Self {
        Self::on(Memory::new()).await
    }

    pub(crate) async fn on(store: Memory) -> Self {
        let shutdown = CancellationToken::new();
        let config = config(Path::new("in memory"));
        let running = Server::start_on(config, store.journal(), store.reader(), shutdown.clone())
            .await
            .expect("it starts");
        let served = Self::new(running, shutdown).await;
        served.apply().await;
        served
    }

    pub(crate) async fn on_disk(data: &Path) -> Self {
        let served = Self::on_disk_again(data).await;
        served.apply().await;
        served
    }

    pub(crate) async fn on_disk_again(data: &Path) -> Self {
        let shutdown = CancellationToken::new();
        let running = Server::start(config(data), shutdown.clone()).await.expect("it starts");
        Self::new(running, shutdown).await
    }

    pub(crate) async fn try_on_disk(data: &Path) -> Result<Running, Error> {
        Server::start(config(data), CancellationToken::new()).await
    }

    async fn new(running: Running, shutdown: CancellationToken) -> Self {
        let address = format!("http://{}", running.addresses().grpc);
        let channel = Channel::from_shared(address).expect("an address").connect().await.expect("it listens");
        Self { shutdown, running, channel }
    }

    async fn apply(&self) {
        let request = ApplyRequest { fleet: FLEET.to_owned(), validate_only: false };
        FleetServiceClient::new(self.channel.clone()).apply(request).await.expect("a fleet file");
    }

    pub(crate) fn grpc(&self) -> SocketAddr {
        self.running.addresses().grpc
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The server's steady clock.
    pub(crate) fn steady(&self) -> Duration {
        self.running.handle().clock().steady()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.running.handle().info().epoch
    }

    pub(crate) fn jobs(&self) -> JobServiceClient<Channel> {
        JobServiceClient::new(self.channel.clone())
    }

    pub(crate) async fn enqueue(&self, spec: JobSpec) -> String {
        self.try_enqueue(spec).await.expect("it is stored")
    }

    pub(crate) async fn try_enqueue(&self, spec: JobSpec) -> Result<String, Status> {
        let response = self.jobs().enqueue(EnqueueRequest { job: Some(spec) }).await?.into_inner();
        Ok(response.job.expect("an answer has a job").id)
    }

    pub(crate) async fn job(&self, id: &str) -> Job {
        let request = GetJobRequest { job_id: id.to_owned() };
        self.jobs()
            .get_job(request)
            .await
            .expect("it is known")
            .into_inner()
            .job
            .expect("an answer has a job")
    }

    /// Waits until a job waits for this reason.
    pub(crate) async fn until_deferred(&self, id: &str, reason: &str) {
        let wait = async {
            while self.job(id).await.deferral.is_none_or(|deferral| deferral.reason != reason) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(super::SOON, wait).await.expect("in time");
    }

    /// The bytes of a job's result.
    pub(crate) async fn result(&self, id: &str) -> Vec<u8> {
        let response =
            self.jobs().get_result(GetResultRequest { job_id: id.to_owned() }).await.expect("it is kept");
        response.into_inner().result.expect("an answer has a result").data.to_vec()
    }

    /// Waits for a level.
    pub(crate) async fn until_sessions(&self, count: u64) {
        let wait = async {
            while self.running.handle().info().sessions != count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(super::SOON, wait).await.expect("in time");
    }

    /// Ends the server, which must work.
    pub(crate) async fn end(self) {
        self.shutdown.cancel();
        drop(self.channel);
        self.running.wait().await.expect("it ends in order");
    }
}

//! What leaves the processes by OTLP, by logs and by `/metrics`, shown on real ones before a collector of our own: that a
//! job can be followed, that figures agree, that a collector that is away costs nothing, and that no secret is among it.

mod away;
mod figures;
mod secrets;
mod traces;

use tenure_proto::v1::job_service_client::JobServiceClient;
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan};
use tonic::transport::{Channel, Endpoint};

/// The service of the server's process.
const SERVER: &str = "tenure-server";
/// The service of an agent's.
const AGENT: &str = "tenure-agent";

/// One kind on one node, and everything exported soon.
fn plan(endpoint: &str) -> Plan {
    Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1).line("max_failures = 1"))
        .node(NodePlan::new("n1").slot("shell", 4))
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .variable("OTEL_BSP_SCHEDULE_DELAY", "100")
        .variable("OTEL_METRIC_EXPORT_INTERVAL", "300")
        .variable("OTEL_EXPORTER_OTLP_TIMEOUT", "500")
}

/// The generated client, whose metadata a test sets itself.
async fn jobs(fleet: &Fleet) -> anyhow::Result<JobServiceClient<Channel>> {
    Ok(JobServiceClient::new(Endpoint::from_shared(fleet.endpoint())?.connect().await?))
}

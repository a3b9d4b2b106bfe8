//! The services on the wire: a request becomes a command, a reply becomes an answer, a refusal a status.
//!
//! Responsible for which services exist, with which limits, and for reflection over them. Not responsible for
//! connections (`listener.rs`), or for deciding anything (the scheduler). Invariant: every service has the same limit
//! of a message, and only paths that the descriptors name are let through.
//!
//! Reading order: `jobs` → `convert` and `convert/spec` → `status` → `check`, `page`, `gate`, `decode` → the rest.

use std::sync::Arc;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use tenure_proto::limits;
use tenure_proto::{
    node::v1::node_service_server::NodeServiceServer,
    v1::{
        admin_service_server::AdminServiceServer, cron_service_server::CronServiceServer,
        fleet_service_server::FleetServiceServer, health_service_server::HealthServiceServer,
        inbox_service_server::InboxServiceServer, job_service_server::JobServiceServer,
        webhook_service_server::WebhookServiceServer, workflow_service_server::WorkflowServiceServer,
    },
};
use tokio::sync::watch;
use tonic::{codec::CompressionEncoding::Gzip, service::Routes};
use tonic_health::server::HealthReporter;
use tonic_reflection::{pb, server::Builder};

mod admin;
pub(crate) mod api;
pub(crate) mod auth;
pub(crate) mod check;
pub(crate) mod convert;
pub(crate) mod convert_node;
mod cron;
pub(crate) mod decode;
pub(crate) mod elsewhere;
mod fleet;
pub(crate) mod gate;
mod health;
mod inbox;
pub(crate) mod jobs;
pub(crate) mod nodes;
mod page;
pub(crate) mod serving;
pub(crate) mod status;
mod webhooks;
mod workflows;

use self::{api::Api, auth::AuthLayer, elsewhere::ElsewhereLayer, gate::GateLayer, nodes::Nodes};

use crate::{access::Rules, clock::Clock, peers::Peers, trace::Spans};

/// Why the services cannot be put together: a bug in a descriptor set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A descriptor set does not decode.
    #[error("a descriptor set is malformed")]
    Descriptors(#[from] prost::DecodeError),
    /// Reflection takes no descriptor set.
    #[error("reflection cannot be built")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// A method has no row in the table of roles.
    #[error("the table of roles is not about the methods that there are")]
    Roles(#[from] auth::RowError),
}

/// Everything that is served on one port.
#[derive(Debug)]
pub(crate) struct Router {
    /// The services.
    pub(crate) routes: Routes,
    /// What stands before them.
    pub(crate) gate: GateLayer,
    /// What judges calls, behind the gate.
    pub(crate) auth: AuthLayer,
    /// What hands calls on that the leader has to answer, behind both.
    pub(crate) elsewhere: ElsewhereLayer,
    /// Where `grpc.health.v1` takes its answers from; kept up to date by [`serving::run`].
    pub(crate) reporter: HealthReporter,
}

/// Puts the services together.
///
/// # Errors
/// A bug in a descriptor set.
pub(crate) fn router(
    api: &Api,
    nodes: Nodes,
    rules: watch::Receiver<Arc<Rules>>,
    (clock, spans, peers): (Clock, Spans, Peers),
) -> Result<Router, Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    let mut routes = Routes::builder();
    let room = jobs::Room::default();
    // One limit for all, and gzip for those who want it; answers are not compressed, they are small.
    macro_rules! add {
        ($($service:expr),+ $(,)?) => {
            $(routes.add_service($service.max_decoding_message_size(limits::DECODE_BYTES).accept_compressed(Gzip));)+
        };
    }
    add!(
        JobServiceServer::new(jobs::Jobs::new(api.clone(), room.clone())),
        WorkflowServiceServer::new(workflows::Workflows::new(api.clone(), room)),
        FleetServiceServer::new(fleet::Fleet(api.clone())),
        CronServiceServer::new(cron::Cron(api.clone())),
        WebhookServiceServer::new(webhooks::Webhooks(api.clone())),
        HealthServiceServer::new(health::Health::new(api.clone())),
        AdminServiceServer::new(admin::Admin(api.clone())),
        InboxServiceServer::new(inbox::Inbox(api.clone())),
        NodeServiceServer::new(nodes),
        health,
        reflection()?.build_v1()?,
        reflection()?.build_v1alpha()?,
    );
    let paths = gate::paths(&[
        tenure_proto::FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        pb::v1::FILE_DESCRIPTOR_SET,
        pb::v1alpha::FILE_DESCRIPTOR_SET,
    ])?;
    let auth = AuthLayer::new(&paths, rules, api.metrics.clone(), clock)?;
    let elsewhere = ElsewhereLayer::new(api.handle.clone(), api.metrics.clone(), &paths, peers);
    let gate = GateLayer::new(paths, api.metrics.clone(), spans);
    Ok(Router { routes: routes.routes(), gate, auth, elsewhere, reporter })
}

/// The services with the types of error details, so that generic clients can print those.
fn reflection() -> Result<Builder<'static>, Error> {
    let mut ours = FileDescriptorSet::decode(tenure_proto::FILE_DESCRIPTOR_SET)?;
    for file in &mut ours.file {
        let package = file.package().to_owned();
        file.service.retain(|service| {
            !tenure_proto::SERVED_BY_AGENTS.contains(&format!("{package}.{}", service.name()).as_str())
        });
    }
    let mut details = FileDescriptorSet::decode(tonic_types::pb::FILE_DESCRIPTOR_SET)?;
    // Our own set has google.rpc.Status already, under its full path. A second file with that name would make a
    // client that loads both refuse both.
    details.file.retain(|file| file.name() != "status.proto");
    Ok(Builder::configure()
        .register_file_descriptor_set(ours)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_file_descriptor_set(details))
}

//! The servers of one fleet, and which of them is asked.
//!
//! Any server of a fleet answers any call: a follower hands it on to the leader. So one is asked for as long as it
//! answers, and the next one when it is UNAVAILABLE or says nothing.
//! Invariant: clones of a client ask the same one, and several calls that fail on it move on by one, not by several.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_proto::v1::admin_service_client::AdminServiceClient;
use tenure_proto::v1::cron_service_client::CronServiceClient;
use tenure_proto::v1::fleet_service_client::FleetServiceClient;
use tenure_proto::v1::health_service_client::HealthServiceClient;
use tenure_proto::v1::inbox_service_client::InboxServiceClient;
use tenure_proto::v1::job_service_client::JobServiceClient;
use tenure_proto::v1::webhook_service_client::WebhookServiceClient;
use tenure_proto::v1::workflow_service_client::WorkflowServiceClient;
use tenure_tls::Connector;
use tonic::transport::Channel;

use crate::{Error, Options, endpoint};

/// The most addresses of one client.
const MOST: usize = 16;

/// All servers that were named.
#[derive(Debug)]
pub(crate) struct Servers {
    all: Vec<Server>,
    /// Which of them is asked.
    current: AtomicUsize,
}

/// One server: a connection that heals by itself.
#[derive(Debug)]
pub(crate) struct Server {
    /// Its address.
    pub(crate) endpoint: String,
    pub(crate) jobs: JobServiceClient<Channel>,
    pub(crate) fleet: FleetServiceClient<Channel>,
    pub(crate) cron: CronServiceClient<Channel>,
    pub(crate) webhooks: WebhookServiceClient<Channel>,
    pub(crate) health: HealthServiceClient<Channel>,
    pub(crate) admin: AdminServiceClient<Channel>,
    pub(crate) inbox: InboxServiceClient<Channel>,
    pub(crate) workflows: WorkflowServiceClient<Channel>,
}

impl Servers {
    /// The servers at `endpoints`: addresses between commas.
    pub(crate) fn new(endpoints: &str, options: &Options) -> Result<Self, Error> {
        let named: Vec<&str> = endpoints.split(',').collect();
        if named.len() > MOST {
            let reason = format!("it names {} servers; at most {MOST} are possible", named.len());
            return Err(Error::Endpoint { endpoint: endpoints.to_owned(), reason });
        }
        let several = named.len() > 1;
        let all = named.into_iter().map(|endpoint| Server::new(endpoint, several, options));
        Ok(Self { all: all.collect::<Result<_, _>>()?, current: AtomicUsize::new(0) })
    }

    /// How many there are; one at least.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// The one to ask now, and its place.
    pub(crate) fn current(&self) -> Option<(usize, &Server)> {
        let place = self.current.load(Ordering::Relaxed);
        self.all.get(place).map(|server| (place, server))
    }

    /// The server at this place did not serve: the next one is asked, unless somebody else has moved on already.
    pub(crate) fn move_on(&self, from: usize) {
        let next = (from + 1).checked_rem(self.all.len()).unwrap_or_default();
        // Whoever was faster moved on from the same place: then there is nothing to do.
        self.current.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed).ok();
    }

    /// All addresses, between commas.
    pub(crate) fn endpoints(&self) -> String {
        self.all.iter().map(|server| server.endpoint.as_str()).collect::<Vec<_>>().join(",")
    }
}

impl Server {
    fn new(endpoint: &str, several: bool, options: &Options) -> Result<Self, Error> {
        let parsed = endpoint::parse(endpoint, several, options)?;
        let endpoint = parsed.uri().to_string().trim_end_matches('/').to_owned();
        let channel = match &options.tls {
            Some(files) if parsed.uri().scheme_str() == Some("https") => {
                let wrong = |source| Error::Tls { endpoint: endpoint.clone(), source: Arc::new(source) };
                parsed.connect_with_connector_lazy(Connector::new(files.clone()).map_err(wrong)?)
            }
            Some(_) | None => parsed.connect_lazy(),
        };
        Ok(Self {
            endpoint,
            jobs: JobServiceClient::new(channel.clone()),
            fleet: FleetServiceClient::new(channel.clone()),
            cron: CronServiceClient::new(channel.clone()),
            webhooks: WebhookServiceClient::new(channel.clone()),
            health: HealthServiceClient::new(channel.clone()),
            admin: AdminServiceClient::new(channel.clone()),
            inbox: InboxServiceClient::new(channel.clone()),
            workflows: WorkflowServiceClient::new(channel),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_that_fail_together_move_on_once_and_around() {
        let servers = Servers::new("127.0.0.1:1, localhost:2,http://[::1]:3", &Options::default()).unwrap();
        let place = || servers.current().unwrap().0;
        assert_eq!(servers.endpoints(), "http://127.0.0.1:1,http://localhost:2,http://[::1]:3");
        servers.move_on(0);
        servers.move_on(0);
        assert_eq!(place(), 1);
        servers.move_on(1);
        servers.move_on(2);
        assert_eq!(place(), 0);
    }

    #[tokio::test]
    async fn each_address_is_judged_for_itself() {
        for bad in ["127.0.0.1:1,", ",", "127.0.0.1:1,control.example:1", "127.0.0.1:1;127.0.0.1:2"] {
            assert!(Servers::new(bad, &Options::default()).is_err(), "{bad}");
        }
        assert!(Servers::new(&vec!["localhost:1"; MOST + 1].join(","), &Options::default()).is_err());
    }
}

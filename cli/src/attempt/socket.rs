//! The way to the agent: the socket of the attempt.
//!
//! Responsible for asking again while the agent is away, as it is for a moment when it restarts. Invariant: whatever is said
//! here may be said twice, since whoever was cut off says it again: what adds up carries an id.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tenure_client::Refusal;
use tenure_proto::limits;
use tenure_proto::node::v1::attempt_service_client::AttemptServiceClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::clock;
use crate::exit::Failure;

/// The variable that names the socket.
const VARIABLE: &str = "TENURE_SOCKET";
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(200);

/// The agent of the attempt that this process is a part of.
pub(super) struct Agent {
    endpoint: Endpoint,
    path: PathBuf,
    patience: Duration,
}

/// What is called.
pub(super) type Client = AttemptServiceClient<Channel>;

impl Agent {
    /// The one whose socket the environment names. `patience`: how long it may be away.
    pub(super) fn of_environment(patience: Duration) -> Result<Self, Failure> {
        let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else {
            return Err(Failure::Usage(format!(
                "{VARIABLE} is not set: this command is for what an agent runs, inside of a job"
            )));
        };
        let path = PathBuf::from(path);
        let endpoint = Endpoint::from_shared(format!("unix:{}", path.display()))
            .map_err(|error| Failure::Usage(format!("{VARIABLE}: {error}")))?;
        Ok(Self { endpoint, path, patience })
    }

    /// Makes a call, again while the agent is away, for as long as that is given.
    pub(super) async fn call<Q: Clone, A>(
        &self,
        request: Q,
        call: impl AsyncFn(Client, Q) -> Result<Response<A>, Status>,
    ) -> Result<A, Failure> {
        self.insist(Some(self.patience), request, call).await
    }

    /// Makes a call, again for as long as it takes: whoever waits has nothing else to do, and is ended with its lease.
    pub(super) async fn wait<Q: Clone, A>(
        &self,
        request: Q,
        call: impl AsyncFn(Client, Q) -> Result<Response<A>, Status>,
    ) -> Result<A, Failure> {
        self.insist(None, request, call).await
    }

    async fn insist<Q: Clone, A>(
        &self,
        patience: Option<Duration>,
        request: Q,
        call: impl AsyncFn(Client, Q) -> Result<Response<A>, Status>,
    ) -> Result<A, Failure> {
        let begun = clock::mono();
        loop {
            let status = match self.connect().await {
                Ok(client) => match call(client, request.clone()).await {
                    Ok(answer) => return Ok(answer.into_inner()),
                    Err(status) => status,
                },
                Err(status) => status,
            };
            let refusal = Refusal::from_status(&status);
            let late = patience.is_some_and(|patience| over(begun, patience));
            if !refusal.is_unavailable() || late {
                return Err(failure(&status));
            }
            tokio::time::sleep(refusal.retry_after.unwrap_or(AGAIN)).await;
        }
    }

    async fn connect(&self) -> Result<Client, Status> {
        let channel = self.endpoint.connect().await.map_err(|error| {
            let mut status = Status::unavailable(format!("no agent answers at {}", self.path.display()));
            status.set_source(std::sync::Arc::new(error));
            status
        })?;
        Ok(AttemptServiceClient::new(channel).max_decoding_message_size(limits::DECODE_BYTES))
    }
}

fn over(begun: Instant, patience: Duration) -> bool {
    clock::mono().saturating_duration_since(begun) >= patience
}

fn failure(status: &Status) -> Failure {
    Failure::Client(tenure_client::Error::from(Box::new(Refusal::from_status(status))))
}

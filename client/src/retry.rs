//! Trying again: UNAVAILABLE only, with full-jitter back-off, until a deadline.
//!
//! A call whose connection broke while it was in flight is UNAVAILABLE too ([`Refusal::from_status`]).
//! Not responsible for any other refusal: RESOURCE_EXHAUSTED goes back to the caller with its `retry_after`.
//! Invariant: a call that is sent again is word for word the call that was sent before, job ids included.

use std::error::Error as StdError;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tonic::{Code, Response, Status};

use crate::{Client, Error, Refusal, clock};

/// How a call is tried again while the server is UNAVAILABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The deadline of a call, from its first try. Zero: one try, without a deadline of ours. Default: 10 s.
    pub give_up_after: Duration,
    /// The longest wait after the first try; it doubles with each further one. Default: 100 ms.
    pub first_backoff: Duration,
    /// The longest wait between two tries. Default: 2 s.
    pub max_backoff: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            give_up_after: Duration::from_secs(10),
            first_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
        }
    }
}

impl RetryPolicy {
    /// The wait after the `tries`th try: evenly spread from zero to the bound (full jitter), and never less than the
    /// server asked for.
    pub(crate) fn backoff(&self, tries: u32, asked: Option<Duration>, random: u64) -> Duration {
        let doublings = tries.saturating_sub(1).min(20);
        let bound = self.first_backoff.saturating_mul(1 << doublings).min(self.max_backoff);
        let micros = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        let jitter = Duration::from_micros(random % micros.saturating_add(1).max(1));
        asked.map_or(jitter, |asked| asked.saturating_add(jitter))
    }
}

/// An answer, and whether the call was sent more than once for it.
pub(crate) struct Answered<T> {
    pub(crate) value: T,
    pub(crate) retried: bool,
}

impl Client {
    /// Sends `request` until it is answered by anything but UNAVAILABLE, or until the deadline.
    ///
    /// `server_time` is how long the server may take by design (a long poll); it comes on top of the policy's deadline.
    pub(crate) async fn call<Req, Resp, Fut>(
        &self,
        rpc: &'static str,
        server_time: Duration,
        request: Req,
        send: impl Fn(Req) -> Fut,
    ) -> Result<Answered<Resp>, Error>
    where
        Req: Clone,
        Fut: Future<Output = Result<Response<Resp>, Status>>,
    {
        let policy = &self.options.retry;
        let start = clock::now();
        let deadline = clock::after(policy.give_up_after.saturating_add(server_time));
        let mut tries = 0;
        loop {
            tries += 1;
            let answer = if policy.give_up_after.is_zero() {
                send(request.clone()).await
            } else {
                tokio::time::timeout_at(deadline, send(request.clone())).await.unwrap_or_else(|_| {
                    Err(Status::deadline_exceeded(
                        "the server did not answer before the deadline of the call",
                    ))
                })
            };
            let status = match answer {
                Ok(response) => {
                    return Ok(Answered { value: response.into_inner(), retried: tries > 1 });
                }
                Err(status) => status,
            };
            if let Some(source) = of_certificates(&status) {
                return Err(Error::Tls { endpoint: self.endpoint.clone(), source });
            }
            let refusal = Refusal::from_status(&status);
            let out_of_time = clock::now() >= deadline;
            let unanswered = out_of_time && refusal.code == Code::DeadlineExceeded;
            if !(refusal.is_unavailable() || unanswered) {
                return Err(Error::Refused(Box::new(refusal)));
            }
            let backoff = policy.backoff(tries, refusal.retry_after, random());
            if out_of_time || policy.give_up_after.is_zero() || clock::after(backoff) >= deadline {
                let waited = clock::now() - start;
                return Err(Error::Unavailable {
                    endpoint: self.endpoint.clone(),
                    tries,
                    waited,
                    last: Box::new(refusal),
                });
            }
            if tries == 1 {
                tracing::warn!(
                    rpc,
                    endpoint = %self.endpoint,
                    error = %refusal,
                    give_up_after_s = policy.give_up_after.as_secs(),
                    "the server is unavailable, trying again",
                );
            } else {
                tracing::debug!(rpc, tries, error = %refusal, "the server is still unavailable");
            }
            tokio::time::sleep(backoff).await;
        }
    }
}

/// What is wrong with certificates, if it is that: the next try would meet the same.
fn of_certificates(status: &Status) -> Option<Arc<dyn StdError + Send + Sync>> {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<tenure_tls::client::Error>() {
            return refused.is_lasting().then(|| Told::of(refused));
        }
        cause = error.source();
    }
    None
}

/// The words of an error that cannot be taken out of its status.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Told(String);

impl Told {
    fn of(error: &dyn StdError) -> Arc<dyn StdError + Send + Sync> {
        let causes = std::iter::successors(error.source(), |&error| error.source());
        let words = causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"));
        Arc::new(Self(words))
    }
}

/// A random number; without an entropy source the jitter is zero, which is only less polite.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or(0)
}

/// Calls one method of one of the client's services, with retries.
macro_rules! rpc {
    ($client:expr, $service:ident.$method:ident, $request:expr) => {
        $crate::retry::rpc!($client, $service.$method, $request, std::time::Duration::ZERO)
    };
    ($client:expr, $service:ident.$method:ident, $request:expr, $server_time:expr) => {
        $client.call(stringify!($method), $server_time, $request, |request| {
            let mut service = $client.$service.clone();
            async move { service.$method(request).await }
        })
    };
}
pub(crate) use rpc;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_its_bound_and_is_spread_over_all_of_it() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.backoff(1, None, 0), Duration::ZERO);
        assert_eq!(policy.backoff(1, None, 100_000), Duration::from_millis(100));
        assert_eq!(policy.backoff(3, None, 400_000), Duration::from_millis(400));
        assert_eq!(policy.backoff(90, None, 2_000_000), Duration::from_secs(2));
        for tries in 1..40 {
            assert!(policy.backoff(tries, None, u64::MAX) <= policy.max_backoff);
        }
    }

    #[test]
    fn what_the_server_asks_for_is_the_least() {
        let asked = Duration::from_secs(3);
        assert!(RetryPolicy::default().backoff(1, Some(asked), 77) >= asked);
    }

    #[test]
    fn a_policy_of_zero_lengths_does_not_divide_by_zero() {
        let policy = RetryPolicy {
            give_up_after: Duration::ZERO,
            first_backoff: Duration::ZERO,
            max_backoff: Duration::ZERO,
        };
        assert_eq!(policy.backoff(1, None, u64::MAX), Duration::ZERO);
        let endless = RetryPolicy { max_backoff: Duration::MAX, first_backoff: Duration::MAX, ..policy };
        assert!(endless.backoff(2, None, 5) <= Duration::MAX);
    }
}

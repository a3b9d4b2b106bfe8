//! Trying again: UNAVAILABLE only, with full-jitter back-off, until a deadline.
//!
//! A call whose connection broke while it was in flight is UNAVAILABLE too ([`Refusal::from_status`]). Where there are
//! several servers, each further try asks the next one; waits come between rounds, when all have been asked, and after
//! whoever is there and wants to be left alone for a while (SERVER_BUSY).
//! Not responsible for any other refusal: RESOURCE_EXHAUSTED goes back to the caller with its `retry_after`.
//! Invariant: a call that is sent again is word for word the call that was sent before, job ids included.

use std::error::Error as StdError;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tonic::{Response, Status};

use crate::servers::Server;
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
    /// The place of the server that gave it.
    pub(crate) server: usize,
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
        send: impl Fn(&Server, Req) -> Fut,
    ) -> Result<Answered<Resp>, Error>
    where
        Req: Clone,
        Fut: Future<Output = Result<Response<Resp>, Status>>,
    {
        let policy = &self.options.retry;
        let start = clock::now();
        let deadline = clock::after(policy.give_up_after.saturating_add(server_time));
        let mut round = Round::new(self.servers.count());
        loop {
            let Some((place, server)) = self.servers.current() else {
                return Err(Error::Endpoint { endpoint: self.endpoint.clone(), reason: NOBODY.to_owned() });
            };
            round.tries += 1;
            let answer = if policy.give_up_after.is_zero() {
                Some(send(server, request.clone()).await)
            } else {
                let until = round.try_until(policy, server_time).min(deadline);
                tokio::time::timeout_at(until, send(server, request.clone())).await.ok()
            };
            let unanswered = answer.is_none();
            let status = match answer {
                Some(Ok(response)) => {
                    let (value, retried) = (response.into_inner(), round.tries > 1);
                    return Ok(Answered { value, retried, server: place });
                }
                Some(Err(status)) => status,
                None => {
                    Status::deadline_exceeded("the server did not answer before the deadline of the call")
                }
            };
            let unusable = of_certificates(&status);
            if let Some(source) = round.without_tls(unusable) {
                return Err(Error::Tls { endpoint: server.endpoint.clone(), source });
            }
            let refusal = Refusal::from_status(&status);
            if !(refusal.is_unavailable() || unanswered || round.misfits > 0) {
                return Err(Error::Refused(Box::new(refusal)));
            }
            self.servers.move_on(place);
            let backoff = round.pause(policy, &refusal);
            if clock::now() >= deadline || policy.give_up_after.is_zero() || clock::after(backoff) >= deadline
            {
                let (waited, last) = (clock::now() - start, Box::new(refusal));
                let (endpoint, tries) = (self.endpoint.clone(), round.tries);
                return Err(Error::Unavailable { endpoint, tries, waited, last });
            }
            if round.tries == 1 {
                tracing::warn!(
                    rpc,
                    endpoint = %server.endpoint,
                    error = %refusal,
                    give_up_after_s = policy.give_up_after.as_secs(),
                    "the server is unavailable, trying again",
                );
            } else {
                tracing::debug!(rpc, round.tries, endpoint = %server.endpoint, error = %refusal, "a server is still unavailable");
            }
            tokio::time::sleep(backoff).await;
        }
    }
}

/// The reason of what no server of ours has said, such as that a connection broke.
const FROM_TRANSPORT: &str = "";

/// Why a client without a server cannot be asked; none is ever made.
const NOBODY: &str = "it names no server";

/// The tries of one call, in rounds of one for each server.
struct Round {
    servers: usize,
    tries: u32,
    /// Servers in a row whose TLS is not ours.
    misfits: usize,
    /// The longest wait that one of this round asked for.
    asked: Option<Duration>,
}

impl Round {
    fn new(servers: usize) -> Self {
        Self { servers, tries: 0, misfits: 0, asked: None }
    }

    /// Until when the server that is asked now has time: where there is another, half of it all.
    fn try_until(&self, policy: &RetryPolicy, server_time: Duration) -> Instant {
        let share = if self.servers > 1 { policy.give_up_after / 2 } else { policy.give_up_after };
        clock::after(share.saturating_add(server_time))
    }

    /// Takes whether there was no TLS with this server, for good. The last of the causes, if that is so with all.
    fn without_tls(&mut self, cause: Option<Cause>) -> Option<Cause> {
        self.misfits = if cause.is_some() { self.misfits + 1 } else { 0 };
        cause.filter(|_| self.misfits >= self.servers)
    }

    /// How long to wait before the next try after this answer: not at all within a round, if another server may have a
    /// better one. A server that is busy is so for all: others would hand the call on to it.
    fn pause(&mut self, policy: &RetryPolicy, refusal: &Refusal) -> Duration {
        self.asked = self.asked.max(refusal.retry_after);
        let servers = u32::try_from(self.servers).unwrap_or(u32::MAX).max(1);
        let elsewhere =
            matches!(refusal.reason.as_str(), FROM_TRANSPORT | "NOT_LEADER" | "STORE_UNAVAILABLE");
        if elsewhere && self.tries.checked_rem(servers).is_some_and(|rest| rest > 0) {
            return Duration::ZERO;
        }
        policy.backoff(self.tries.div_ceil(servers), self.asked.take(), random())
    }
}

/// What is wrong with certificates.
type Cause = Arc<dyn StdError + Send + Sync>;

/// What is wrong with certificates, if it is that: the next try would meet the same.
fn of_certificates(status: &Status) -> Option<Cause> {
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
    fn of(error: &dyn StdError) -> Cause {
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
        $client.call(stringify!($method), $server_time, $request, |server, request| {
            let mut service = server.$service.clone();
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
    fn servers_of_a_round_are_asked_at_once_and_the_longest_wait_of_them_counts() {
        let policy = RetryPolicy::default();
        let mut round = Round::new(3);
        let mut paused = |asked| {
            round.tries += 1;
            round.pause(&policy, &says("NOT_LEADER", asked))
        };
        assert_eq!(paused(None), Duration::ZERO);
        assert_eq!(paused(Some(Duration::from_secs(4))), Duration::ZERO);
        assert!(paused(Some(Duration::from_secs(1))) >= Duration::from_secs(4));
        assert_eq!((paused(None), paused(None)), (Duration::ZERO, Duration::ZERO));
        assert!(paused(None) <= policy.first_backoff * 2, "what the last round asked for is over");
    }

    /// A refusal with this reason.
    fn says(reason: &str, retry_after: Option<Duration>) -> Refusal {
        let reason = reason.to_owned();
        Refusal { reason, retry_after, ..Refusal::from_status(&Status::unavailable("not now")) }
    }

    #[test]
    fn a_busy_server_is_left_alone_before_the_next_one_is_asked_and_one_that_is_gone_is_not() {
        let policy = RetryPolicy::default();
        let asked = Some(Duration::from_secs(1));
        for (reason, waits) in
            [("SERVER_BUSY", true), ("NOT_LEADER", false), ("STORE_UNAVAILABLE", false), ("", false)]
        {
            let mut round = Round::new(3);
            round.tries = 1;
            let pause = round.pause(&policy, &says(reason, asked));
            assert_eq!(pause >= Duration::from_secs(1), waits, "{reason}: {pause:?}");
            assert_eq!(pause.is_zero(), !waits, "{reason}");
        }
    }

    #[test]
    fn without_tls_is_final_once_it_is_so_with_all_servers() {
        let wrong = || Some(Told::of(&std::io::Error::other("another CA")));
        let mut round = Round::new(2);
        assert!(round.without_tls(wrong()).is_none());
        assert!(round.without_tls(None).is_none(), "that one has TLS");
        assert!(round.without_tls(wrong()).is_none());
        assert!(round.without_tls(wrong()).is_some());
        assert!(Round::new(1).without_tls(wrong()).is_some());
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

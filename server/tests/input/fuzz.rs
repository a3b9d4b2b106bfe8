//! Noise and good requests that were changed by chance, for a bounded time: answered in good order, whatever they are.
//!
//! A failure prints its seed; `TENURE_TEST_SEED` replays it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt as _;
use prost_reflect::prost::Message as _;
use tonic::Code;

use crate::{
    bases::{Bases, hello, second},
    desk::{Desk, Store, reason},
    sessions::{Stream, Witness},
    sweep::{methods, path_of},
};
use tenure_proto::node::v1::node_message::Body;

/// For so long.
const BOUND: Duration = Duration::from_secs(4);

/// xorshift64*: enough for tests, and the same everywhere.
struct Random(u64);

impl Random {
    fn start() -> Self {
        let given = std::env::var("TENURE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(by_the_clock);
        eprintln!("TENURE_TEST_SEED={seed}");
        Self(seed | 1)
    }

    fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() >> 33).unwrap_or_default() % bound.max(1)
    }

    fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[3]
    }

    fn noise(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most);
        (0..length).map(|_| self.byte()).collect()
    }

    /// A message that was changed in a few places.
    fn changed(&mut self, good: &[u8]) -> Vec<u8> {
        let mut bytes = good.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = self.byte(),
                2 => bytes.truncate(at),
                3 => bytes.splice(at..at, self.noise(9)).for_each(drop),
                4 => bytes.extend_from_within(at..),
                _ => {
                    let to = at + self.below(bytes.len() - at);
                    bytes.drain(at..to);
                }
            }
        }
        bytes
    }
}

#[expect(clippy::disallowed_methods, reason = "a seed by chance; it is printed")]
fn by_the_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// What bytes may be answered with: never that the server is at fault, or away.
fn in_order(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::ResourceExhausted
    )
}

async fn calls(store: Store) {
    let desk = Desk::start(store).await;
    let bases = Bases::make(&desk).await;
    let mut random = Random::start();
    let methods: Vec<_> = methods().iter().map(|m| (path_of(m), bases.of(m).0.encode_to_vec())).collect();
    let mut over = std::pin::pin!(tokio::time::sleep(BOUND));
    let mut calls = 0;
    while over.as_mut().now_or_never().is_none() {
        let (path, good) = &methods[random.below(methods.len())];
        let bytes = if random.below(4) == 0 { random.noise(64) } else { random.changed(good) };
        if let Err(status) = desk.call(path, bytes.clone()).await {
            let said = reason(&status);
            assert!(said.is_some_and(|(code, _)| in_order(code)), "{path} {bytes:02x?}: {status:?}");
        }
        calls += 1;
    }
    assert!(calls > 50, "only {calls} calls");
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_and_senseless_calls_are_answered_in_good_order_on_sqlite() {
    calls(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_and_senseless_calls_are_answered_in_good_order_on_postgres() {
    calls(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_and_senseless_sessions_end_in_good_order_and_harm_nobody() {
    let desk = Desk::start(Store::Sqlite).await;
    let mut witness = Witness::start(&desk).await;
    let mut random = Random::start();
    let bodies = ["heartbeat", "draining", "reports"].map(|name| second(&[name]).encode_to_vec());
    let events = ["accepted", "started", "progress", "checkpoint", "finished", "reaped", "returned"];
    let reports = events.map(|event| second(&["reports", "reports", event]).encode_to_vec());
    let goods: Vec<_> = bodies.into_iter().chain(reports).collect();
    let mut over = std::pin::pin!(tokio::time::sleep(BOUND));
    let mut number = 0;
    while over.as_mut().now_or_never().is_none() {
        number += 1;
        let mut stream = Stream::open(&desk).await;
        stream.say(Body::Hello(hello("fuzz", number))).await;
        stream.welcomed().await;
        let good = &goods[random.below(goods.len())];
        let bytes = if random.below(4) == 0 { random.noise(64) } else { random.changed(good) };
        stream.send(bytes.clone()).await;
        stream.seq = 2;
        if let Err(status) = stream.beat(Vec::new()).await {
            let said = reason(&status);
            assert!(said.is_some_and(|(code, _)| in_order(code)), "{bytes:02x?}: {status:?}");
        }
        witness.notices_nothing().await;
    }
    assert!(number > 10, "only {number} sessions");
    desk.end().await;
}

//! Servers that contend for one real database, in this process.

use std::path::Path;

use tenure_store::{
    election::{Steady, Trust},
    postgres,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Config, Stage, clock, clock::Clock};

const SOON: Duration = Duration::from_secs(20);

/// A server that contends, and serves nobody.
struct Server {
    seed: Seed,
    candidate: Candidate,
    running: JoinSet<Result<(), BoxError>>,
}

impl Server {
    async fn at(url: &str, addr: &str) -> Self {
        let options = postgres::Options { migrate: true, ..postgres::Options::new(url.parse().unwrap()) };
        let (journal, reader) = postgres::open(&options).await.unwrap();
        let clock = Clock::new(clock::Options::default());
        let read = clock.clone();
        let steady = Steady::new(move || read.steady());
        let trust = Trust::by_renewals(steady.clone());
        let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let config =
            Config { listen: any, http: any, data: Path::new("none").to_owned(), ..Config::default() };
        let shutdown = CancellationToken::new();
        let stage = Stage::set(&config, (reader, clock, trust.clone()), shutdown).await.unwrap();
        stage.seed.standing.send_replace(Standing::Following { leader: None });
        let candidate = journal.stand((steady, trust), Some(addr.to_owned()), None);
        Self { seed: stage.seed, candidate, running: JoinSet::new() }
    }

    fn contend(&mut self) {
        self.running.spawn(contend(self.seed.clone(), self.candidate.clone()));
    }

    async fn stands(&self, how: impl Fn(&Standing) -> bool) {
        let mut standing = self.seed.standing.subscribe();
        let stands = timeout(SOON, standing.wait_for(|standing| how(standing))).await.map(drop);
        assert!(stands.is_ok(), "{:?}", *self.seed.standing.borrow());
    }

    async fn end(mut self) {
        self.seed.shutdown.cancel();
        while let Some(ended) = timeout(SOON, self.running.join_next()).await.unwrap() {
            ended.unwrap().unwrap();
        }
    }
}

fn is_at(addr: &str) -> impl Fn(&Standing) -> bool {
    move |standing| standing.leader().is_some_and(|leader| leader.addr.as_deref() == Some(addr))
}

#[tokio::test]
async fn a_server_that_raised_the_epoch_and_cannot_load_leaves_the_seat_to_another() {
    let cluster = tenure_test_postgres::shared().unwrap();
    let url = cluster.database().unwrap();
    let join = if url.contains('?') { '&' } else { '?' };
    let mut bad = Server::at(&format!("{url}{join}options[tenure.bad]=1"), "bad:1").await;
    let mut good = Server::at(&url, "good:1").await;
    // What the bad one loads last fails there, as if the network did, after its takeover was committed.
    let name = url.split('?').next().unwrap().rsplit('/').next().unwrap();
    for statement in [
        "create function fails() returns boolean stable language plpgsql as $$ begin \
         if current_setting('tenure.bad', true) = '1' then raise exception 'away' using errcode = '53100'; end if; \
         return true; end $$",
        "alter table classes rename to classes_kept",
        "create view classes as select * from classes_kept where fails()",
    ] {
        cluster.run_sql(name, statement).unwrap();
    }
    let mut seat = bad.candidate.seat();
    bad.contend();
    timeout(SOON, seat.wait_for(|seat| *seat != Seat::Unknown)).await.unwrap().unwrap();
    good.contend();
    good.stands(Standing::leads).await;
    bad.stands(is_at("good:1")).await;
    good.end().await;
    bad.end().await;
}

#[test]
fn what_the_store_fails_is_tried_again_every_two_seconds_at_the_most_and_a_fault_of_ours_every_thirty() {
    let waits = |bounds| (0..40).map(|row| doubled(row, bounds)).collect::<Vec<_>>();
    let (store, ours) = (waits(BACKOFF), waits(HOLD_OFF));
    assert_eq!(store[..3], [100, 200, 400].map(Duration::from_millis));
    assert_eq!(ours[..3], [500, 1000, 2000].map(Duration::from_millis));
    assert_eq!(store.last(), Some(&Duration::from_secs(2)));
    assert_eq!(ours.last(), Some(&Duration::from_secs(30)));
}

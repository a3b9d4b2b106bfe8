//! Elections on a real database: who leads, for how long, and what a journal may depose.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sqlx::{Executor, Row};
use tenure_scheduler::{Changes, Epoch};
use tokio::{task::JoinSet, time::timeout};

use super::{
    super::{election::Claim, journal::EPOCH_CHECK},
    Store, database, hand, open, sql,
};
use crate::{
    Beside, Journal,
    election::{Beat, Steady, Trust},
    journal::Error,
    postgres::{Candidate, Options, Seat},
};

const SOON: Duration = Duration::from_secs(10);

/// A clock that runs with the tests', and can be stepped.
#[derive(Clone, Default)]
struct Time {
    ahead_ms: Arc<AtomicU64>,
}

impl Time {
    fn steady(&self) -> Steady {
        #[expect(clippy::disallowed_methods, reason = "the tests' own reader of time")]
        let begun = std::time::Instant::now();
        let ahead = Arc::clone(&self.ahead_ms);
        Steady::new(move || begun.elapsed() + Duration::from_millis(ahead.load(Ordering::SeqCst)))
    }

    fn step(&self, by: Duration) {
        self.ahead_ms.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

/// A server that stands for election.
struct Server {
    candidate: Candidate,
    time: Time,
    running: JoinSet<()>,
}

impl Server {
    async fn at(url: &str, addr: &str) -> Self {
        let options = Options { migrate: true, ..Options::new(url.parse().unwrap()) };
        let (journal, _) = open(&options).await.unwrap();
        let time = Time::default();
        let steady = time.steady();
        let trust = Trust::by_renewals(steady.clone());
        let candidate = journal.stand((steady, trust), Some(addr.to_owned()), None);
        let mut server = Self { candidate, time, running: JoinSet::new() };
        server.thaw();
        server
    }

    /// Its renewals and looks stop, as if its process were.
    async fn freeze(&mut self) {
        self.running.shutdown().await;
    }

    fn thaw(&mut self) {
        self.running.spawn(self.candidate.clone().run());
    }

    async fn sees(&self, what: impl Fn(&Seat) -> bool) {
        let mut seat = self.candidate.seat();
        let seen = timeout(SOON, seat.wait_for(|seat| what(seat))).await.map(drop);
        assert!(seen.is_ok(), "{:?}", self.candidate.seat().borrow());
    }

    async fn sees_free(&self) {
        self.sees(|seat| *seat == Seat::Free).await;
    }

    async fn sees_at(&self, addr: &str) {
        self.sees(|seat| matches!(seat, Seat::Taken(holder) if holder.addr.as_deref() == Some(addr))).await;
    }

    /// Whether it holds the seat.
    fn leads(&self) -> bool {
        matches!(*self.candidate.seat().borrow(), Seat::Ours { .. })
    }
}

async fn commit(journal: &mut impl Journal, epoch: Epoch) -> Result<(), Error> {
    journal.commit(epoch, &Changes::default(), &Beside::default()).await
}

/// It was opened before a later version brought the schema up to date.
#[tokio::test]
async fn a_newer_schema_is_not_taken_over() {
    let url = database();
    let server = Server::at(&url, "a:1").await;
    server.sees_free().await;
    let mut later = hand(&url).await;
    let migrated = "insert into _sqlx_migrations values (9999, 'later', now(), true, '', 0)";
    later.execute(migrated).await.unwrap();
    let mut journal = server.candidate.journal();
    let refused = journal.takeover(Epoch(0)).await;
    assert!(matches!(refused, Err(Error::Newer { found: 9999, .. })), "{refused:?}");
    assert!(!server.leads());
    let row = later.fetch_one("select epoch, holder is null from leader_fence").await.unwrap();
    assert_eq!((row.get::<i64, _>(0), row.get::<bool, _>(1)), (0, true), "nothing was written");

    later.execute("delete from _sqlx_migrations where version = 9999").await.unwrap();
    server.sees_free().await;
    assert!(journal.takeover(Epoch(0)).await.is_ok());
}

#[tokio::test]
async fn of_several_that_start_at_once_one_leads_and_the_others_know_where() {
    let url = database();
    let servers =
        [Server::at(&url, "a:1").await, Server::at(&url, "b:1").await, Server::at(&url, "c:1").await];
    for server in &servers {
        server.sees_free().await;
    }
    let mut journals = servers.each_ref().map(|server| server.candidate.journal());
    let [a, b, c] = &mut journals;
    let (a, b, c) = tokio::join!(a.takeover(Epoch(0)), b.takeover(Epoch(0)), c.takeover(Epoch(0)));
    let taken = [a, b, c];
    assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 1, "{taken:?}");
    assert!(taken.iter().all(|taken| matches!(taken, Ok(_) | Err(Error::Deposed { .. }))), "{taken:?}");
    let leader = taken.iter().position(Result::is_ok).unwrap();
    let addr = ["a:1", "b:1", "c:1"][leader];
    for (n, server) in servers.iter().enumerate().filter(|(n, _)| *n != leader) {
        server.sees_at(addr).await;
        // It may not depose who lives.
        let refused = journals[n].takeover(Epoch(0)).await;
        assert!(matches!(refused, Err(Error::Deposed { .. })), "{refused:?}");
    }
    assert!(servers[leader].candidate.trust().holds());
}

#[tokio::test]
async fn a_leader_that_renews_is_never_deposed_and_one_that_stops_is_after_three_seconds() {
    let url = database();
    let mut first = Server::at(&url, "a:1").await;
    let second = Server::at(&url, "b:1").await;
    first.sees_free().await;
    let mut leading = first.candidate.journal();
    let taken = leading.takeover(Epoch(0)).await.unwrap();
    second.sees_at("a:1").await;
    tokio::time::sleep(Duration::from_secs(4)).await; // longer than patience
    assert!(first.leads() && first.candidate.trust().holds());
    assert!(matches!(*second.candidate.seat().borrow(), Seat::Taken(_)));
    first.freeze().await;
    second.sees_free().await;
    assert!(!first.candidate.trust().holds(), "it stopped before anybody may take over");
    let next = second.candidate.journal().takeover(Epoch(0)).await.unwrap();
    assert_eq!(next.epoch, Epoch(taken.epoch.0 + 1));
    assert!(matches!(commit(&mut leading, taken.epoch).await, Err(Error::Deposed { .. })));
    assert!(!first.leads());
    first.thaw();
    first.sees_at("b:1").await;
}

#[tokio::test]
async fn a_resignation_frees_the_seat_at_once_and_takes_the_trust() {
    let url = database();
    let first = Server::at(&url, "a:1").await;
    let second = Server::at(&url, "b:1").await;
    first.sees_free().await;
    first.candidate.journal().takeover(Epoch(0)).await.unwrap();
    second.sees_at("a:1").await;
    first.candidate.resign().await.unwrap();
    assert!(!first.candidate.trust().holds());
    timeout(Duration::from_millis(700), second.sees_free()).await.expect("no patience is needed");
    second.candidate.journal().takeover(Epoch(0)).await.unwrap();
    first.sees_at("b:1").await;
    // Of one that does not lead it changes nothing.
    first.candidate.resign().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await; // a renewal
    assert!(second.leads() && second.candidate.trust().holds());
}

#[tokio::test]
async fn a_server_that_was_frozen_past_its_trust_takes_over_from_itself_only_after_a_renewal() {
    let url = database();
    let mut server = Server::at(&url, "a:1").await;
    server.sees_free().await;
    let mut journal = server.candidate.journal();
    let taken = journal.takeover(Epoch(0)).await.unwrap();
    server.freeze().await;
    server.time.step(Duration::from_secs(3));
    let early = journal.takeover(Epoch(0)).await;
    assert!(matches!(early, Err(Error::Unavailable { .. })), "{early:?}");
    server.thaw();
    let renewed = async {
        while !server.candidate.trust().holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, renewed).await.unwrap();
    let again = journal.takeover(Epoch(0)).await.unwrap();
    assert_eq!(again.epoch, Epoch(taken.epoch.0 + 1));
    commit(&mut journal, again.epoch).await.unwrap();
}

#[tokio::test]
async fn a_takeover_whose_outcome_is_not_known_is_settled_by_the_next() {
    let url = database();
    let server = Server::at(&url, "a:1").await;
    server.sees_free().await;
    // Its first takeover landed, and nobody heard of it.
    let me = server.candidate.us().id;
    let landed = format!("update leader_fence set epoch = 5, holder = '{me}', hb = hb + 1");
    hand(&url).await.execute(sql(landed)).await.unwrap();
    let taken = server.candidate.journal().takeover(Epoch(0)).await.unwrap();
    assert_eq!(taken.epoch, Epoch(6));
}

#[tokio::test]
async fn a_dead_leaders_commit_that_hangs_is_cut_off_and_a_live_ones_successor_is_not() {
    let store = Store::new().await;
    let mut first = Server::at(&store.url, "a:1").await;
    let second = Server::at(&store.url, "b:1").await;
    first.sees_free().await;
    let taken = first.candidate.journal().takeover(Epoch(0)).await.unwrap();
    second.sees_at("a:1").await;
    first.freeze().await;
    // Stopped inside a commit; the idle limit does not help here.
    let mut frozen = store.hand().await;
    let name = format!("set application_name = 'tenure-leader-{}'; begin", taken.epoch);
    frozen.execute(sql(name)).await.unwrap();
    frozen.execute(sql(EPOCH_CHECK.replace("$1", &taken.epoch.to_string()))).await.unwrap();
    second.sees_free().await;
    timeout(Duration::from_secs(3), second.candidate.journal().takeover(Epoch(0))).await.unwrap().unwrap();
    assert!(frozen.execute("commit").await.is_err(), "its connection is gone");
}

#[tokio::test]
async fn a_live_leaders_slow_commit_is_not_cut_off_by_one_that_has_no_claim() {
    let store = Store::new().await;
    let first = Server::at(&store.url, "a:1").await;
    let second = Server::at(&store.url, "b:1").await;
    first.sees_free().await;
    let taken = first.candidate.journal().takeover(Epoch(0)).await.unwrap();
    second.sees_at("a:1").await;
    // Its commit waits for a disk, for longer than a takeover waits for the lock.
    let mut slow = store.hand().await;
    let name = format!("set application_name = 'tenure-leader-{}'; begin", taken.epoch);
    slow.execute(sql(name)).await.unwrap();
    slow.execute(sql(EPOCH_CHECK.replace("$1", &taken.epoch.to_string()))).await.unwrap();
    let early = timeout(SOON, second.candidate.journal().takeover(Epoch(0))).await.unwrap();
    assert!(matches!(early, Err(Error::Unavailable { .. })), "{early:?}");
    slow.execute("commit").await.unwrap();
    assert!(first.leads());
}

#[tokio::test]
async fn an_epoch_that_was_seen_is_never_given_again_by_a_database_that_lost_its_tail() {
    let url = database();
    let server = Server::at(&url, "a:1").await;
    server.sees_free().await;
    let mut journal = server.candidate.journal();
    let taken = journal.takeover(Epoch(41)).await.unwrap();
    assert_eq!(taken.epoch, Epoch(42));
    hand(&url).await.execute("update leader_fence set epoch = 3").await.unwrap();
    assert!(matches!(commit(&mut journal, taken.epoch).await, Err(Error::Deposed { .. })));
    server.sees_free().await;
    let again = server.candidate.journal().takeover(Epoch(0)).await.unwrap();
    assert_eq!(again.epoch, Epoch(43));
}

#[tokio::test]
async fn while_the_database_says_nothing_nobody_loses_patience() {
    let url = database();
    let mut first = Server::at(&url, "a:1").await;
    let second = Server::at(&url, "b:1").await;
    first.sees_free().await;
    first.candidate.journal().takeover(Epoch(0)).await.unwrap();
    second.sees_at("a:1").await;
    first.freeze().await;
    // For as long as it takes, reads fail: the table is locked.
    let mut lock = hand(&url).await;
    lock.execute("begin; lock table leader_fence in access exclusive mode").await.unwrap();
    second.sees(|seat| *seat == Seat::Unknown).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(*second.candidate.seat().borrow(), Seat::Unknown);
    lock.execute("rollback").await.unwrap();
    first.thaw();
    second.sees_at("a:1").await;
    assert!(first.leads(), "the same leader goes on");
}

#[tokio::test]
async fn what_is_told_late_changes_nothing_of_a_seat_that_was_won_or_lost_meanwhile() {
    let mut server = Server::at(&database(), "a:1").await;
    server.sees_free().await;
    server.freeze().await;
    let sent = server.time.steady().now();
    let candidate = &server.candidate;
    candidate.won(Epoch(7), sent);
    candidate.tell(Seat::Free, Some(Claim(Beat { epoch: 6, hb: 1 })));
    assert!(server.leads() && candidate.claim().is_none(), "a look that was asked before");
    candidate.lost();
    candidate.renewed(sent);
    assert_eq!(candidate.trust().renewed_ago(), None, "a renewal that was sent before");
}

#[tokio::test]
async fn one_look_that_fails_does_not_make_a_leader_unknown() {
    let url = database();
    let first = Server::at(&url, "a:1").await;
    let second = Server::at(&url, "b:1").await;
    first.sees_free().await;
    first.candidate.journal().takeover(Epoch(0)).await.unwrap();
    second.sees_at("a:1").await;
    let mut seat = second.candidate.seat();
    seat.mark_unchanged();
    let mut lock = hand(&url).await;
    lock.execute("begin; lock table leader_fence in access exclusive mode").await.unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await; // longer than a look may take, and the pause before it
    lock.execute("rollback").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await; // the next look
    assert!(!seat.has_changed().unwrap(), "{:?}", *seat.borrow());
}

//! Cron entries under a clock that is set: over the changes of the clock in Berlin, with servers that were away or go away
//! in the second of a firing, on both databases.

use std::{collections::BTreeMap, path::Path, time::Duration};

use jiff::Timestamp;
use tempfile::TempDir;
use tenure_proto::v1::{
    self, cron_service_client::CronServiceClient, fleet_service_client::FleetServiceClient,
    job_service_client::JobServiceClient,
};
use tenure_server::{Config, Running, Server, clock, config::Database};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, transport::Channel};

use crate::served::{SOON, local, no};

const KIND: &str = "[kinds.k]\nqueue_cap = 50\n";

/// How far a clock that shows `now` is from the host's.
fn offset_us(now: &str) -> i64 {
    let now: Timestamp = now.parse().expect("an instant");
    now.as_microsecond() - Timestamp::now().as_microsecond()
}

/// A server on a database, whose wall clock shows what the test says.
struct Timed {
    running: Running,
    shutdown: CancellationToken,
    channel: Channel,
}

impl Timed {
    async fn start(data: &Path, database: Option<&str>, offset_us: i64) -> Self {
        let database = database.map(|url| Database::Url(url.to_owned()));
        let migrate = database.is_some();
        let clock = clock::Options { wall_offset_us: offset_us, ..clock::Options::default() };
        let config = Config { data: data.to_owned(), database, migrate, clock, ..local() };
        let shutdown = CancellationToken::new();
        let running = Server::start(config, shutdown.clone()).await.expect("a server");
        tokio::time::timeout(SOON, running.settled()).await.expect("it stands");
        let endpoint = Channel::from_shared(format!("http://{}", running.addresses().grpc));
        let channel = endpoint.expect("an address").connect().await.expect("it listens");
        Self { running, shutdown, channel }
    }

    fn set(&self, now: &str) {
        self.running.handle().clock().set_wall_offset_us(offset_us(now));
    }

    async fn apply(&self, entry: &str) -> Vec<String> {
        let fleet = format!("{KIND}[cron.e]\nkind = \"k\"\n{entry}");
        let request = v1::ApplyRequest { fleet, validate_only: false };
        let applied = FleetServiceClient::new(self.channel.clone()).apply(request).await;
        applied.expect("the fleet file is right").into_inner().changes
    }

    fn cron(&self) -> CronServiceClient<Channel> {
        CronServiceClient::new(self.channel.clone())
    }

    async fn entry(&self) -> Result<v1::CronEntry, Status> {
        let listed = self.cron().list_cron_entries(v1::ListCronEntriesRequest {}).await?.into_inner();
        Ok(listed.entries.into_iter().next().expect("an entry"))
    }

    async fn next(&self) -> Vec<String> {
        let entry = self.entry().await.expect("it is listed");
        entry.next.into_iter().map(|firing| firing.local_time).collect()
    }

    /// The instants for which there are jobs, and how many jobs for each.
    async fn fired(&self) -> BTreeMap<String, usize> {
        let request = v1::ListJobsRequest { page_size: 1000, ..Default::default() };
        let listed = JobServiceClient::new(self.channel.clone()).list_jobs(request).await;
        let mut fired = BTreeMap::new();
        for job in listed.expect("jobs are listed").into_inner().jobs {
            let cron = job.cron.expect("it is of an entry");
            assert_eq!((cron.entry.as_str(), job.producer.as_str()), ("e", "cron:e"));
            *fired.entry(job.labels["cron.instant"].clone()).or_default() += 1;
        }
        fired
    }

    /// Waits until so many instants were fired or missed.
    async fn until(&self, fired: u64, missed: u64) -> v1::CronEntry {
        let look = async {
            loop {
                if let Ok(entry) = self.entry().await
                    && (entry.fired, entry.missed) == (fired, missed)
                {
                    return entry;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let found = tokio::time::timeout(SOON, look).await;
        if let Ok(entry) = found {
            return entry;
        }
        panic!("{fired} fired and {missed} missed in time, not {:?}", self.entry().await);
    }

    async fn end(self) {
        self.shutdown.cancel();
        drop(self.channel);
        let ended = tokio::time::timeout(SOON, self.running.wait()).await.expect("an end in time");
        ended.expect("an end without fault");
    }
}

/// Runs a case on both databases.
async fn on_both<F: Future<Output = ()>>(case: impl Fn(TempDir, Option<String>) -> F) {
    case(TempDir::new().expect("a directory"), None).await;
    let cluster = tenure_test_postgres::shared().expect("a cluster");
    let url = cluster.database().expect("a database");
    case(TempDir::new().expect("a directory"), Some(url)).await;
}

#[tokio::test]
async fn half_past_two_in_berlin_fires_once_a_day_over_both_changes_of_the_clock() {
    on_both(async |data, database| {
        let begin = offset_us("2026-03-28T12:00:00Z");
        let server = Timed::start(data.path(), database.as_deref(), begin).await;
        server.apply("when = \"30 2 * * *\"\nzone = \"Europe/Berlin\"\n").await;
        assert_eq!(server.next().await[..2], ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
        server.set("2026-03-29T01:00:01Z");
        server.until(1, 0).await;
        assert_eq!(server.next().await[0], "2026-03-30T02:30:00+02:00");
        server.set("2026-03-29T01:30:02Z"); // 03:30 there: nothing
        server.set("2026-03-30T00:30:01Z");
        server.until(2, 0).await;

        // A clock that is set back is no reason to fire again.
        server.set("2026-03-29T00:59:59Z");
        assert_eq!(server.next().await[0], "2026-03-31T02:30:00+02:00");

        // In the autumn local time comes twice. The new timetable counts from the apply.
        server.set("2026-10-24T12:00:00Z");
        let changed = server.apply("when = \"30  2 * * *\"\nzone = \"Europe/Vienna\"\n").await;
        assert_eq!(changed, ["cron e: zone Europe/Berlin -> Europe/Vienna"]);
        assert_eq!(server.next().await[..2], ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]);
        server.set("2026-10-25T00:30:01Z");
        server.until(3, 0).await;
        server.set("2026-10-25T01:30:01Z"); // half past two again
        assert_eq!(server.next().await[0], "2026-10-26T02:30:00+01:00");
        server.set("2026-10-26T01:30:01Z");
        server.until(4, 0).await;
        let fired = server.fired().await;
        let instants: Vec<&str> = fired.keys().map(String::as_str).collect();
        assert_eq!(
            instants,
            ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        assert!(fired.values().all(|jobs| *jobs == 1), "{fired:?}");

        // The same words in another zone are other instants: half past two there comes eight hours sooner.
        let changed = server.apply("when = \"30  2 * * *\"\nzone = \"Asia/Tokyo\"\n").await;
        assert_eq!(changed, ["cron e: zone Europe/Vienna -> Asia/Tokyo"]);
        assert_eq!(server.next().await[..2], ["2026-10-27T02:30:00+09:00", "2026-10-28T02:30:00+09:00"]);
        server.set("2026-10-26T17:30:01Z");
        server.until(5, 0).await;
        assert_eq!(server.fired().await.keys().next_back().map(String::as_str), Some("2026-10-26T17:30:00Z"));
        server.set("2026-10-27T01:30:01Z"); // half past two in Vienna: nothing
        assert_eq!(server.next().await[0], "2026-10-28T02:30:00+09:00");
        server.end().await;
    })
    .await;
}

#[tokio::test]
async fn the_twenty_ninth_of_february_fires_in_leap_years() {
    let data = TempDir::new().expect("a directory");
    let server = Timed::start(data.path(), None, offset_us("2027-03-01T00:00:00Z")).await;
    server.apply("when = \"0 0 29 2 *\"\nmissed = { catch_up = 5 }\n").await;
    assert_eq!(
        server.next().await,
        [
            "2028-02-29T00:00:00+00:00",
            "2032-02-29T00:00:00+00:00",
            "2036-02-29T00:00:00+00:00",
            "2040-02-29T00:00:00+00:00",
            "2044-02-29T00:00:00+00:00"
        ]
    );
    server.set("2028-02-29T00:00:01Z");
    server.until(1, 0).await;
    server.set("2037-01-01T00:00:00Z");
    server.until(3, 0).await;
    server.end().await;
}

#[tokio::test]
async fn a_server_that_was_down_over_three_firings_does_what_the_policy_says() {
    // One is fired while it is up, then three come while nobody is there: fired and missed in all, why the newest was
    // missed, and what is fired when it is there again.
    let cases = [
        ("\"skip\"", (1, 3), "LATE", &[][..]),
        ("\"coalesce\"", (2, 2), "COALESCED", &["2026-06-01T12:40:00Z"]),
        ("{ catch_up = 2 }", (3, 1), "LATE", &["2026-06-01T12:30:00Z", "2026-06-01T12:40:00Z"]),
    ];
    for (policy, (fired, missed), reason, last) in cases {
        on_both(async |data, database| {
            let database = database.as_deref();
            let server = Timed::start(data.path(), database, offset_us("2026-06-01T12:05:00Z")).await;
            server.apply(&format!("when = \"*/10 12 * * *\"\nmissed = {policy}\n")).await;
            server.set("2026-06-01T12:10:01Z");
            server.until(1, 0).await;
            server.end().await;

            let server = Timed::start(data.path(), database, offset_us("2026-06-01T12:42:00Z")).await;
            let entry = server.until(fired, missed).await;
            let newest = entry.missed_firings.first().expect("some were missed");
            assert_eq!((newest.count, newest.reason.as_str()), (missed, reason), "{policy}: {entry:?}");
            let all = server.fired().await;
            let expected: Vec<&str> = ["2026-06-01T12:10:00Z"].iter().chain(last).copied().collect();
            assert_eq!(all.keys().map(String::as_str).collect::<Vec<_>>(), expected, "{policy}");
            assert!(all.values().all(|jobs| *jobs == 1), "{policy}: {all:?}");
            server.end().await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_leader_that_goes_in_the_second_of_a_firing_takes_none_with_it_and_doubles_none() {
    let cluster = tenure_test_postgres::shared().expect("a cluster");
    let url = cluster.database().expect("a database");
    let data = TempDir::new().expect("a directory");
    let offset = offset_us("2026-06-01T12:00:30Z");
    let mut leader = Timed::start(data.path(), Some(&url), offset).await;
    leader.apply("when = \"* * * * *\"\n").await;
    for round in 1..=6_u32 {
        // The next minute comes while this one ends and the other takes over, each time a little earlier or later.
        let early = 60 * (round as i64 - 1);
        let now = format!("2026-06-01T12:{round:02}:00Z").parse::<Timestamp>().expect("an instant");
        let set = now.as_microsecond() - early * 1000 - Timestamp::now().as_microsecond();
        let follower = Timed::start(data.path(), Some(&url), set).await;
        leader.running.handle().clock().set_wall_offset_us(set);
        leader.end().await;
        let entry = follower.until(round.into(), 0).await;
        assert_eq!(entry.missed_firings, [], "round {round}");
        let fired = follower.fired().await;
        assert_eq!(fired.len(), round as usize, "round {round}: {fired:?}");
        assert!(fired.values().all(|jobs| *jobs == 1), "round {round}: {fired:?}");
        leader = follower;
    }
    leader.end().await;
}

#[tokio::test]
async fn an_operator_pauses_resumes_and_runs_an_entry_and_repeats_himself() {
    let data = TempDir::new().expect("a directory");
    let server = Timed::start(data.path(), None, offset_us("2026-06-01T12:00:30Z")).await;
    let payload = "{\"mode\":\"full\"}";
    server
        .apply(&format!(
            "when = \"0 13 * * *\"\npayload = '{payload}'\ncontent_type = \"application/json\"\nsingleton = true\n"
        ))
        .await;
    let pause = v1::PauseCronEntryRequest { entry: "e".into() };
    for changed in [true, false] {
        let paused = server.cron().pause_cron_entry(pause.clone()).await.unwrap().into_inner();
        let entry = paused.entry.unwrap();
        assert_eq!((paused.changed, entry.paused, entry.paused_by.as_str()), (changed, true, "local"));
        assert_eq!(entry.next, []);
    }
    let id = "01970000-0000-7000-8000-000000000001".to_owned();
    let run = v1::RunCronEntryRequest { entry: "e".into(), job_id: id.clone() };
    for deduplicated in [false, true] {
        let ran = server.cron().run_cron_entry(run.clone()).await.unwrap().into_inner();
        let job = ran.job.unwrap();
        assert_eq!((ran.deduplicated, &job.id), (deduplicated, &id));
        assert_eq!(job.cron, Some(v1::CronFiring { entry: "e".into(), instant: None }));
        assert_eq!(job.payload_size, payload.len() as u64);
        let needs = job.needs.unwrap().slots;
        assert_eq!((needs[0].slot.as_str(), needs[0].amount), ("cron:e", 1));
    }
    server.set("2026-06-01T13:00:10Z");
    let resume = v1::ResumeCronEntryRequest { entry: "e".into() };
    for changed in [true, false] {
        let resumed = server.cron().resume_cron_entry(resume.clone()).await.unwrap().into_inner();
        assert_eq!(resumed.changed, changed);
        assert_eq!(resumed.entry.unwrap().next[0].local_time, "2026-06-02T13:00:00+00:00");
    }
    let entry = server.until(1, 0).await;
    assert_eq!((entry.last_job_id.as_str(), entry.last_instant), (id.as_str(), None));

    let unknown = v1::PauseCronEntryRequest { entry: "f".into() };
    let status = server.cron().pause_cron_entry(unknown).await;
    assert_eq!(no(status), (Code::NotFound, "CRON_NOT_FOUND".to_owned()));
    let other = v1::RunCronEntryRequest { entry: "e".into(), job_id: "01970000-0000-4000-8000-1".into() };
    assert_eq!(no(server.cron().run_cron_entry(other).await).1, "INVALID_FIELD");
    let reader = server.running.handle().reader().clone();
    let job = id.parse().unwrap();
    let stored = reader.payloads(&[job]).await.unwrap();
    assert_eq!(
        (&*stored[&job].data, stored[&job].content_type.as_str()),
        (payload.as_bytes(), "application/json")
    );
    assert_eq!(reader.violations().await.unwrap(), []);
    let fleet =
        FleetServiceClient::new(server.channel.clone()).get_fleet(v1::GetFleetRequest {}).await.unwrap();
    assert_eq!(fleet.into_inner().cron_entries.len(), 1);
    server.end().await;
}

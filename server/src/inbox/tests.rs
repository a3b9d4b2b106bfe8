//! What becomes of a row, without a database.

use tenure_scheduler::{Command, Enqueue};
use uuid::Uuid;

use super::*;
use crate::Config;

const ID: u128 = 0x0199_0000_0000_7000_8000_0000_0000_0001;

fn row() -> InboxRow {
    InboxRow {
        seq: 1,
        role: "shop".into(),
        waited: Duration::from_secs(60),
        job: JobId(Uuid::from_u128(ID)),
        kind: "mail".into(),
        payload: "hello".into(),
        content_type: String::new(),
        dedupe_key: Some("order:1".into()),
        tenant: None,
        priority: None,
        run_at: None,
        delay_ms: None,
        stale_after_ms: None,
        labels: BTreeMap::new(),
        selector: BTreeMap::new(),
        needs: None,
        concurrency_key: None,
        hard_time_limit_ms: None,
        soft_time_limit_ms: None,
        traceparent: None,
        problems: Vec::new(),
    }
}

fn rules(text: &str) -> Rules {
    Rules::of(&Config::parse("server.toml", text).unwrap()).unwrap()
}

/// As what a row is enqueued, by the rules of a server file.
fn enqueue(text: &str, row: InboxRow) -> Result<Enqueue, No> {
    let (caller, judged) = Caller::role(&rules(text), &row.role);
    judged?;
    let command = submission(&caller, row)?.command;
    let Command::Enqueue(enqueue) = command else { panic!("{command:?}") };
    Ok(*enqueue)
}

#[test]
fn a_role_is_a_producer_of_its_own_unless_the_server_file_counts_it_to_one() {
    let own = enqueue("", row()).unwrap();
    assert_eq!((own.producer.as_str(), own.default_tenant.as_str()), ("db:shop", "shop"));
    assert_eq!(own.job, JobId(Uuid::from_u128(ID)));
    let named = enqueue("[producers.web]\ndatabase_roles = [\"shop\"]", row()).unwrap();
    assert_eq!((named.producer.as_str(), named.default_tenant.as_str()), ("web", "web"));
    let other = enqueue("[producers.web]\ndatabase_roles = [\"shop2\"]", row()).unwrap();
    assert_eq!(other.producer.as_str(), "db:shop");
}

#[test]
fn what_limits_a_producer_limits_its_roles() {
    let file = "[producers.web]\ndatabase_roles = [\"shop\"]\nkinds = [\"mail\"]\ntenants = [\"web\"]\nmax_priority = 5";
    assert!(enqueue(file, row()).is_ok());
    for beyond in [
        InboxRow { kind: "page".into(), ..row() },
        InboxRow { tenant: Some("other".into()), ..row() },
        InboxRow { priority: Some(6), ..row() },
    ] {
        let no = enqueue(file, beyond).unwrap_err();
        assert_eq!(no.reason(), "NOT_ALLOWED");
        assert!(no.message().contains("role shop of producer/web"), "{}", no.message());
    }
    let denied = format!("{file}\n[deny]\nnames = [\"producer/web\"]");
    assert_eq!(enqueue(&denied, row()).unwrap_err().reason(), "NOT_ALLOWED");
    let others = format!("{file}\n[deny]\nnames = [\"operator/web\"]");
    assert!(enqueue(&others, row()).is_ok());
}

#[test]
fn lengths_count_from_the_insert_not_from_the_ingest() {
    let spec = |delay_ms, stale_after_ms| InboxRow { delay_ms, stale_after_ms, ..row() };
    let fine = enqueue("", spec(Some(90_500), Some(3_600_000))).unwrap();
    assert_eq!(fine.delay, Some(Duration::from_millis(30_500)));
    assert_eq!(fine.stale_after, Some(Duration::from_secs(3540)));
    assert_eq!(enqueue("", spec(Some(60_000), None)).unwrap().delay, None, "it is over");
    assert_eq!(enqueue("", spec(None, Some(60_000))).unwrap_err().reason(), "ALREADY_STALE");
    for wrong in [spec(Some(-1), None), spec(None, Some(0)), spec(None, Some(-1)), spec(Some(i64::MIN), None)]
    {
        assert_eq!(enqueue("", wrong).unwrap_err().reason(), "INVALID_FIELD");
    }
}

#[test]
fn every_check_of_a_call_is_made() {
    let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let cases = [
        (InboxRow { kind: "No Name".into(), ..row() }, "INVALID_FIELD"),
        (InboxRow { job: JobId(Uuid::from_u128(7)), ..row() }, "INVALID_FIELD"),
        (InboxRow { payload: vec![0; 256 * 1024 + 1].into(), ..row() }, "PAYLOAD_TOO_LARGE"),
        (InboxRow { priority: Some(101), ..row() }, "INVALID_FIELD"),
        (InboxRow { labels: map("cron.instant", "x"), ..row() }, "INVALID_FIELD"),
        (InboxRow { needs: Some(BTreeMap::from([("browser".into(), 0)])), ..row() }, "INVALID_FIELD"),
        (InboxRow { hard_time_limit_ms: Some(0), ..row() }, "INVALID_FIELD"),
        (InboxRow { traceparent: Some("00-x".into()), ..row() }, "INVALID_FIELD"),
        (InboxRow { run_at: Some(Wall(0)), delay_ms: Some(90_000), ..row() }, "INVALID_FIELD"),
        (InboxRow { problems: vec![("labels", "expected a map".into())], ..row() }, "INVALID_FIELD"),
    ];
    for (row, reason) in cases {
        let told = format!("{row:?}");
        assert_eq!(enqueue("", row).expect_err(&told).reason(), reason, "{told}");
    }
}

#[test]
fn only_what_passes_by_itself_or_by_an_operator_keeps_a_row_waiting() {
    let kind = || KindName::new("mail");
    let full = |seconds| Refusal::QueueFull {
        kind: kind(),
        cap: 1,
        depth: 1,
        retry_after: Duration::from_secs(seconds),
    };
    assert_eq!(later(&full(5), kind()), Later::Kind(kind(), Duration::from_secs(5)));
    assert_eq!(later(&full(0), kind()), Later::Kind(kind(), HOLD.0));
    assert_eq!(later(&full(600), kind()), Later::Kind(kind(), HOLD.1));
    assert_eq!(later(&Refusal::KindPaused { kind: kind() }, kind()), Later::Kind(kind(), HOLD_UNKNOWN));
    assert_eq!(later(&Refusal::StoreFull { limit: 1 }, kind()), Later::All(HOLD_UNKNOWN));
    let unknown = Refusal::KindNotFound { kind: kind(), nearest: Vec::new() };
    assert_eq!(later(&unknown, kind()), Later::Never);
    assert_eq!(later(&Refusal::AlreadyStale, kind()), Later::Never);
    // One row's class is nothing that others of its kind should wait for.
    assert_eq!(later(&Refusal::ClassLimit { limit: 1 }, kind()), Later::Never);
}

#[test]
fn a_row_is_given_up_when_it_failed_alone_a_second_time_and_no_sooner() {
    let mut struck = Struck::default();
    assert!(!struck.again(7));
    assert!(!struck.again(8), "another row is another row");
    assert!(struck.again(7));
    assert!(!struck.again(7), "what was said is forgotten");
    for seq in 100..2000 {
        struck.again(seq);
    }
    assert!(struck.0.len() <= BATCH as usize);
    assert!(struck.again(8), "the lowest stay: they are seen again first");
}

#[test]
fn what_is_held_is_free_when_its_time_is_over() {
    let seconds = Duration::from_secs;
    let mut held = Held::default();
    assert_eq!(held.free_in(seconds(0)), Duration::MAX);
    held.kinds.insert(KindName::new("a"), seconds(5));
    held.kinds.insert(KindName::new("b"), seconds(9));
    assert_eq!(held.free_in(seconds(3)), seconds(2));
    assert_eq!(held.free_in(seconds(5)), seconds(4));
    assert_eq!(held.kinds.len(), 1);
    held.all = Some(seconds(7));
    assert_eq!(held.free_in(seconds(6)), seconds(1));
    assert_eq!((held.free_in(seconds(7)), held.all), (seconds(2), None));
}

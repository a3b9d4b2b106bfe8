//! The agent against a scripted server: a real socket, real processes, a real state directory.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

#[path = "session/adoption.rs"]
mod adoption;
#[path = "session/ended.rs"]
mod ended;
#[path = "session/fake.rs"]
mod fake;
#[path = "session/inputs.rs"]
mod inputs;
#[path = "session/older.rs"]
mod older;
#[path = "session/servers.rs"]
mod servers;
#[path = "session/storm.rs"]
mod storm;
#[path = "session/uploads.rs"]
mod uploads;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fake::{Fake, grant, seconds, span, within};
use tenure_node_agent::config::{NodeFile, Overrides};
use tenure_node_agent::{Agent, Error, Options, Running, Stop, state_dir};
use tenure_proto::node::v1::{
    Configure, Drain, Grant, LeasePhase, ReportKind, Revoke, RevokeReason, RevokedLease, Stored,
    StoredAnswer, StoredVerdict, Welcome, node_message, report::Event, server_message::Body,
};
use tokio_util::sync::CancellationToken;

/// Kinds are shell scripts. Rules that the load of a test machine may break are off.
const NODE: &str = r#"
name = "n1"
allow_root = true
drain_deadline = "20s"

[slots]
browser = 1
shell = 4

[labels]
os = "linux"

[kinds.echo]
command = ["sh", "-c", "cat > $TENURE_RESULT"]

[kinds.words]
command = ["sh", "-c", "cat; echo $TENURE_KIND $TENURE_ATTEMPT $(pwd)"]
result = "stdout"

[kinds.fails]
command = ["sh", "-c", "echo no luck >&2; exit 3"]

[kinds.large]
command = ["sh", "-c", "head -c 300000 /dev/zero > $TENURE_RESULT"]

[kinds.gate]
command = ["sh", "-c", "read gate; while [ ! -e $gate ]; do sleep 0.05; done; echo through > $TENURE_RESULT"]
grace = "1s"

[kinds.gate_large]
command = ["sh", "-c", """read gate; while [ ! -e $gate ]; do sleep 0.05; done
    head -c 300000 /dev/zero > $TENURE_RESULT"""]
grace = "1s"

[kinds.other]
command = ["sh", "-c", """umask 077; cd $TENURE_WORKDIR && echo > file && \
    echo $(id -u) $HOME $(stat -c %a file) > $TENURE_RESULT"""]
user = "nobody"

[kinds.gone]
command = ["no-such-program"]

[starts]
browser = "1 per 2s"

[[pressure.rule]]
id = "load_high"
enabled = false

[[pressure.rule]]
id = "disk_low"
enabled = false
"#;

struct Node {
    home: tempfile::TempDir,
    running: Running,
}

fn executable() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(Path::parent).unwrap();
    target.join("examples").join("shim_host")
}

async fn start_in(home: tempfile::TempDir, server: &Fake) -> Node {
    start_with(home, server, NODE).await
}

async fn start_with(home: tempfile::TempDir, server: &Fake, text: &str) -> Node {
    start_at(home, &[server.address], text, None).await
}

async fn start_among(home: tempfile::TempDir, servers: &[SocketAddr], text: &str) -> Node {
    start_at(home, servers, text, None).await
}

/// On another boot, if one is named.
async fn start_at(
    home: tempfile::TempDir,
    servers: &[SocketAddr],
    text: &str,
    boot_id: Option<&str>,
) -> Node {
    let running = try_start(&home, servers, text, boot_id).await.unwrap();
    Node { home, running }
}

/// As [`start_at`], and may fail.
async fn try_start(
    home: &tempfile::TempDir,
    servers: &[SocketAddr],
    text: &str,
    boot_id: Option<&str>,
) -> Result<Running, Error> {
    let file = NodeFile::parse(text, Path::new("node.toml")).unwrap();
    let servers: Vec<String> = servers.iter().map(|address| format!("http://{address}")).collect();
    let overrides = Overrides {
        server: Some(servers.join(",")),
        data: Some(home.path().join("state")),
        ..Overrides::default()
    };
    let config = file.validate(overrides).unwrap();
    let boot_id = boot_id.map(str::to_owned);
    let options = Options { exe: Some(executable()), spool_reserve_bytes: 0, boot_id, ..Options::default() };
    within(async {
        loop {
            match Agent::start(config.clone(), options.clone(), CancellationToken::new()).await {
                // The one before is on its way out.
                Err(Error::State(state_dir::Error::Taken(_))) => pause().await,
                other => return other,
            }
        }
    })
    .await
}

async fn start(server: &Fake) -> Node {
    start_in(tempfile::tempdir().unwrap(), server).await
}

impl Node {
    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn entries(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.home.path().join("state").join(name)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A grant that runs until a file exists.
    fn gated(&self, token: u64) -> Grant {
        let payload = format!("{}\n", self.path("gate").display());
        Grant { payload: payload.into(), ..grant("job-g", token, "gate") }
    }

    fn open_gate(&self) {
        fs::write(self.path("gate"), b"").unwrap();
    }

    /// Waits until a directory of the state directory has these entries.
    async fn until_entries(&self, name: &str, expected: &[&str]) {
        within(async {
            while self.entries(name) != expected {
                pause().await;
            }
        })
        .await;
    }

    async fn stop(self, how: Stop) {
        self.running.handle().stop(how);
        within(self.running.stopped()).await.unwrap();
    }
}

/// Before looking again for a level that has not been reached.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

fn token(n: u64) -> u64 {
    1 << 40 | n
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_from_its_grant_to_a_stored_result() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, hello) = server.session().await;
    assert_eq!((hello.node_name.as_str(), hello.stream, hello.incarnation), ("n1", 1, 1));
    assert!(hello.kinds.contains(&"echo".to_owned()) && !hello.kinds.contains(&"gone".to_owned()));
    assert_eq!(hello.slots["shell"], 4);
    assert!(within(node.running.handle().connected()).await);
    let payload = "the input".into();
    stream.grant(Grant { payload, ..grant("job-a", 1, "echo") }).await;
    let words = stream.until(token(1), "reaped").await;
    assert_eq!(words, ["accepted", "started", "finished succeeded exit [the input]", "reaped"]);
    stream.grant(Grant { attempt: 2, ..grant("job-b", 2, "words") }).await;
    let words = stream.until(token(2), "reaped").await;
    assert!(words[2].starts_with("finished succeeded exit [words 2 /"), "{words:?}");
    node.until_entries("attempts", &[]).await;
    node.until_entries("spool", &["broken"]).await;
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_told_in_words() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(grant("job-a", 1, "fails")).await;
    let words = stream.until(token(1), "reaped").await;
    assert_eq!(words, ["accepted", "started", "finished failed exit", "reaped"]);
    stream.grant(grant("job-b", 2, "large")).await;
    let words = stream.until(token(2), "reaped").await;
    assert_eq!(words[2], "finished failed_permanent result_too_large");
    stream.grant(grant("job-c", 3, "unheard-of")).await;
    assert_eq!(stream.until(token(3), "returned").await, ["returned kind started=false"]);
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_runs_as_its_user_and_in_its_own_directories() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let mut server = Fake::start().await;
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let node = start_in(home, &server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(grant("job-a", 1, "other")).await;
    let words = stream.until(token(1), "reaped").await;
    assert_eq!(words[2], "finished succeeded exit [65534 /nonexistent 600]");
    node.until_entries("attempts", &[]).await;
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_job_is_killed_and_its_slots_are_free_again() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    let slots = [("browser".to_owned(), 1)].into();
    stream.grant(Grant { slots, ..node.gated(1) }).await;
    stream.until(token(1), "started").await;
    let slots = [("browser".to_owned(), 1)].into();
    stream.grant(Grant { slots, ..grant("job-b", 2, "echo") }).await;
    assert_eq!(stream.until(token(2), "returned").await, ["returned slots started=false"]);
    let lease = RevokedLease { token: token(1), reason: RevokeReason::Cancelled.into() };
    stream.send(Body::Revoke(Revoke { leases: vec![lease, lease] })).await;
    assert_eq!(stream.until(token(1), "reaped").await, ["finished revoked revoked", "reaped"]);
    let slots = [("browser".to_owned(), 1)].into();
    stream.grant(Grant { slots, ..grant("job-c", 3, "echo") }).await;
    assert_eq!(stream.until(token(3), "reaped").await.len(), 4);
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_on_without_a_server_and_their_ends_are_replayed() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    stream.until_listed(token(1), LeasePhase::Started).await;
    drop(stream);
    let (stream, hello) = server.stream().await;
    assert_eq!((hello.stream, hello.held.len(), hello.unstored.len()), (2, 1, 0));
    assert_eq!(hello.held[0].phase(), LeasePhase::Started);
    drop(stream);
    node.open_gate();
    // A stream that is not welcomed ends again; by and by a Hello lists the end instead of the lease.
    let (mut stream, hello) = loop {
        let (stream, hello) = server.stream().await;
        if !hello.unstored.is_empty() && hello.held.is_empty() {
            break (stream, hello);
        }
    };
    assert_eq!(hello.unstored[0].token, token(1));
    assert_eq!(node.entries("spool"), ["1099511627777.report", "broken"]);
    stream.welcome(&hello).await;
    assert_eq!(stream.until(token(1), "reaped").await, ["finished succeeded exit [through]", "reaped"]);
    // Answered: it is deleted, and the next Hello lists nothing.
    drop(stream);
    let (_, hello) = server.stream().await;
    assert!(hello.unstored.is_empty() && hello.held.is_empty(), "{hello:?}");
    node.stop(Stop::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_renewals_a_job_is_gone_before_its_lease_is() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.renew = Duration::ZERO;
    let short = span(Duration::from_secs(4));
    stream.grant(Grant { lease: short, first_lease: short, ..node.gated(1) }).await;
    stream.until(token(1), "started").await;
    assert_eq!(stream.until(token(1), "returned").await, ["returned cut_off started=true"]);
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_that_take_a_limited_slot_are_spaced() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    for n in [1, 2] {
        let slots = [("browser".to_owned(), 1)].into();
        stream.grant(Grant { slots, ..grant(&format!("job-{n}"), n, "echo") }).await;
        let words = stream.until(token(n), if n == 1 { "reaped" } else { "accepted" }).await;
        assert_eq!(words[0], "accepted");
    }
    // It is accepted and listed so while it waits for the limiter, and then starts.
    stream.until_listed(token(2), LeasePhase::Accepted).await;
    assert_eq!(stream.until(token(2), "reaped").await[0], "started");
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_pressure_a_grant_is_given_back_with_what_was_read() {
    let mut server = Fake::start().await;
    // No disk has that much room.
    let rule = r#"
[[pressure.rule]]
id = "no_room"
close = { any = [{ signal = "disk.free", below = "1000000TiB" }] }
open = { all = [{ signal = "disk.free", above = "2000000TiB" }], for = "10s" }
effect = { refuse = "kind:echo" }
"#;
    let node = start_with(tempfile::tempdir().unwrap(), &server, &format!("{NODE}{rule}")).await;
    let (mut stream, hello) = server.session().await;
    let reading = hello.pressure.unwrap();
    let closed: Vec<_> =
        reading.closed.iter().map(|closed| (closed.refuse.as_str(), closed.rule.as_str())).collect();
    assert_eq!(closed, [("kind:echo", "no_room")]);
    stream.grant(grant("job-a", 1, "echo")).await;
    let report = stream.reports().await.remove(0);
    let Some(Event::Returned(returned)) = report.event else { panic!("{report:?}") };
    assert_eq!((returned.rule.as_str(), returned.generation), ("no_room", reading.generation));
    assert!(returned.observed > 0.0 && returned.observed < returned.threshold);
    stream.grant(grant("job-b", 2, "words")).await;
    assert_eq!(stream.until(token(2), "reaped").await.len(), 4);
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_agent_becomes_another_instance() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, first) = server.session().await;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    drop(stream);
    let (stream, second) = server.stream().await;
    assert_eq!((&second.instance, second.stream), (&first.instance, 2));
    stream.refuse("SUPERSEDED_SESSION").await;
    let (_, third) = server.stream().await;
    assert_ne!(third.instance, first.instance);
    assert_eq!((third.stream, third.incarnation, third.held.len()), (1, 1, 0));
    node.stop(Stop::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_name_is_in_use_comes_back_as_itself() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (stream, first) = server.stream().await;
    stream.refuse("NODE_NAME_IN_USE").await;
    let (_, second) = server.session().await;
    assert_eq!((&second.instance, second.stream), (&first.instance, 2));
    node.stop(Stop::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_agent_lets_jobs_end_and_then_ends() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    node.running.handle().stop(Stop::Drain);
    stream.grant(grant("job-b", 2, "echo")).await;
    assert_eq!(stream.until(token(2), "returned").await, ["returned draining started=false"]);
    node.open_gate();
    let words = stream.until_closed().await;
    assert_eq!(words, ["finished succeeded exit [through]", "reaped"]);
    within(node.running.stopped()).await.unwrap();
    assert_eq!(fs::read_dir(node.home.path().join("state/attempts")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_stopped_at_once_returns_what_ran() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    node.running.handle().stop(Stop::AtOnce);
    let words = stream.until_closed().await;
    assert_eq!(words, ["draining", "returned draining started=true"]);
    within(node.running.stopped()).await.unwrap();
    assert_eq!(
        fs::read_dir(node.home.path().join("state/spool")).unwrap().count(),
        1,
        "only `broken` is left"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_server_stops_and_keeps_its_reports() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.store = false;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    drop(stream);
    drop(server);
    node.open_gate();
    node.until_entries("spool", &["1099511627777.report", "broken"]).await;
    node.running.handle().stop(Stop::Drain);
    within(node.running.stopped()).await.unwrap();
    assert_eq!(fs::read_dir(node.home.path().join("state/spool")).unwrap().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_of_the_server_stops_what_still_runs_at_its_deadline_and_ends_when_told() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    stream.send(Body::Drain(Drain { deadline: seconds(1) })).await;
    assert_eq!(stream.until(token(1), "returned").await, ["returned draining started=true"]);
    // The agent itself goes on, and takes grants again once the server says so.
    stream.grant(grant("job-b", 2, "echo")).await;
    assert_eq!(stream.until(token(2), "returned").await, ["returned draining started=false"]);
    stream.send(Body::Drain(Drain { deadline: None })).await;
    stream.grant(grant("job-b", 3, "echo")).await;
    assert_eq!(stream.until(token(3), "reaped").await.len(), 4);
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_interval_of_heartbeats_counts_from_the_last_one() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.stream().await;
    let half_a_minute =
        Welcome { epoch: 1, anchor_seq: 1, heartbeat_interval: seconds(30), ..Welcome::default() };
    stream.send(Body::Welcome(half_a_minute)).await;
    stream.send(Body::Configure(Configure { heartbeat_interval: seconds(1), credits_ceiling: 0 })).await;
    let beat = async { while !matches!(stream.read().await.body, Some(node_message::Body::Heartbeat(_))) {} };
    tokio::time::timeout(Duration::from_secs(10), beat).await.expect("a heartbeat must come soon");
    drop(stream);
    node.stop(Stop::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_cannot_be_stored_is_set_aside() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.store = false;
    stream.grant(grant("job-a", 1, "echo")).await;
    stream.until(token(1), "reaped").await;
    let answer = StoredAnswer {
        token: token(1),
        report: ReportKind::Finished.into(),
        verdict: StoredVerdict::Broken.into(),
        ..StoredAnswer::default()
    };
    stream.send(Body::Stored(Stored { answers: vec![answer] })).await;
    node.until_entries("spool/broken", &["1099511627777.report"]).await;
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_breaks_the_protocol_is_left_and_met_again() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.seen += 1_000;
    stream.grant(grant("job-a", 1, "echo")).await;
    let (mut stream, hello) = server.session().await;
    assert_eq!((hello.stream, hello.held.len()), (2, 0));
    stream.grant(Grant { lease: None, ..grant("job-a", 2, "echo") }).await;
    let (_, hello) = server.session().await;
    assert_eq!(hello.stream, 3);
    node.stop(Stop::AtOnce).await;
}

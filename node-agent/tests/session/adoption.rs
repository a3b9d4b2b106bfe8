//! Agents that come after another one: what they take over, and what they say of the rest.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure_node_agent::clock::Clock;
use tenure_node_agent::{Error, Stop, deaths};
use tenure_proto::node::v1::{
    Grant, Hello, LeasePhase, Resume, ResumeVerdict, Welcome, node_message, server_message::Body,
};

use crate::fake::{Fake, Stream, grant, seconds, span, within, word};
use crate::{NODE, Node, pause, start, start_at, start_in, token, try_start};

/// The first Hello of the agent that is this incarnation.
async fn next_agent(server: &mut Fake, incarnation: u64) -> (Stream, Hello) {
    loop {
        let (stream, hello) = server.stream().await;
        if hello.incarnation == incarnation {
            return (stream, hello);
        }
    }
}

/// What a Hello holds: number of the token and phase.
fn held(hello: &Hello) -> Vec<(u64, LeasePhase)> {
    hello.held.iter().map(|lease| (lease.token - token(0), lease.phase())).collect()
}

/// An agent that runs one gated job, with nobody on its stream any more.
async fn running(server: &mut Fake) -> (Node, Hello) {
    let node = start(server).await;
    let (mut stream, hello) = server.session().await;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    (node, hello)
}

/// The shim that the state file of an attempt names.
fn shim(node: &Node, number: u64) -> Pid {
    let path = node.path("state/attempts").join(token(number).to_string()).join("state");
    let state: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    Pid::from_raw(i32::try_from(state["shim"]["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_that_fail_are_no_deaths_and_cost_no_job() {
    let mut server = Fake::start().await;
    let (Node { home, running }, _) = running(&mut server).await;
    drop(running);
    let broken = home.path().join("state/spool/broken");
    fs::remove_dir(&broken).unwrap();
    fs::write(&broken, "").unwrap();
    for _ in 0..deaths::MOST {
        let failed = try_start(&home, &[server.address], NODE, None).await.unwrap_err();
        assert!(matches!(failed, Error::Spool(_)), "{failed:?}");
    }
    fs::remove_file(&broken).unwrap();
    let node = start_in(home, &server).await;
    let (mut stream, hello) = next_agent(&mut server, 7).await;
    assert_eq!(held(&hello), [(1, LeasePhase::Started)]);
    stream.welcome(&hello).await;
    node.open_gate();
    assert_eq!(stream.until(token(1), "reaped").await, ["finished succeeded exit [through]", "reaped"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_comes_after_a_crash_takes_over_what_runs() {
    let mut server = Fake::start().await;
    let (node, first) = running(&mut server).await;
    // It vanishes without a word; its shim goes on. And once more.
    let Node { home, running } = node;
    drop(running);
    let node = start_in(home, &server).await;
    let (stream, second) = next_agent(&mut server, 2).await;
    assert_eq!((&second.instance, &second.boot_id), (&first.instance, &first.boot_id));
    assert_eq!(held(&second), [(1, LeasePhase::Started)]);
    let Node { home, running } = node;
    drop((running, stream));
    let node = start_in(home, &server).await;
    let (mut stream, third) = next_agent(&mut server, 3).await;
    assert_eq!(held(&third), [(1, LeasePhase::Started)]);
    let elapsed = |hello: &Hello| Duration::try_from(hello.held[0].elapsed.unwrap()).unwrap();
    assert!(
        elapsed(&third) > elapsed(&second) && elapsed(&second) > Duration::ZERO,
        "it counts from its start"
    );
    stream.welcome(&third).await;
    // Its slots and its job are taken; another job may run beside it.
    stream.grant(node.gated(2)).await;
    assert_eq!(stream.until(token(2), "returned").await, ["returned not_reaped started=false"]);
    stream.grant(grant("job-b", 3, "echo")).await;
    stream.until(token(3), "reaped").await;
    node.open_gate();
    assert_eq!(stream.until(token(1), "reaped").await, ["finished succeeded exit [through]", "reaped"]);
    node.until_entries("attempts", &[]).await;
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_hands_over_ends_soon_and_its_jobs_do_not() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    let asked = Clock::Boottime.now();
    node.running.handle().stop(Stop::HandOver);
    assert_eq!(stream.until_closed().await, ["draining restart"]);
    let Node { home, running } = node;
    within(running.stopped()).await.unwrap();
    assert!(Clock::Boottime.now().since(asked) < Duration::from_secs(2));
    drop(stream);
    let node = start_in(home, &server).await;
    let (mut stream, hello) = next_agent(&mut server, 2).await;
    assert_eq!((held(&hello), hello.unstored.len()), (vec![(1, LeasePhase::Started)], 0));
    stream.welcome(&hello).await;
    node.open_gate();
    assert_eq!(stream.until(token(1), "reaped").await, ["finished succeeded exit [through]", "reaped"]);
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_server_hands_over_too() {
    let mut server = Fake::start().await;
    let (node, _) = running(&mut server).await;
    drop(server);
    let asked = Clock::Boottime.now();
    let pid = shim(&node, 1);
    let Node { home, running } = node;
    running.handle().stop(Stop::HandOver);
    within(running.stopped()).await.unwrap();
    assert!(Clock::Boottime.now().since(asked) < Duration::from_secs(2));
    kill_process(pid, Signal::CONT).expect("the shim lives");
    let mut server = Fake::start().await;
    let node = start_in(home, &server).await;
    let (stream, hello) = next_agent(&mut server, 2).await;
    assert_eq!(held(&hello), [(1, LeasePhase::Started)]);
    drop(stream);
    node.stop(Stop::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_can_become_a_hand_over_and_that_a_stop_at_once() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    node.running.handle().stop(Stop::Drain);
    while !matches!(stream.read().await.body, Some(node_message::Body::Draining(_))) {}
    node.running.handle().stop(Stop::HandOver);
    assert_eq!(stream.until_closed().await, ["draining restart"]);
    let Node { home, running } = node;
    within(running.stopped()).await.unwrap();
    let node = start_in(home, &server).await;
    let (mut stream, hello) = next_agent(&mut server, 2).await;
    stream.welcome(&hello).await;
    node.running.handle().stop(Stop::AtOnce);
    assert!(stream.until_closed().await.contains(&"returned draining started=true".to_owned()));
    within(node.running.stopped()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_while_nobody_held_it_is_a_return() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    let lease = seconds(10);
    stream.renew = Duration::from_secs(10);
    stream.grant(tenure_proto::node::v1::Grant { lease, first_lease: lease, ..node.gated(1) }).await;
    stream.until(token(1), "started").await;
    drop(stream);
    let Node { home, running } = node;
    drop(running);
    let exit = home.path().join("state/attempts").join(token(1).to_string()).join("exit");
    within(async {
        while !exit.exists() {
            pause().await;
        }
    })
    .await;
    let node = start_in(home, &server).await;
    let (mut stream, hello) = next_agent(&mut server, 2).await;
    stream.welcome(&hello).await;
    assert_eq!(stream.until(token(1), "returned").await, ["returned cut_off started=true"]);
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_died_with_its_agent_is_a_loss() {
    let mut server = Fake::start().await;
    let (node, _) = running(&mut server).await;
    let pid = shim(&node, 1);
    let Node { home, running } = node;
    drop(running);
    kill_process(pid, Signal::KILL).unwrap();
    let node = start_in(home, &server).await;
    let (mut stream, hello) = next_agent(&mut server, 2).await;
    let known = hello.held.iter().map(|lease| lease.token).chain(hello.unstored.iter().map(|end| end.token));
    assert_eq!(known.collect::<Vec<_>>(), [token(1)]);
    stream.welcome(&hello).await;
    assert_eq!(stream.until(token(1), "reaped").await, ["finished lost lost", "reaped"]);
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reboot_what_had_ended_is_reported_and_nothing_is_said_of_the_rest() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, first) = server.session().await;
    stream.store = false;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    stream.grant(grant("job-b", 2, "echo")).await;
    stream.until(token(2), "finished").await;
    stream.grant(tenure_proto::node::v1::Grant { job_id: "job-c".to_owned(), ..node.gated(3) }).await;
    stream.until(token(3), "started").await;
    drop(stream);
    let pid = shim(&node, 1);
    // The third is ended by the host as it shuts down.
    let third = shim(&node, 3);
    let exit = node.path("state/attempts").join(token(3).to_string()).join("exit");
    let Node { home, running } = node;
    drop(running);
    kill_process(third, Signal::TERM).unwrap();
    within(async {
        while !exit.exists() {
            pause().await;
        }
    })
    .await;
    let node = start_at(home, &[server.address], NODE, Some("another-boot")).await;
    let (mut stream, hello) = next_agent(&mut server, 2).await;
    assert_eq!((&hello.instance, hello.boot_id.as_str()), (&first.instance, "another-boot"));
    assert_eq!((held(&hello), hello.unstored.len()), (Vec::new(), 2), "what ended is not held");
    let welcome = Welcome {
        epoch: 1,
        anchor_seq: 1,
        heartbeat_interval: span(Duration::from_millis(250)),
        ..Welcome::default()
    };
    stream.send(Body::Welcome(welcome)).await;
    let mut words = Vec::new();
    while words.len() < 2 {
        words.extend(stream.reports().await.iter().map(|report| (report.token - token(0), word(report))));
    }
    words.sort();
    let expected = [(2, "finished succeeded exit []"), (3, "returned terminated started=true")];
    assert_eq!(words, expected.map(|(token, word)| (token, word.to_owned())));
    node.until_entries("attempts", &[]).await;
    // A real reboot would have: the process of another boot is left alone.
    kill_process(pid, Signal::TERM).expect("the shim lives");
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_state_directory_is_another_instance_and_touches_nothing() {
    let mut server = Fake::start().await;
    let (node, first) = running(&mut server).await;
    let copied = tempfile::tempdir().unwrap();
    let mut copy = std::process::Command::new("cp");
    copy.arg("-a").args([node.path("state"), copied.path().join("state")]);
    assert!(copy.status().unwrap().success());
    let other = start_in(copied, &server).await;
    let (stream, second) = loop {
        let (stream, hello) = server.stream().await;
        if hello.instance != first.instance {
            break (stream, hello);
        }
    };
    assert_eq!((held(&second), second.incarnation), (Vec::new(), 1));
    other.until_entries("attempts", &[]).await;
    drop(stream);
    other.stop(Stop::AtOnce).await;
    kill_process(shim(&node, 1), Signal::CONT).expect("the shim lives");
    node.stop(Stop::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_without_its_agent_is_reported_from_its_record() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    drop(stream);
    node.open_gate();
    let Node { home, running } = node;
    drop(running);
    let record = home.path().join("state/attempts").join(token(1).to_string()).join("exit");
    within(async {
        while !record.exists() {
            pause().await;
        }
    })
    .await;
    let node = start_in(home, &server).await;
    let (mut stream, hello) = next_agent(&mut server, 2).await;
    assert_eq!(hello.unstored.len(), 1, "{hello:?}");
    stream.welcome(&hello).await;
    let words = stream.until(token(1), "reaped").await;
    assert_eq!(words[0], "finished succeeded exit [through]");
    node.stop(Stop::Drain).await;
}

/// What an attempt has said, as it stands on the disk.
fn said(node: &Node, number: u64) -> String {
    let dir = node.path("state/attempts").join(token(number).to_string());
    fs::read_to_string(dir.join("said.json")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_attempt_that_cannot_speak_any_more_spends_nothing_and_goes_on_when_it_may() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(Grant { hard_time_limit: seconds(2), ..node.gated(1) }).await;
    stream.until(token(1), "started").await;
    let Node { home, running } = node;
    drop(running);
    let dir = home.path().join("state/attempts").join(token(1).to_string());
    let wait = r#"{"epoch":1,"id":"w","terms":{"children":[],"policy":1,"at_least":0,"max_wait":null},"stand":{"Parked":{"kept":{}}}}"#;
    fs::write(dir.join("said.json"), format!("{{\"wait\":{wait}}}")).unwrap();
    // In the place of its socket is something that nobody removes.
    fs::remove_file(dir.join("socket")).unwrap();
    fs::create_dir_all(dir.join("socket/full")).unwrap();
    let node = start_in(home, &server).await;
    let (mut stream, hello) = next_agent(&mut server, 2).await;
    // Before Welcome nobody knows whether the server has a phase for it: the number of the wait says that it is parked.
    assert_eq!((held(&hello), hello.held[0].wait_epoch), (vec![(1, LeasePhase::Started)], 1));
    stream.welcome(&hello).await;
    // Longer than its limit, in which it waits.
    let over = Clock::Boottime.now() + Duration::from_secs(3);
    while Clock::Boottime.now() < over {
        stream.until_listed(token(1), LeasePhase::Parked).await;
    }
    let resume = Resume { token: token(1), wait_epoch: 1, verdict: ResumeVerdict::Go.into() };
    stream.send(Body::Resume(resume)).await;
    stream.until_listed(token(1), LeasePhase::Started).await;
    within(async {
        while !said(&node, 1).contains("Over") {
            pause().await;
        }
    })
    .await;
    // Now its clock runs again.
    let ended = stream.until(token(1), "reaped").await;
    assert!(ended[0].starts_with("finished timed_out limit"), "{ended:?}");
}

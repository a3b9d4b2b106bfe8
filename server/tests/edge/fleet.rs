//! Operators' verbs and the figures, against a real server.

use std::time::Duration;

use tenure_proto::v1::{self, NodeState, PausePolicy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::{
    node::Node,
    served::{FLEET, SOON, Served, fields, no, reason, spec},
};

#[tokio::test]
async fn a_fleet_file_is_applied_once_and_listed() {
    let served = Served::start_empty().await;
    let mut fleet = served.fleet.clone();
    let checked = v1::ApplyRequest { fleet: FLEET.to_owned(), validate_only: true };
    let would = fleet.apply(checked).await.unwrap().into_inner().changes;
    assert!(would.len() >= 6, "{would:?}");
    assert!(
        fleet.get_fleet(v1::GetFleetRequest {}).await.unwrap().into_inner().kinds.is_empty(),
        "validated only"
    );
    assert_eq!(served.apply(FLEET).await.unwrap(), would);
    assert_eq!(served.apply(FLEET).await.unwrap(), Vec::<String>::new());
    let in_force = fleet.get_fleet(v1::GetFleetRequest {}).await.unwrap().into_inner();
    let kinds: Vec<&str> = in_force.kinds.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(kinds, ["capped", "live", "plain", "web"]);
    let slots: Vec<_> = in_force.slots.iter().map(|s| (s.name.as_str(), s.per_node, s.capacity)).collect();
    assert_eq!(slots, [("api", false, 2), ("browser", true, 0)]);
    let capped = &in_force.kinds[0];
    assert_eq!(
        (capped.queue_cap, capped.max_failures, capped.retry.as_ref().unwrap().intervals.len()),
        (Some(2), 1, 1)
    );
    assert_eq!(in_force.kinds[1].dedupe(), v1::DedupePolicy::Live);
    assert_eq!(in_force.tenants, []);
    served.end().await;
}

#[tokio::test]
async fn tenants_are_declared_listed_and_told_by_an_apply() {
    let served = Served::start().await;
    let with = |weight: u32| format!("{FLEET}\n[tenants.site]\nweight = {weight}\n");
    assert_eq!(served.apply(&with(3)).await.unwrap(), ["tenant site declared: weight 3"]);
    assert_eq!(served.apply(&with(4)).await.unwrap(), ["tenant site: weight 3 -> 4"]);
    served.job(v1::JobSpec { tenant: "other".to_owned(), ..spec("web") }).await;
    let listed = served.fleet.clone().get_fleet(v1::GetFleetRequest {}).await.unwrap().into_inner().tenants;
    let other = v1::Tenant { name: "other".to_owned(), weight: 1, queued: 1, ..Default::default() };
    let site = v1::Tenant { name: "site".to_owned(), weight: 4, declared: true, ..Default::default() };
    assert_eq!(listed, [other, site]);
    assert_eq!(served.apply(FLEET).await.unwrap(), ["tenant site removed"]);
    served.end().await;
}

#[tokio::test]
async fn a_wrong_fleet_file_is_refused_with_every_mistake_and_its_line() {
    let served = Served::start_empty().await;
    let status = served.apply("[kinds.a]\nlease = \"1s\"\nneeds = { x = 1 }\n[cron.b]\n").await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
    let bad = status.get_details_bad_request().unwrap().field_violations;
    let told: Vec<_> = bad.iter().map(|violation| violation.description.as_str()).collect();
    assert_eq!(
        told,
        [
            "line 2: kinds.a.lease: must be at least 10s",
            "line 3: kinds.a.needs.x: names a slot that is not declared; declare it under [slots]",
            "line 4: cron.b.kind: is required",
            "line 4: cron.b.when: is required",
        ]
    );
    for bad in ["", &"#".repeat(1024 * 1024 + 1)] {
        assert_eq!(fields(served.apply(bad).await), ["fleet"]);
    }
    served.end().await;
}

#[tokio::test]
async fn a_kind_with_live_jobs_cannot_be_taken_away() {
    let served = Served::start().await;
    served.job(spec("plain")).await;
    let status = served.apply("# nothing\n").await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::FailedPrecondition, "FLEET_CONFLICT"));
    let list = status.get_details_precondition_failure().unwrap().violations;
    assert!(list.iter().any(|violation| violation.description.contains("plain")), "{list:?}");
    served.end().await;
}

#[tokio::test]
async fn a_paused_kind_holds_or_rejects() {
    let served = Served::start().await;
    let mut fleet = served.fleet.clone();
    let mut pause = async |policy: i32| {
        let request = v1::PauseKindRequest { kind: "plain".to_owned(), policy };
        fleet.pause_kind(request).await
    };
    let held = pause(0).await.unwrap().into_inner();
    let kind = held.kind.unwrap();
    assert_eq!((held.changed, kind.paused, kind.pause_policy()), (true, true, PausePolicy::Hold));
    assert!(!pause(PausePolicy::Hold.into()).await.unwrap().into_inner().changed);
    served.job(spec("plain")).await;
    assert!(pause(PausePolicy::Reject.into()).await.unwrap().into_inner().changed);
    assert_eq!(no(served.enqueue(spec("plain")).await), (Code::FailedPrecondition, "KIND_PAUSED".to_owned()));
    assert_eq!(fields(pause(9).await), ["policy"]);
    let mut fleet = served.fleet.clone();
    let resume = v1::ResumeKindRequest { kind: "plain".to_owned() };
    assert!(fleet.resume_kind(resume.clone()).await.unwrap().into_inner().changed);
    assert!(!fleet.resume_kind(resume).await.unwrap().into_inner().changed);
    let unknown = v1::ResumeKindRequest { kind: "plian".to_owned() };
    assert_eq!(no(fleet.resume_kind(unknown).await), (Code::NotFound, "KIND_NOT_FOUND".to_owned()));
    served.end().await;
}

#[tokio::test]
async fn slots_are_set_paused_and_resumed() {
    let served = Served::start().await;
    let mut fleet = served.fleet.clone();
    let set = |slot: &str, capacity| v1::SetCapacityRequest { slot: slot.to_owned(), capacity };
    let done = fleet.set_capacity(set("api", Some(0))).await.unwrap().into_inner();
    assert_eq!((done.changed, done.slot.unwrap().capacity), (true, 0));
    assert!(!fleet.set_capacity(set("api", Some(0))).await.unwrap().into_inner().changed);
    assert_eq!(fields(fleet.set_capacity(set("api", None)).await), ["capacity"]);
    assert_eq!(fields(fleet.set_capacity(set("A", Some(1_000_001))).await), ["slot", "capacity"]);
    let refused = fleet.set_capacity(set("browser", Some(1))).await;
    assert_eq!(no(refused), (Code::FailedPrecondition, "NOT_A_FLEET_SLOT".to_owned()));
    assert_eq!(
        no(fleet.set_capacity(set("ap", Some(1))).await),
        (Code::NotFound, "SLOT_NOT_FOUND".to_owned())
    );

    let pause = |seconds| v1::PauseSlotRequest {
        slot: "api".to_owned(),
        duration: Some(prost_types::Duration { seconds, nanos: 0 }),
    };
    let paused = fleet.pause_slot(pause(60)).await.unwrap().into_inner().slot.unwrap();
    assert!(paused.paused && paused.paused_until.is_some());
    assert_eq!(fields(fleet.pause_slot(pause(0)).await), ["duration"]);
    assert_eq!(fields(fleet.pause_slot(pause(31 * 86_400)).await), ["duration"]);
    let resumed =
        fleet.resume_slot(v1::ResumeSlotRequest { slot: "api".to_owned() }).await.unwrap().into_inner();
    assert!(resumed.changed && !resumed.slot.unwrap().paused);
    served.end().await;
}

#[tokio::test]
async fn nodes_are_shown_cordoned_drained_and_forgotten() {
    let served = Served::start().await;
    let node = Node::hello(&served.channel, "n1", &[("browser", 2)], &["web", "unheard-of"]).await;
    let mut fleet = served.fleet.clone();
    let named = || "n1".to_owned();
    let shown =
        fleet.get_node(v1::GetNodeRequest { node: named() }).await.unwrap().into_inner().node.unwrap();
    assert_eq!(
        (shown.state(), shown.agent_version.as_str(), shown.incarnation),
        (NodeState::Live, "scripted", 1)
    );
    assert_eq!((shown.slots[0].slot.as_str(), shown.slots[0].capacity), ("browser", 2));
    assert!(!shown.warnings.is_empty() && shown.silent_for.is_some());
    let slots = fleet.list_slots(v1::ListSlotsRequest {}).await.unwrap().into_inner().slots;
    assert_eq!(slots.iter().find(|slot| slot.name == "browser").unwrap().capacity, 2);

    let cordoned = fleet.cordon_node(v1::CordonNodeRequest { node: named() }).await.unwrap().into_inner();
    assert!(cordoned.changed && cordoned.node.unwrap().cordoned);
    let drain = |seconds| v1::DrainNodeRequest {
        node: named(),
        deadline: Some(prost_types::Duration { seconds, nanos: 0 }),
    };
    assert_eq!(fields(fleet.drain_node(drain(86_401)).await), ["deadline"]);
    let drained = fleet.drain_node(drain(1)).await.unwrap().into_inner();
    assert!(drained.changed && drained.node.unwrap().draining);
    let uncordoned =
        fleet.uncordon_node(v1::UncordonNodeRequest { node: named() }).await.unwrap().into_inner();
    let back = uncordoned.node.unwrap();
    assert!(uncordoned.changed && !back.cordoned && !back.draining);

    let forget = |validate_only| v1::ForgetNodeRequest { node: named(), lost: false, validate_only };
    assert_eq!(
        no(fleet.forget_node(forget(false)).await),
        (Code::FailedPrecondition, "NODE_CONNECTED".to_owned())
    );
    drop(node);
    let gone = async {
        loop {
            let nodes = fleet.list_nodes(v1::ListNodesRequest::default()).await.unwrap().into_inner().nodes;
            if nodes[0].state() == NodeState::Away {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.expect("the end of its session is seen");
    fleet.forget_node(forget(true)).await.unwrap();
    let forgotten = fleet.forget_node(forget(false)).await.unwrap().into_inner();
    assert_eq!((forgotten.node.unwrap().name, forgotten.ended_leases), (named(), 0));
    let unknown = fleet.get_node(v1::GetNodeRequest { node: named() }).await;
    assert_eq!(no(unknown), (Code::NotFound, "NODE_NOT_FOUND".to_owned()));
    served.end().await;
}

#[tokio::test]
async fn an_idle_server_without_fleet_and_nodes_has_figures() {
    let served = Served::start_empty().await;
    let text = http_get(&served, "/metrics").await;
    for line in
        ["tenure_live_jobs 0", "tenure_nodes{state=\"live\"} 0", "tenure_sessions 0", "tenure_leader 1"]
    {
        assert!(text.lines().any(|have| have == line), "{line} in:\n{text}");
    }
    let health = served.health.clone().get_queue_health(v1::GetQueueHealthRequest::default()).await.unwrap();
    assert_eq!(health.into_inner(), v1::GetQueueHealthResponse::default());
    served.end().await;
}

#[tokio::test]
async fn a_kind_has_figures_as_soon_as_it_is_declared() {
    let served = Served::start_empty().await;
    served.apply("[kinds.first]\n").await.unwrap();
    for kind in ["second", "third", "fourth"] {
        served.apply(&format!("[kinds.first]\n[kinds.{kind}]\n")).await.unwrap();
        let request = v1::GetQueueHealthRequest { kind: kind.to_owned() };
        let health = served.health.clone().get_queue_health(request).await.unwrap().into_inner();
        assert_eq!(health.kinds[0].kind, kind);
    }
    served.end().await;
}

#[tokio::test]
async fn a_node_tells_from_which_kinds_it_backs_off_until_an_operator_vouches_for_it() {
    let served = Served::start().await;
    let mut node = Node::hello(&served.channel, "n1", &[], &["capped"]).await;
    for _ in 0..3 {
        served.job(spec("capped")).await;
        let grant = node.granted().await;
        node.start(&grant).await;
        node.fail(&grant, "it broke").await;
    }
    let mut fleet = served.fleet.clone();
    let named = || "n1".to_owned();
    let backs_off = async {
        loop {
            let answer = fleet.get_node(v1::GetNodeRequest { node: named() }).await.unwrap().into_inner();
            let backoffs = answer.node.unwrap().backoffs;
            if !backoffs.is_empty() {
                return backoffs;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let backoffs = tokio::time::timeout(SOON, backs_off).await.expect("it backs off");
    assert_eq!((backoffs.len(), backoffs[0].kind.as_str(), backoffs[0].failed), (1, "capped", 3));
    assert!(backoffs[0].until.is_some());
    let uncordoned = fleet.uncordon_node(v1::UncordonNodeRequest { node: named() }).await.unwrap();
    assert_eq!(uncordoned.into_inner().node.unwrap().backoffs, []);
    served.end().await;
}

#[tokio::test]
async fn health_has_the_figures_of_every_kind() {
    let served = Served::start().await;
    let mut node = Node::hello(&served.channel, "n1", &[("browser", 1)], &["web", "capped"]).await;
    for _ in 0..3 {
        served.job(spec("web")).await;
    }
    let web = node.granted().await;
    node.start(&web).await;
    served.job(spec("capped")).await;
    let poison = node.granted().await;
    node.start(&poison).await;
    node.fail(&poison, "it broke").await;

    let mut health = served.health.clone();
    let look = async {
        loop {
            let response =
                health.get_queue_health(v1::GetQueueHealthRequest::default()).await.unwrap().into_inner();
            let figures = |kind: &str| response.kinds.iter().find(|health| health.kind == kind).cloned();
            if let (Some(web), Some(capped)) = (figures("web"), figures("capped"))
                && (web.depth, web.running, capped.dead_today, capped.dead) == (2, 1, 1, 1)
            {
                return (response.clone(), web, capped);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let (all, web, capped) = tokio::time::timeout(SOON, look).await.expect("the figures in time");
    assert_eq!((web.nodes_able, all.nodes_live, all.nodes_silent), (1, 1, 0));
    assert!(!web.head_reason.is_empty() && web.last_grant_ago.is_some());
    assert_eq!((capped.dead_by_day[0].count, capped.depth), (1, 0));

    let one = health.get_queue_health(v1::GetQueueHealthRequest { kind: "web".to_owned() }).await.unwrap();
    assert_eq!(one.into_inner().kinds.len(), 1);
    let unknown = health.get_queue_health(v1::GetQueueHealthRequest { kind: "weeb".to_owned() }).await;
    let status = unknown.unwrap_err();
    assert_eq!(status.get_details_error_info().unwrap().metadata["nearest"], "web");

    let text = http_get(&served, "/metrics").await;
    for line in [
        "tenure_jobs{kind=\"web\",state=\"queued\"} 2",
        "tenure_jobs{kind=\"web\",state=\"running\"} 1",
        "tenure_dead_today_jobs{kind=\"capped\"} 1",
        "tenure_slot_used{slot=\"browser\"} 1",
        "tenure_nodes{state=\"live\"} 1",
        "tenure_enqueues_total{kind=\"web\"} 3",
        "tenure_grants_total{kind=\"capped\"} 1",
        "tenure_attempts_total{outcome=\"failed_retryable\"} 1",
        "tenure_final_jobs_total{state=\"dead\"} 1",
        "tenure_refusals_total{reason=\"KIND_NOT_FOUND\"} 1",
        "tenure_sessions 1",
        "tenure_leader 1",
        "tenure_reloads_total 0",
    ] {
        assert!(text.lines().any(|have| have == line), "{line} in:\n{text}");
    }
    assert!(text.contains("# TYPE tenure_commit_seconds histogram"));
    served.end().await;
}

#[tokio::test]
async fn the_process_says_that_it_lives_and_whether_it_is_ready() {
    let served = Served::start_empty().await;
    assert!(http_get(&served, "/livez").await.ends_with("ok\n"));
    assert!(http_get(&served, "/metrics").await.starts_with("HTTP/1.1 200"));
    assert!(http_get(&served, "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(http_get(&served, "/else").await.starts_with("HTTP/1.1 404"));
    served.store.set_away(true);
    assert!(http_get(&served, "/readyz").await.starts_with("HTTP/1.1 503"));
    assert!(http_get(&served, "/livez").await.starts_with("HTTP/1.1 200"));
    served.store.set_away(false);
    served.end().await;
}

/// The whole answer to a GET.
pub(crate) async fn http_get(served: &Served, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(served.addresses().http).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the request goes out");
    let mut answer = String::new();
    tokio::time::timeout(SOON, stream.read_to_string(&mut answer))
        .await
        .expect("in time")
        .expect("an answer");
    answer
}

#[tokio::test]
async fn a_kind_with_a_limit_has_a_slot_that_operators_change_and_nobody_else_can_name() {
    let served = Served::start_empty().await;
    let limited = "[kinds.few]\nmax_running = 2\n";
    assert_eq!(served.apply(limited).await.unwrap(), ["slot kind:few declared: 2", "kind few declared"]);
    let mut fleet = served.fleet.clone();
    let in_force = fleet.get_fleet(v1::GetFleetRequest {}).await.unwrap().into_inner();
    assert_eq!(in_force.kinds[0].max_running, Some(2));
    let set = v1::SetCapacityRequest { slot: "kind:few".into(), capacity: Some(5) };
    let slot = fleet.set_capacity(set).await.unwrap().into_inner().slot.unwrap();
    assert_eq!((slot.name.as_str(), slot.capacity), ("kind:few", 5));
    let unknown = v1::PauseSlotRequest { slot: "kind:fev".into(), duration: None };
    assert_eq!(reason(&fleet.pause_slot(unknown).await.unwrap_err()), "SLOT_NOT_FOUND");
    assert_eq!(fields(served.apply("[slots]\n\"kind:few\" = 1\n").await), ["fleet"]);
    let needs = v1::Needs { slots: vec![v1::SlotAmount { slot: "kind:few".into(), amount: 1 }] };
    let greedy = v1::JobSpec { kind: "few".into(), needs: Some(needs), ..v1::JobSpec::default() };
    assert_eq!(fields(served.enqueue(greedy).await), ["job.needs.slots[0].slot"]);
    assert_eq!(served.apply(limited).await.unwrap(), ["slot kind:few: 5 -> 2"]);
    assert_eq!(
        served.apply("[kinds.few]\n").await.unwrap(),
        ["kind few: max_running", "slot kind:few removed"]
    );
    served.end().await;
}

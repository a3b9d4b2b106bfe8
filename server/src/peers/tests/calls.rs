//! Calls of all kinds to a server that follows.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::{sync::mpsc, task::JoinSet};

use super::*;
use crate::{
    listener,
    peers::{MOST_CALLS, STREAMS},
    rpc::gate,
};

const WAIT: &str = "/tenure.v1.JobService/WaitJob";
const CHECK: &str = "/tenure.v1.AdminService/CheckInvariants";
pub(super) const UPLOAD: &str = "/tenure.node.v1.NodeService/UploadResult";
pub(super) const KINDS: &str = "/tenure.v1.FleetService/ListKinds";

pub(super) const PLAIN: Certificates = Certificates(None);

/// A leader with a fleet, and a server that follows it.
async fn both(store: &Memory) -> (Tested, Tested) {
    let one = Tested::leader(store, &PLAIN, Producers::new()).await;
    let two = Tested::follower(store.reader(), &PLAIN, Some(one.as_leader())).await;
    apply(&channel(two.grpc(), None)).await;
    (one, two)
}

#[tokio::test]
async fn every_method_answers_through_a_follower_as_it_does_at_the_leader() {
    let store = Memory::new();
    let (one, two) = both(&store).await;
    let (there, here) = (channel(one.grpc(), None), channel(two.grpc(), None));
    let id = Uuid::now_v7();
    assert_eq!(call(&here, ENQUEUE, &enqueue("page", &id), &[]).await.code, Code::Ok);
    let mut methods = 0;
    for (path, method) in gate::paths(&[tenure_proto::FILE_DESCRIPTOR_SET]).unwrap() {
        // Those that are not handed on, and what each says of itself.
        if ["/Session", "/PushLog", "/GetServerInfo"].iter().any(|end| path.ends_with(end)) {
            continue;
        }
        methods += 1;
        // Nothing in it, what is known, and what is not: field 1 of all that name something.
        for named in ["", "page", "shell", "a job", &Uuid::now_v7().to_string()] {
            // A watch of a job that lives goes on.
            if method.answers_on && named == "a job" {
                continue;
            }
            let mut answers = Vec::new();
            for channel in [&there, &here] {
                // Each has one of its own: a verb changes it.
                let own = Uuid::now_v7();
                call(&there, ENQUEUE, &enqueue("page", &own), &[]).await;
                let job_id = if named == "a job" { own.to_string() } else { named.to_owned() };
                let deadline = [("grpc-timeout", "200m")];
                answers.push(call(channel, &path, &v1::GetJobRequest { job_id }, &deadline).await);
            }
            let [direct, through] = &answers[..] else { unreachable!("two calls") };
            assert_eq!((direct.code, direct.reason()), (through.code, through.reason()), "{path} {named:?}");
            assert_eq!(direct.data.is_empty(), through.data.is_empty(), "{path} {named:?}");
            if named != "a job" {
                assert_eq!(
                    (&direct.message, &direct.details),
                    (&through.message, &through.details),
                    "{path}"
                );
            }
        }
    }
    assert!(methods >= 25, "{methods} methods");
    let request = get(&id);
    let job =
        async |channel| call(channel, GET, &request, &[]).await.message::<v1::GetJobResponse>().job.unwrap();
    let (mut direct, mut through) = (job(&there).await, job(&here).await);
    // It waits, and for how long differs.
    (direct.deferral, through.deferral) = (None, None);
    assert_eq!(direct, through);
}

#[tokio::test]
async fn what_one_server_acknowledged_every_server_shows_and_a_retry_is_the_same_job() {
    let store = Memory::new();
    let (one, two) = both(&store).await;
    let (there, here) = (channel(one.grpc(), None), channel(two.grpc(), None));
    for _ in 0..20 {
        let id = Uuid::now_v7();
        let first: v1::EnqueueResponse = call(&here, ENQUEUE, &enqueue("page", &id), &[]).await.message();
        assert!(!first.deduplicated);
        let seen = call(&here, GET, &get(&id), &[]).await;
        assert!(!seen.rows, "the leader answers while there is one");
        let again: v1::EnqueueResponse = call(&there, ENQUEUE, &enqueue("page", &id), &[]).await.message();
        assert!(again.deduplicated);
    }
    drop(one);
}

#[tokio::test]
async fn without_a_leader_rows_are_read_and_everything_else_says_who_leads() {
    let store = Memory::new();
    let (one, two) = both(&store).await;
    let here = channel(two.grpc(), None);
    let id = Uuid::now_v7();
    assert_eq!(call(&here, ENQUEUE, &enqueue("page", &id), &[]).await.code, Code::Ok);
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let cases = [
        (None, "", ""),
        // Its port is closed: it was killed, and nobody has taken over.
        (Some(leader(nowhere, Some(nowhere))), "127.0.0.1:1", "unreachable"),
        // It hands nothing on.
        (Some(leader(nowhere, None)), "127.0.0.1:1", ""),
        // What stands in the database is older than what it is now.
        (Some(two.as_leader()), &*two.grpc().to_string(), ""),
    ];
    for (leader, told, why) in cases {
        two.follow(leader.clone());
        let read = call(&here, GET, &get(&id), &[]).await;
        assert!(read.rows, "{leader:?}: {read:?}");
        let job = read.message::<v1::GetJobResponse>().job.unwrap();
        assert_eq!((job.id.as_str(), job.state()), (&*id.to_string(), v1::JobState::Queued));
        let list = call(&here, LIST, &v1::ListJobsRequest::default(), &[]).await;
        assert!(list.rows && list.message::<v1::ListJobsResponse>().jobs.len() == 1, "{list:?}");
        let unknown = call(&here, GET, &get(&Uuid::now_v7()), &[]).await;
        assert_eq!(unknown.reason(), "JOB_NOT_FOUND");
        for path in [ENQUEUE, "/tenure.v1.JobService/ExplainJob", "/tenure.v1.FleetService/ListNodes"] {
            let no = call(&here, path, &enqueue("page", &id), &[]).await;
            assert_eq!(
                (no.code, no.reason().as_str()),
                (Code::Unavailable, "NOT_LEADER"),
                "{path} {leader:?}"
            );
            let status = Status::with_details(no.code, no.message.clone(), no.details.clone().into());
            assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
            let info = status.get_details_error_info().unwrap();
            assert_eq!(
                info.metadata.get("leader").map(String::as_str).unwrap_or_default(),
                told,
                "{leader:?}"
            );
            assert_eq!(info.metadata.get("why").map(String::as_str).unwrap_or_default(), why, "{no:?}");
            assert_eq!(
                no.message.contains("but it cannot be connected to from here"),
                !why.is_empty(),
                "{no:?}"
            );
        }
        // What is stored is looked at all the same.
        let checked = call(&here, CHECK, &v1::CheckInvariantsRequest::default(), &[]).await;
        assert!(checked.rows, "{leader:?}: {checked:?}");
        let checked: v1::CheckInvariantsResponse = checked.message();
        assert!(
            !checked.checked.is_empty() && checked.findings.iter().any(|found| found.contains("no leader")),
            "{checked:?}"
        );
    }
    drop(one);
}

#[tokio::test]
async fn a_call_is_handed_on_once_whoever_is_named_as_the_leader() {
    let store = Memory::new();
    let one = Tested::follower(store.reader(), &PLAIN, None).await;
    let two = Tested::follower(store.reader(), &PLAIN, Some(one.as_leader())).await;
    for public in [false, true] {
        // Each names the other, by its listener for servers as it should be, or by the one for callers.
        let of =
            |server: &Tested| leader(server.grpc(), Some(if public { server.grpc() } else { server.peer() }));
        one.follow(Some(of(&two)));
        two.follow(Some(of(&one)));
        for server in [&one, &two] {
            let (here, request) = (channel(server.grpc(), None), enqueue("page", &Uuid::now_v7()));
            let answered = call(&here, ENQUEUE, &request, &[]);
            let no = tokio::time::timeout(Duration::from_secs(5), answered).await.expect("it goes nowhere");
            assert_eq!((no.code, no.reason().as_str()), (Code::Unavailable, "NOT_LEADER"), "{public}");
        }
    }
}

/// A leader that keeps what it is sent, never answers GetJob, WaitJob and UploadResult (of which it reads nothing), answers ListJobs for ever, and the rest with a no.
pub(super) struct Fake {
    pub(super) address: SocketAddr,
    pub(super) sent: mpsc::UnboundedReceiver<HeaderMap>,
    given_up: mpsc::UnboundedReceiver<()>,
    /// Pieces of endless answers that were taken off its hands.
    pub(super) pieces: Arc<AtomicU64>,
    _task: JoinSet<()>,
}

impl Fake {
    pub(super) async fn start() -> Self {
        #[expect(clippy::disallowed_methods, reason = "a test sends it a handful")]
        let ((sender, sent), (dropped, given_up)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let pieces = Arc::new(AtomicU64::new(0));
        let taken = Arc::clone(&pieces);
        let answer = move |request: Request<axum::body::Body>| {
            let (sender, dropped, taken) = (sender.clone(), dropped.clone(), Arc::clone(&taken));
            async move {
                sender.send(request.headers().clone()).unwrap();
                if request.uri().path() == LIST {
                    let chunk = Ok::<_, Status>(Bytes::from(vec![0; 64 * 1024]));
                    let endless = futures_util::stream::repeat_with(move || {
                        taken.fetch_add(1, Ordering::Relaxed);
                        chunk.clone()
                    });
                    let mut response = http::Response::new(Body::new(axum::body::Body::from_stream(endless)));
                    response.headers_mut().insert(CONTENT_TYPE, "application/grpc".parse().unwrap());
                    return response;
                }
                if request.uri().path() == KINDS {
                    // Bytes, which the windows of HTTP/2 bound; a no has none.
                    let mut response = http::Response::new(Body::new(axum::body::Body::from(vec![0; 5])));
                    response.headers_mut().insert(CONTENT_TYPE, "application/grpc".parse().unwrap());
                    response.headers_mut().insert("grpc-status", "0".parse().unwrap());
                    return response;
                }
                if [GET, WAIT, UPLOAD].contains(&request.uri().path()) {
                    // Until the caller gives up. What it sends is not read.
                    let _unread = request;
                    let _told = Told(dropped);
                    std::future::pending::<()>().await;
                }
                let mut status =
                    Status::with_details(Code::Aborted, "a\u{20ac}", Bytes::from_static(b"\x01\xff"));
                status.metadata_mut().insert("of-the-leader", "42".parse().unwrap());
                status.into_http::<Body>()
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = tonic::service::Routes::from(axum::Router::new().fallback(answer));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
            let server = listener::limited(STREAMS).add_routes(routes);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        Self { address, sent, given_up, pieces, _task: task }
    }
}

struct Told(mpsc::UnboundedSender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.send(()).ok();
    }
}

#[tokio::test]
async fn headers_arrive_as_they_were_sent_and_answers_come_back_so() {
    let mut fake = Fake::start().await;
    let named = leader(fake.address, Some(fake.address));
    let two = Tested::follower(Memory::new().reader(), &PLAIN, Some(named)).await;
    let here = channel(two.grpc(), None);
    let headers = [("grpc-timeout", "7S"), ("traceparent", "00-1-2-01"), ("x-bin", "AAE")];
    let no = call(&here, ENQUEUE, &enqueue("page", &Uuid::now_v7()), &headers).await;
    assert_eq!(
        (no.code, no.message.as_str(), &no.details[..]),
        (Code::Aborted, "a\u{20ac}", &b"\x01\xff"[..])
    );
    let sent = fake.sent.recv().await.unwrap();
    for (name, value) in [&headers[..], &[("te", "trailers"), ("content-type", "application/grpc")]].concat()
    {
        assert_eq!(sent.get(name).unwrap(), value, "{name}");
    }
    let callers: Vec<_> = sent.get_all("tenure-caller").iter().collect();
    assert!(callers.len() == 1 && callers[0].to_str().unwrap().ends_with(" anybody"), "{callers:?}");
}

#[tokio::test]
async fn a_caller_that_gives_up_is_given_up_at_the_leader() {
    let mut fake = Fake::start().await;
    let named = leader(fake.address, Some(fake.address));
    let two = Tested::follower(Memory::new().reader(), &PLAIN, Some(named)).await;
    let here = channel(two.grpc(), None);
    let request = get(&Uuid::now_v7());
    let late = call(&here, GET, &request, &[("grpc-timeout", "300m")]).await;
    assert_eq!(late.code, Code::DeadlineExceeded);
    let told = tokio::time::timeout(DEADLINE, fake.given_up.recv());
    assert_eq!(told.await.expect("the leader hears of it"), Some(()));
}

#[tokio::test]
async fn a_watch_goes_through_and_ends_with_a_status_when_the_leader_does() {
    let store = Memory::new();
    let (one, two) = both(&store).await;
    let here = channel(two.grpc(), None);
    let id = Uuid::now_v7();
    assert_eq!(call(&here, ENQUEUE, &enqueue("page", &id), &[]).await.code, Code::Ok);
    let mut client = v1::job_service_client::JobServiceClient::new(here.clone());
    let watch = v1::WatchJobRequest { job_id: id.to_string() };
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = client.watch_job(watch.clone()).await.unwrap().into_inner();
        assert_eq!(stream.message().await.unwrap().unwrap().job.unwrap().id, id.to_string());
        open.push(stream);
    }
    let (mut first, mut second) = (open.remove(0), open.remove(0));
    let cancel = v1::CancelJobRequest { job_id: id.to_string(), ..v1::CancelJobRequest::default() };
    client.cancel_job(cancel).await.unwrap();
    let last = first.message().await.unwrap().unwrap().job.unwrap();
    assert_eq!(last.state(), v1::JobState::Cancelled);
    assert!(first.message().await.unwrap().is_none(), "the end of the leader's answer is the end");

    // Another job, and the leader is not heard any more.
    assert_eq!(second.message().await.unwrap().unwrap().job.unwrap().state(), v1::JobState::Cancelled);
    let other = Uuid::now_v7();
    assert_eq!(call(&here, ENQUEUE, &enqueue("page", &other), &[]).await.code, Code::Ok);
    let watch = v1::WatchJobRequest { job_id: other.to_string() };
    let mut stream = client.watch_job(watch).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    two.follow(None);
    let status = tokio::time::timeout(DEADLINE, stream.message()).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.get_details_error_info().unwrap().reason, "NOT_LEADER");
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    drop(one);
}

#[tokio::test]
async fn a_session_is_sent_to_the_leader_and_never_handed_on() {
    let store = Memory::new();
    let (one, two) = both(&store).await;
    let path = "/tenure.node.v1.NodeService/Session";
    let no = call(&channel(two.grpc(), None), path, &get(&Uuid::nil()), &[]).await;
    assert_eq!((no.code, no.reason().as_str()), (Code::Unavailable, "NOT_LEADER"));
    assert!(no.message.contains(&one.grpc().to_string()), "{}", no.message);
    let peer = [("tenure-caller", "127.0.0.1:9 anybody")];
    let no = call(&channel(one.peer(), None), path, &get(&Uuid::nil()), &peer).await;
    assert_eq!(no.reason(), "NOT_ALLOWED", "a listener for servers has no sessions");
}

#[tokio::test]
async fn health_says_what_a_follower_serves() {
    let store = Memory::new();
    let (one, two) = both(&store).await;
    let serving = async |address: SocketAddr, service: &str| {
        let mut client = tonic_health::pb::health_client::HealthClient::new(channel(address, None));
        let request = tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
        client.check(request).await.unwrap().into_inner().status()
            == tonic_health::ServingStatus::Serving.into()
    };
    let until = async |address, service, wanted| {
        let level = async {
            while serving(address, service).await != wanted {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(DEADLINE, level).await.unwrap_or_else(|_| panic!("{service:?} is not {wanted}"));
    };
    let (calls, sessions) = ("tenure.v1.JobService", "tenure.node.v1.NodeService");
    until(one.grpc(), calls, true).await;
    until(one.grpc(), sessions, true).await;
    until(two.grpc(), calls, true).await;
    assert!(!serving(two.grpc(), sessions).await, "agents belong to the leader");
    two.follow(None);
    until(two.grpc(), calls, false).await;
}

#[tokio::test]
async fn a_leader_that_is_gone_in_the_midst_of_a_call_is_told_and_the_same_call_finds_the_next() {
    let store = Memory::new();
    let mut fake = Fake::start().await;
    let named = leader(fake.address, Some(fake.address));
    let two = Tested::follower(store.reader(), &PLAIN, Some(named)).await;
    let here = channel(two.grpc(), None);
    let request = get(&Uuid::now_v7());
    // What is under way at the old one is ended as soon as another leads, though its connection stays.
    let under_way = call(&here, WAIT, &request, &[]);
    let change = async {
        fake.sent.recv().await.unwrap();
        two.follow(None);
    };
    let (no, ()) = tokio::join!(under_way, change);
    assert_eq!((no.code, no.reason().as_str()), (Code::Unavailable, "NOT_LEADER"));
    let status = Status::with_details(no.code, no.message.clone(), no.details.clone().into());
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());

    let one = Tested::leader(&store, &PLAIN, Producers::new()).await;
    two.follow(Some(one.as_leader()));
    let again = call(&here, WAIT, &request, &[]).await;
    assert_eq!(again.reason(), "JOB_NOT_FOUND", "the new leader answers");
}

#[tokio::test]
async fn calls_on_their_way_are_bounded_and_the_next_is_told_to_come_back() {
    let fake = Fake::start().await;
    let named = leader(fake.address, Some(fake.address));
    let two = Tested::follower(Memory::new().reader(), &PLAIN, Some(named)).await;
    let mut open = JoinSet::new();
    let request = get(&Uuid::now_v7());
    for _ in 0..MOST_CALLS.div_ceil(50) {
        let channel = channel(two.grpc(), None);
        for _ in 0..50 {
            let (channel, request) = (channel.clone(), request.clone());
            // Never answered, but for those that are too many.
            open.spawn(async move { call(&channel, GET, &request, &[]).await });
        }
    }
    let beyond = MOST_CALLS.div_ceil(50) * 50 - MOST_CALLS;
    for _ in 0..beyond {
        let no = open.join_next().await.unwrap().unwrap();
        assert_eq!((no.code, no.reason().as_str()), (Code::Unavailable, "SERVER_BUSY"));
    }
    let here = channel(two.grpc(), None);
    assert_eq!(call(&here, GET, &request, &[]).await.reason(), "SERVER_BUSY");
    let other = call(&here, WAIT, &request, &[("grpc-timeout", "300m")]).await;
    assert_eq!(other.code, Code::DeadlineExceeded, "what lasts has room of its own");
    open.shutdown().await;
    let freed = async {
        while call(&here, GET, &request, &[("grpc-timeout", "300m")]).await.code != Code::DeadlineExceeded {}
    };
    tokio::time::timeout(DEADLINE, freed).await.expect("the room of calls that ended is free");
}

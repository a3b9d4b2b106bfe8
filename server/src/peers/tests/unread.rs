//! What one end does not read, and everybody else, who shares the connection to the leader.

use std::sync::atomic::Ordering;

use tokio::task::JoinSet;

use super::{
    calls::{Fake, KINDS, PLAIN, UPLOAD},
    *,
};

#[tokio::test]
async fn clients_that_do_not_read_stop_nobody_else() {
    let fake = Fake::start().await;
    let named = leader(fake.address, Some(fake.address));
    let two = Tested::follower(Memory::new().reader(), &PLAIN, Some(named)).await;
    let mut unread = Vec::new();
    for _ in 0..100 {
        let endpoint = Endpoint::from_shared(format!("http://{}", two.grpc())).unwrap();
        let mut channel = endpoint.initial_stream_window_size(65_535).connect_lazy();
        let request = Request::post(LIST).header(CONTENT_TYPE, "application/grpc").header("te", "trailers");
        let request = request.body(Body::new(axum::body::Body::from(vec![0; 5]))).unwrap();
        // Their answers are as long as they like; nobody reads them.
        unread.push((channel.ready().await.unwrap().call(request).await.unwrap(), channel));
    }
    // Until nothing moves any more.
    let mut before = u64::MAX;
    while before != fake.pieces.load(Ordering::Relaxed) {
        before = fake.pieces.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let here = channel(two.grpc(), None);
    for _ in 0..20 {
        let answered = call(&here, KINDS, &get(&Uuid::now_v7()), &[]).await;
        assert_eq!((answered.code, answered.data), (Code::Ok, vec![0; 5]), "the leader answers");
    }
    assert_eq!(unread.len(), 100);
}

#[tokio::test]
async fn uploads_that_the_leader_does_not_read_stop_nobody_else() {
    let mut fake = Fake::start().await;
    let named = leader(fake.address, Some(fake.address));
    let two = Tested::follower(Memory::new().reader(), &PLAIN, Some(named)).await;
    let mut sending = JoinSet::new();
    for _ in 0..20 {
        let mut channel = channel(two.grpc(), None);
        sending.spawn(async move {
            let endless = futures_util::stream::repeat(Ok::<_, Status>(Bytes::from(vec![0; 64 * 1024])));
            let body = Body::new(axum::body::Body::from_stream(endless));
            let request = Request::post(UPLOAD).header(CONTENT_TYPE, "application/grpc").body(body).unwrap();
            drop(channel.ready().await.unwrap().call(request).await);
        });
        fake.sent.recv().await.unwrap();
    }
    let here = channel(two.grpc(), None);
    for _ in 0..8 {
        let answered = call(&here, KINDS, &get(&Uuid::now_v7()), &[]).await;
        assert_eq!((answered.code, answered.data), (Code::Ok, vec![0; 5]), "the leader answers");
    }
    sending.shutdown().await;
}

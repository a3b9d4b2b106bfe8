//! Answers that go on: they end once their caller counts for nothing any more.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_tls::Role;
use tokio::time::timeout;
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::desk::{Desk, SOON, reason};

#[tokio::test]
async fn a_watch_of_whoever_is_denied_ends_with_the_reason_and_others_go_on() {
    let desk = Desk::new().await;
    let watch = async |name: &str| {
        let mut health = HealthClient::new(desk.channel(Role::Viewer, name).await);
        let request = HealthCheckRequest { service: String::new() };
        let mut answers = health.watch(request).await.expect("a stream").into_inner();
        timeout(SOON, answers.message()).await.expect("in time").expect("an answer").expect("the first");
        answers
    };
    let (mut denied, mut serial, mut other) = (watch("v1").await, watch("v2").await, watch("v3").await);
    let certificate =
        desk.files(Role::Viewer, "v4").own.expect("a certificate").load().expect("it is good").leaf;
    let mut fourth = watch("v4").await;
    let mut denying = desk.config.clone();
    denying.deny.names.extend(["viewer/v1".to_owned(), "viewer/v2".to_owned()]);
    // A serial number denies one certificate, and this is not the one that was shown.
    denying.deny.serials.insert(certificate.serial);
    desk.reload().apply(&denying).unwrap();
    for answers in [&mut denied, &mut serial] {
        let status: Status = timeout(SOON, answers.message()).await.expect("in time").unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::PermissionDenied, "NOT_ALLOWED"));
        assert!(status.message().contains("is denied by the server's configuration"), "{status:?}");
    }
    for answers in [&mut other, &mut fourth] {
        let waited = timeout(Duration::from_millis(200), answers.message()).await;
        assert!(waited.is_err(), "it goes on: {waited:?}");
    }
    drop((denied, serial, other, fourth));
    desk.end().await;
}

#[tokio::test]
async fn a_certificate_that_runs_out_ends_its_watch() {
    let desk = Desk::new().await;
    let files = desk.odd(|params| {
        params.subject_alt_names = vec![crate::desk::uri("spiffe://tenure/tenure/viewer/v")];
        params.not_before = at(-60);
        params.not_after = at(2);
    });
    let mut health = HealthClient::new(desk.channel_with(files).await);
    let request = HealthCheckRequest { service: String::new() };
    let mut answers = health.watch(request).await.expect("a stream").into_inner();
    answers.message().await.expect("an answer").expect("the first");
    let status = timeout(SOON, answers.message()).await.expect("in time").unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unauthenticated, "NO_IDENTITY"));
    assert!(status.message().contains("has expired"), "{status:?}");
    drop(answers);
    desk.end().await;
}

/// A moment that many seconds from now.
fn at<T: From<SystemTime>>(seconds: i64) -> T {
    let second = tenure_tls::clock::unix_seconds() + seconds;
    (UNIX_EPOCH + Duration::from_secs(second.unsigned_abs())).into()
}

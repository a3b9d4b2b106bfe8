//! Handshakes that fail, each with its cause in words, and those that never end.

use rcgen::date_time_ymd;
use tempfile::TempDir;
use tenure_proto::v1::{GetServerInfoRequest, admin_service_client::AdminServiceClient};
use tenure_tls::{Connector, Files, Role, issue};
use tokio::{io::AsyncReadExt as _, net::TcpSocket, time::timeout};

use crate::desk::{Desk, SOON, leaf, own, uri};

/// An authority that nobody knows, and a certificate of it.
fn stranger() -> (TempDir, Files) {
    let directory = tempfile::tempdir().expect("a directory");
    issue::init(directory.path(), "tenure").expect("an authority");
    let made = issue::issue(directory.path(), &leaf(Role::Admin, "root"), false).expect("a certificate");
    let files = Files { ca: directory.path().join("ca.pem"), own: Some(own(&made)) };
    (directory, files)
}

#[tokio::test]
async fn whoever_is_not_taken_is_told_why() {
    let desk = Desk::new().await;
    let (_directory, strange) = stranger();
    let good = desk.files(Role::Admin, "root");

    let error = desk.try_channel(Files { own: strange.own.clone(), ..good.clone() }).await.unwrap_err();
    assert!(error.contains("of another CA than the server's client_ca"), "{error}");
    let error = desk.try_channel(Files { ca: strange.ca, ..good.clone() }).await.unwrap_err();
    assert!(error.contains("another CA made it"), "{error}");
    let error = desk.try_channel(Files { own: None, ..good.clone() }).await.unwrap_err();
    assert!(error.contains("asks for a client certificate, and none was given"), "{error}");
    let expired = desk.odd(|params| {
        params.subject_alt_names = vec![uri("spiffe://tenure/tenure/admin/root")];
        params.not_after = date_time_ymd(2020, 1, 1);
        params.not_before = date_time_ymd(2019, 1, 1);
    });
    let error = desk.try_channel(expired).await.unwrap_err();
    assert!(error.contains("odd.pem has expired") && error.contains("days ago"), "{error}");
    let mut missing = good;
    if let Some(own) = &mut missing.own {
        own.key = desk.certs.path().join("no.pem");
    }
    let error = desk.try_channel(missing).await.unwrap_err();
    assert!(error.contains("cannot read") && error.contains("no.pem"), "{error}");
    desk.end().await;
}

#[tokio::test]
async fn a_certificate_of_a_node_is_taken_for_no_server() {
    let certs = tempfile::tempdir().unwrap();
    issue::init(certs.path(), "tenure").unwrap();
    let node = own(&issue::issue(certs.path(), &leaf(Role::Node, "n1"), false).unwrap());
    let error = tenure_tls::server::config(&certs.path().join("ca.pem"), &node).unwrap_err().to_string();
    assert!(error.contains("is that of node n1, and one of a server is needed"), "{error}");
}

#[tokio::test]
async fn handshakes_that_never_end_keep_nobody_out() {
    let desk = Desk::new().await;
    let mut before = AdminServiceClient::new(desk.channel(Role::Admin, "root").await);
    let mut silent = Vec::new();
    for _ in 0..300 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        silent.push(socket.connect(desk.address()).await.unwrap());
    }
    before.get_server_info(GetServerInfoRequest {}).await.expect("an open connection stays");
    let mut after = AdminServiceClient::new(desk.channel(Role::Admin, "root").await);
    after.get_server_info(GetServerInfoRequest {}).await.expect("a new one is let in");
    // All of them are cut off: those beyond the cap at once, the others when their time is over.
    for mut socket in silent {
        let read = timeout(SOON, socket.read(&mut [0; 1])).await.expect("in time");
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    drop((before, after));
    desk.end().await;
}

#[tokio::test]
async fn a_port_that_speaks_no_tls_is_told_apart() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_directory, files) = stranger();
    let connecting = async { Connector::new(files).unwrap().connect("127.0.0.1", address.port()).await };
    let answering = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        socket
    };
    let (connected, _socket) = tokio::join!(connecting, answering);
    let error = connected.unwrap_err().to_string();
    assert!(error.contains("does not speak TLS"), "{error}");
}

//! Certificates that are wrong: both ends name the cause, and the server's log the peer.

use rcgen::{ExtendedKeyUsagePurpose, SanType, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use tenure_tls::{Connector, Files, Role, issue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::home::{Home, SERVER, SOON, Served, TLS, at, until, uri};

const ADMIN: &str = "spiffe://tenure/tenure/admin/root";

/// A handshake by a client that checks nothing of its own.
async fn handshake(served: &Served, files: &Files) {
    let own = files.own.as_ref().expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.ca).expect("a certificate")).expect("an authority");
    let chain = vec![CertificateDer::from_pem_file(&own.cert).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(&own.key).expect("a key");
    let config = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .expect("a pair");
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let stream = TcpStream::connect(served.address()).await.expect("it listens");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    if let Ok(mut stream) = connector.connect(name, stream).await {
        let read = tokio::time::timeout(SOON, stream.read(&mut [0; 64])).await.expect("in time");
        assert!(read.is_err(), "the server says why by an alert");
    }
}

#[tokio::test]
async fn every_wrong_certificate_is_named_on_both_sides() {
    let home = Home::new();
    let served = home.serve(&format!("{SERVER}{TLS}")).await;
    let log = &served.process;
    let good = home.leaf(Role::Admin, "root");
    let list = &["job", "list"][..];
    let call = async |files: &Files, args: &[&str]| home.call(&served.grpc, files, args).await;

    issue::init(&home.path("strange"), "tenure").unwrap();
    let leaf = issue::Leaf { role: Role::Admin, name: "root".to_owned(), hosts: Vec::new(), days: 1 };
    let strange = issue::issue(&home.path("strange"), &leaf, false).unwrap();
    let own = tenure_tls::files::Own { cert: strange.cert, key: strange.key };
    let (code, words) = call(&Files { own: Some(own), ..good.clone() }, list).await;
    assert!(code == Some(77) && words.contains("of another CA than the server's client_ca"), "{words}");
    log.says(&["its certificate is of another CA than client_ca", "127.0.0.1:", "other_authority"]).await;

    let (code, words) = call(&Files { ca: home.path("strange/ca.pem"), ..good.clone() }, list).await;
    assert!(code == Some(77) && words.contains("another CA made it"), "{words}");
    log.says(&["it does not take this server's certificate", "127.0.0.1:", "refused_by_client"]).await;

    // The command line asks for both; another client may not.
    let without = Files { own: None, ..good.clone() };
    let (code, words) = call(&without, list).await;
    assert!(code == Some(2) && words.contains("name all three"), "{code:?} {words}");
    let (host, port) = served.address().split_once(':').unwrap();
    let connecting = Connector::new(without).unwrap();
    let error = connecting.connect(host, port.parse().unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("asks for a client certificate, and none was given"), "{error}");
    log.says(&["it showed no certificate", "127.0.0.1:", "no_certificate"]).await;

    let common_name = home.odd("cn", |_| {});
    let (code, words) = call(&common_name, list).await;
    assert!(code == Some(77) && words.contains("the common name counts for nothing"), "{words}");
    log.says(&["counts for nobody", "127.0.0.1:", "the common name counts for nothing"]).await;

    let two = home.odd("two", |params| {
        params.subject_alt_names = vec![uri(ADMIN), uri("spiffe://tenure/tenure/viewer/v")];
    });
    let (code, words) = call(&two, list).await;
    assert!(code == Some(77) && words.contains("has 2 URIs"), "{words}");
    log.says(&["a call was refused", "/tenure.v1.JobService/ListJobs", "127.0.0.1:", "NO_IDENTITY"]).await;

    // The command line looks at its own files; another client may not.
    let old = home.odd("old", |params| {
        params.subject_alt_names = vec![uri(ADMIN)];
        (params.not_before, params.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
    });
    let (code, words) = call(&old, list).await;
    assert!(code == Some(77) && words.contains("old.pem has expired"), "{code:?} {words}");
    handshake(&served, &old).await;
    log.says(&["its certificate has expired, or the clocks differ", "127.0.0.1:", "\"expired\""]).await;

    let young = home.odd("young", |params| {
        params.subject_alt_names = vec![uri(ADMIN)];
        (params.not_before, params.not_after) = (date_time_ymd(2090, 1, 1), date_time_ymd(2091, 1, 1));
    });
    let (code, words) = call(&young, list).await;
    assert!(code == Some(77) && words.contains("young.pem is not valid yet"), "{code:?} {words}");
    handshake(&served, &young).await;
    log.says(&["its certificate is not valid yet, or the clocks differ", "127.0.0.1:", "not_valid_yet"])
        .await;

    let purpose = home.odd("purpose", |params| {
        params.subject_alt_names = vec![uri(ADMIN)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let (code, words) = call(&purpose, list).await;
    assert!(code == Some(77) && words.contains("does not take the certificate"), "{words}");
    log.says(&["its certificate is not for clients", "127.0.0.1:", "other_purpose"]).await;

    let producer = home.leaf(Role::Producer, "web");
    let (code, words) = call(&producer, &["node", "drain", "n1"]).await;
    assert!(code == Some(77) && words.contains("producer web may not call"), "{words}");
    log.says(&["a call was refused: producer web may not call", "127.0.0.1:", "NOT_ALLOWED"]).await;
    served.process.end().await;
}

#[tokio::test]
async fn whoever_speaks_something_else_is_told_and_logged() {
    let home = Home::new();
    let served = home.serve(&format!("{SERVER}{TLS}")).await;
    let good = home.leaf(Role::Admin, "root");

    // No TLS: over HTTP/2, and over HTTP/1.1.
    let (code, words) = home.call(&format!("http://{}", served.address()), &good, &["job", "list"]).await;
    assert!(code != Some(0) && words.contains("this port speaks TLS"), "{code:?} {words}");
    served.process.says(&["it does not speak TLS", "127.0.0.1:", "not_tls"]).await;
    let answer = crate::home::get(served.address(), "/").await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("this port speaks TLS"), "{answer}");

    // TLS 1.1: a client's hello without the extension that names newer versions.
    let mut hello = vec![0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
    let mut old = TcpStream::connect(served.address()).await.unwrap();
    old.write_all(&hello).await.unwrap();
    let mut alert = Vec::new();
    tokio::time::timeout(SOON, old.read_to_end(&mut alert)).await.unwrap().unwrap();
    assert_eq!(alert.first(), Some(&0x15), "an alert: {alert:?}");
    served.process.says(&["TLS 1.2 or newer", "127.0.0.1:", "\"incompatible\""]).await;

    let counted = served.figure("tenure_failed_handshakes_total{cause=\"not_tls\"}").await;
    assert_eq!(counted, 2);
    served.process.end().await;

    // TLS to a port without it.
    let served = home.serve(SERVER).await;
    let (code, words) = home.call(&format!("https://{}", served.address()), &good, &["job", "list"]).await;
    assert!(code == Some(77) && words.contains("does not speak TLS: write http://"), "{words}");
    served.process.says(&["it speaks TLS, and there is none here", "127.0.0.1:", "tls_unexpected"]).await;
    served.process.end().await;
}

const NODE: &str = r#"
name = "n1"
data = "agent"
allow_root = true

[tls]
ca = "certs/agents-ca.pem"
cert = "certs/node-n1.pem"
key = "certs/node-n1-key.pem"
"#;

/// Runs an agent against a server whose certificate is wrong: it says why, once, and connects as soon as that is cured.
async fn an_agent_waits_for_a_cure(home: &Home, served: &Served, words: &str, cure: impl FnOnce()) {
    home.leaf(Role::Node, "n1");
    home.write("node.toml", NODE);
    let args = ["agent", "--config", "node.toml", "--server", &served.grpc];
    let agent = home.spawn("agent.log", home.command(&args).env("TENURE_LOG", "info"));
    agent.says(&[words]).await;
    let failed = "tenure_failed_handshakes_total{cause=\"refused_by_client\"}";
    let before = served.figure(failed).await;
    until("further tries", async || (served.figure(failed).await >= before + 3).then_some(())).await;
    let lines = agent.log().lines().filter(|line| line.contains(words)).count();
    assert_eq!(lines, 1, "{}", agent.log());
    cure();
    until("a session", async || (served.figure("tenure_sessions").await == 1).then_some(())).await;
    agent.end().await;
}

#[tokio::test]
async fn an_agent_says_that_the_servers_certificate_is_of_another_ca_and_goes_on_trying() {
    let home = Home::new();
    issue::init(&home.path("strange"), "tenure").unwrap();
    std::fs::copy(home.path("strange/ca.pem"), home.path("certs/agents-ca.pem")).unwrap();
    let served = home.serve(&format!("{SERVER}{TLS}")).await;
    an_agent_waits_for_a_cure(&home, &served, "another CA made it", || {
        std::fs::copy(home.path("certs/ca.pem"), home.path("certs/agents-ca.pem")).unwrap();
    })
    .await;
    served.process.end().await;
}

#[tokio::test]
async fn a_server_certificate_for_another_name_or_out_of_time_is_named_by_client_and_agent() {
    let home = Home::new();
    std::fs::copy(home.path("certs/ca.pem"), home.path("certs/agents-ca.pem")).unwrap();
    let good = home.leaf(Role::Admin, "root");
    let server = |names: Vec<SanType>, seconds: i64| {
        home.odd("server-s", |params| {
            params.subject_alt_names = names;
            params.subject_alt_names.push(uri("spiffe://tenure/tenure/server/s"));
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.not_before = at(-60);
            params.not_after = at(seconds);
        });
    };
    server(vec![SanType::DnsName("other.example".try_into().unwrap())], 3600);
    let served = home.serve(&format!("{SERVER}{TLS}")).await;
    let (code, words) = home.call(&served.grpc, &good, &["job", "list"]).await;
    assert!(code == Some(77) && words.contains("is not for 127.0.0.1"), "{words}");

    // One that runs out while the server runs; then a new one, by a hangup.
    let loopback = || vec![SanType::IpAddress("127.0.0.1".parse().unwrap())];
    server(loopback(), 3);
    served.process.signal(rustix::process::Signal::HUP);
    served.process.says(&["were read again"]).await;
    let words = until("a certificate that has expired", async || {
        let (_, words) = home.call(&served.grpc, &good, &["job", "list"]).await;
        words.contains("has expired: renew it on the server").then_some(words)
    })
    .await;
    assert!(words.contains(served.address()), "{words}");
    an_agent_waits_for_a_cure(&home, &served, "has expired: renew it on the server", || {
        server(loopback(), 3600);
        served.process.signal(rustix::process::Signal::HUP);
    })
    .await;
    served.process.end().await;
}

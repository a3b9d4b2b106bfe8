//! SIGHUP to a real server: what is new counts, what runs is not touched, a mistake changes nothing.

use rustix::process::Signal;
use tenure_tls::{Connector, Role};

use crate::home::{Home, NODE, SERVER, Served, TLS, until};

/// A kind whose jobs run until a file is there.
const HOLD: &str = r#"
[kinds."hold"]
command = ["sh", "-c", "until [ -e \"$HELD\" ]; do sleep 0.05; done"]
"#;

/// The certificate that the server shows to a new connection.
async fn shown(home: &Home, served: &Served) -> Vec<u8> {
    let (host, port) = served.address().split_once(':').expect("a connection");
    let connector = Connector::new(home.leaf(Role::Viewer, "v")).expect("a connection");
    let taken = connector.connect(host, port.parse().expect("a connection")).await.expect("a connection");
    taken.server_certificate().expect("a connection").to_vec()
}

#[tokio::test]
async fn a_hangup_takes_the_new_files_and_leaves_sessions_and_jobs_alone() {
    let home = Home::new();
    let server = |more: &str| format!("{SERVER}{TLS}{more}");
    let served = home.serve(&server("")).await;
    let admin = home.leaf(Role::Admin, "root");
    home.leaf(Role::Node, "n1");
    let held = home.path("held").display().to_string();
    home.write("node.toml", &format!("{NODE}{HOLD}env = {{ HELD = \"{held}\" }}\n"));
    home.write("fleet.toml", "[kinds.\"hold\"]\n");
    let (code, words) = home.call(&served.grpc, &admin, &["apply", "fleet.toml"]).await;
    assert_eq!(code, Some(0), "{words}");
    let agent = home
        .spawn("agent.log", &mut home.command(&["agent", "--config", "node.toml", "--server", &served.grpc]));
    let (code, words) = home.call(&served.grpc, &admin, &["enqueue", "hold"]).await;
    assert_eq!(code, Some(0), "{words}");
    until("a lease", async || (served.figure("tenure_leases").await == 1).then_some(())).await;

    // A new certificate, a new limit, and an address that cannot change.
    let before = shown(&home, &served).await;
    home.leaf(Role::Server, "s");
    assert_eq!(shown(&home, &served).await, before, "until it is told to look");
    let changed =
        server("[limits]\nmax_live_jobs = 1\n").replace("http = \"127.0.0.1:0\"", "http = \"127.0.0.1:1\"");
    home.write("server.toml", &changed);
    served.process.signal(Signal::HUP);
    served.process.says(&["were read again"]).await;
    served.process.says(&["need a restart", "server.http"]).await;
    let after = shown(&home, &served).await;
    assert_ne!(after, before);
    let (code, words) = home.call(&served.grpc, &admin, &["enqueue", "hold"]).await;
    assert!(code == Some(75) && words.contains("STORE_FULL"), "{code:?} {words}");

    // Files that are broken, each in another way: nothing changes, and the log says what is wrong.
    for (n, (file, text, words)) in [
        ("server.toml", "[limits]\nmax_connections = 1\n", "server.toml:2: limits.max_connections"),
        ("certs/server-s.pem", "nothing", "holds no certificate"),
        ("certs/server-s-key.pem", "nothing", "holds no private key"),
        ("certs/ca.pem", "nothing", "ca.pem holds no certificate"),
    ]
    .into_iter()
    .enumerate()
    {
        let whole = std::fs::read(home.path(file)).unwrap();
        home.write(file, text);
        served.process.signal(Signal::HUP);
        served.process.says(&[words]).await;
        std::fs::write(home.path(file), whole).unwrap();
        let refused = served.process.log().matches("nothing was replaced").count();
        assert_eq!(refused, n + 1, "{}", served.process.log());
        assert_eq!(shown(&home, &served).await, after);
    }

    // The agent is told by the same signal what a restart is for; it ends by none of this.
    let node = std::fs::read_to_string(home.path("node.toml")).unwrap();
    agent.signal(Signal::HUP);
    agent.says(&["the node file is as it was"]).await;
    home.write("node.toml", &format!("credits = 3\n{node}\n[slots]\nshell = 1\n"));
    agent.signal(Signal::HUP);
    agent.says(&["need a restart of the agent", "slots, credits"]).await;
    home.write("node.toml", "name = 3\n");
    agent.signal(Signal::HUP);
    agent.says(&["could not start with its files as they are now", "node.toml:1"]).await;

    // The session of before still hears its server, and its job ends well.
    assert_eq!(served.figure("tenure_sessions").await, 1);
    home.write("held", "");
    until("the end of the job", async || {
        (served.figure("tenure_final_jobs_total{state=\"succeeded\"}").await == 1).then_some(())
    })
    .await;
    assert!(!agent.log().contains("the session is over"), "{}", agent.log());

    // Denied by name: its session ends, and it is told why.
    home.write("server.toml", &server("[deny]\nnames = [\"node/n1\"]\n"));
    served.process.signal(Signal::HUP);
    agent.says(&["node n1 is denied by the server's configuration"]).await;
    until("its end", async || (served.figure("tenure_sessions").await == 0).then_some(())).await;
    agent.end().await;
    served.process.end().await;
}

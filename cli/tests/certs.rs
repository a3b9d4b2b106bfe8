//! From `tenure certs` to a call: real processes, real certificates, over TLS on loopback.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

/// No test waits longer for anything.
const SOON: Duration = Duration::from_secs(30);

fn tenure(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.current_dir(directory).args(args).env_clear().env("HOME", directory).kill_on_drop(true);
    command
}

async fn run(directory: &Path, args: &[&str]) -> Output {
    tokio::time::timeout(SOON, tenure(directory, args).output()).await.expect("in time").expect("it runs")
}

async fn ok(directory: &Path, args: &[&str]) -> String {
    let output = run(directory, args).await;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, looking).await.unwrap_or_else(|_| panic!("{what} did not come"))
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id().expect("it runs")).expect("a process id");
    kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("it is ours");
}

/// The flags of a caller.
fn flags(server: &str, stem: &str) -> Vec<String> {
    let file = |name: &str| PathBuf::from("certs").join(name).display().to_string();
    [
        "--server",
        server,
        "--tls-ca",
        &file("ca.pem"),
        "--tls-cert",
        &file(&format!("{stem}.pem")),
        "--tls-key",
        &file(&format!("{stem}-key.pem")),
        "--retry-for",
        "0s",
    ]
    .map(ToOwned::to_owned)
    .to_vec()
}

async fn call(directory: &Path, flags: &[String], args: &[&str]) -> Output {
    let all: Vec<&str> = args.iter().copied().chain(flags.iter().map(String::as_str)).collect();
    run(directory, &all).await
}

const SERVER: &str = r#"
[server]
listen = "127.0.0.1:0"
http = "127.0.0.1:0"
data = "data"

[tls]
cert = "certs/server-server.pem"
key = "certs/server-server-key.pem"
client_ca = "certs/ca.pem"
"#;

const NODE: &str = r#"
name = "n1"
data = "agent"
allow_root = true

[tls]
ca = "certs/ca.pem"
cert = "certs/node-n1.pem"
key = "certs/node-n1-key.pem"

[kinds."hello"]
command = ["true"]
"#;

#[tokio::test]
async fn a_fleet_runs_over_tls_from_its_first_certificate_on() {
    let home = tempfile::tempdir().unwrap();
    let here = home.path();
    ok(here, &["certs", "init"]).await;
    ok(here, &["certs", "server", "--host", "127.0.0.1"]).await;
    ok(here, &["certs", "node", "n1"]).await;
    ok(here, &["certs", "client", "root", "--role", "admin"]).await;
    ok(here, &["certs", "client", "web", "--role", "producer"]).await;
    std::fs::write(here.join("server.toml"), SERVER).unwrap();
    std::fs::write(here.join("node.toml"), NODE).unwrap();
    std::fs::write(here.join("fleet.toml"), "[kinds.\"hello\"]\n").unwrap();
    let log = std::fs::File::create(here.join("server.log")).unwrap();
    let mut server = tenure(here, &["server", "--config", "server.toml", "--ready-file", "ready"])
        .stderr(Stdio::from(log))
        .spawn()
        .unwrap();
    let ready = until("the ready file", async || std::fs::read_to_string(here.join("ready")).ok()).await;
    let address = ready.lines().find_map(|line| line.strip_prefix("TENURE_SERVER=")).unwrap().to_owned();
    assert!(address.starts_with("https://"), "{address}");

    let (admin, producer) = (flags(&address, "admin-root"), flags(&address, "producer-web"));
    let applied = call(here, &admin, &["apply", "fleet.toml"]).await;
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));

    // A wrong certificate stops the agent before it says anything.
    let other = run(here, &["agent", "--config", "node.toml", "--name", "n2", "--server", &address]).await;
    let words = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(
        !other.status.success() && words.contains("is that of node n1, and one of node n2 is needed"),
        "{words}"
    );
    let mut agent = tenure(here, &["agent", "--config", "node.toml", "--server", &address])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();

    // The agent offers its kind; a producer's job runs there.
    let enqueued = call(here, &producer, &["enqueue", "hello", "--wait"]).await;
    assert!(enqueued.status.success(), "{}", String::from_utf8_lossy(&enqueued.stderr));
    let refused = call(here, &producer, &["node", "drain", "n1"]).await;
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(77), "{words}");
    assert!(words.contains("producer web may not call"), "{words}");

    // A hangup: the file's new words count, and sessions stay.
    let denied = format!("{SERVER}\n[deny]\nnames = [\"producer/web\"]\n");
    std::fs::write(here.join("server.toml"), denied).unwrap();
    signal(&server, Signal::HUP);
    let words = until("the denial", async || {
        let refused = call(here, &producer, &["job", "list"]).await;
        (!refused.status.success()).then(|| String::from_utf8_lossy(&refused.stderr).into_owned())
    })
    .await;
    assert!(words.contains("producer web is denied"), "{words}");
    let nodes = call(here, &admin, &["node", "list"]).await;
    assert!(String::from_utf8_lossy(&nodes.stdout).contains("n1"), "the session stayed");

    // Another authority: named, and not tried again.
    ok(here, &["certs", "init", "--dir", "strange"]).await;
    let mut strange = admin;
    if let Some(at) = strange.iter().position(|flag| flag == "certs/ca.pem") {
        strange[at] = "strange/ca.pem".to_owned();
    }
    let refused = call(here, &strange, &["job", "list"]).await;
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(77), "{words}");
    assert!(words.contains("another CA made it"), "{words}");

    signal(&agent, Signal::TERM);
    assert!(tokio::time::timeout(SOON, agent.wait()).await.unwrap().unwrap().success());
    signal(&server, Signal::TERM);
    assert!(tokio::time::timeout(SOON, server.wait()).await.unwrap().unwrap().success());
}

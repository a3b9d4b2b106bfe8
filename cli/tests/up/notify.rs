//! What server and agent say to a service manager, on a real socket.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};

use super::{FLEET, Machine, NODE, PATIENCE, text};

/// The end of the socket that a service manager has.
struct Manager {
    socket: UnixDatagram,
    heard: Vec<String>,
}

impl Manager {
    fn at(path: &Path) -> Self {
        Self { socket: UnixDatagram::bind(path).expect("a socket"), heard: Vec::new() }
    }

    /// Hears everything up to a line that begins so, and that line.
    async fn until(&mut self, word: &str) -> String {
        let hear = async {
            loop {
                let mut datagram = [0; 1024];
                let length = self.socket.recv(&mut datagram).await.expect("a datagram");
                let lines: Vec<_> =
                    String::from_utf8_lossy(&datagram[..length]).lines().map(str::to_owned).collect();
                self.heard.extend(lines.iter().cloned());
                if let Some(line) = lines.into_iter().find(|line| line.starts_with(word)) {
                    return line;
                }
            }
        };
        let heard = tokio::time::timeout(PATIENCE, hear).await;
        heard.unwrap_or_else(|_| panic!("no {word}: {:?}", self.heard))
    }
}

fn start(machine: &Machine, socket: &str, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(args)
        .current_dir(machine.path(""))
        .env("NOTIFY_SOCKET", machine.path(socket))
        .env("WATCHDOG_USEC", "150000")
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(machine.path(&format!("{socket}.log"))).expect("a file"))
        .kill_on_drop(true)
        .spawn()
        .expect("it starts")
}

fn terminate(child: &Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    kill_process(pid.expect("it runs"), Signal::TERM).expect("it is told");
}

#[tokio::test]
async fn a_service_manager_hears_when_they_are_ready_and_that_they_stop_and_jobs_know_nothing_of_it() {
    let machine = Machine::new();
    // Its own environment, and that of its shim.
    let spy = r#"command = ["/bin/sh", "-c", "env; tr '\\0' '\\n' < /proc/$PPID/environ; echo end"]"#;
    let node = NODE.replace(r#"command = ["/bin/sh", "-c", "cat"]"#, spy);
    assert!(node.contains("PPID"));
    std::fs::write(machine.path("node.toml"), node).unwrap();
    std::fs::write(machine.path("fleet.toml"), FLEET).unwrap();
    let (mut of_server, mut of_agent) = (Manager::at(&machine.path("s")), Manager::at(&machine.path("a")));

    // Somebody takes connections, and is no server.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    let agent = ["agent", "--config", "node.toml", "--data", "agent", "--server", &address];
    let mut agent = start(&machine, "a", &agent);
    of_agent.until("STATUS=looks for a server").await;
    of_agent.until("WATCHDOG=1").await;
    of_agent.until("WATCHDOG=1").await;
    assert!(!of_agent.heard.iter().any(|line| line == "READY=1"), "{:?}", of_agent.heard);

    drop(nobody);
    let server = ["server", "--data", "data", "--listen", &address, "--http", "127.0.0.1:0"];
    let mut server = start(&machine, "s", &server);
    of_server.until("READY=1").await;
    let serves = format!("STATUS=serves at http://{address}");
    assert!(of_server.heard.contains(&serves), "{:?}", of_server.heard);
    of_server.until("WATCHDOG=1").await;
    of_agent.until("READY=1").await;
    assert!(of_agent.heard.iter().any(|line| line == "STATUS=attached to its server"));

    let ask = async |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(args).current_dir(machine.path("")).env("TENURE_SERVER", &address);
        tokio::time::timeout(PATIENCE, command.output()).await.expect("in time").unwrap()
    };
    assert!(ask(&["apply", "fleet.toml"]).await.status.success());
    let id = text(&ask(&["enqueue", "echo", "--wait", "--timeout", "20s"]).await);
    let environment = text(&ask(&["job", "result", &id]).await);
    assert!(environment.contains("TENURE_JOB_ID=") && environment.ends_with("end"), "{environment}");
    assert!(!environment.contains("NOTIFY_SOCKET") && !environment.contains("WATCHDOG"), "{environment}");

    terminate(&server);
    of_server.until("STOPPING=1").await;
    of_agent.until("STATUS=cut off").await;
    terminate(&agent);
    of_agent.until("STOPPING=1").await;
    for child in [&mut server, &mut agent] {
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("in time").unwrap();
        assert!(ended.success(), "{ended}");
    }
}

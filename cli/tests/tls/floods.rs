//! Floods of every kind against a real server: it stays within bounds, sessions stay, and new clients get in.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tenure_tls::{Connector, Files, Role, client::Taken};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::home::{Home, NODE, Process, SERVER, SOON, Served, TLS, until};

/// A server with a session, and a caller.
struct Besieged {
    home: Home,
    served: Served,
    agent: Process,
    admin: Files,
    resident_kib: u64,
}

impl Besieged {
    /// `limit`: of open files of the server.
    async fn new(limit: Option<u32>) -> Self {
        let home = Home::new();
        home.write("server.toml", &format!("{SERVER}{TLS}"));
        let run = "server --config server.toml --ready-file ready";
        let served = match limit {
            None => home.serve_by(&mut home.command(&run.split(' ').collect::<Vec<_>>())).await,
            Some(limit) => {
                let line = format!("ulimit -n {limit}; exec {} {run}", env!("CARGO_BIN_EXE_tenure"));
                let mut shell = tokio::process::Command::new("sh");
                shell.args(["-c", &line]).current_dir(home.path(".")).env_clear().env("HOME", home.path("."));
                home.serve_by(shell.kill_on_drop(true)).await
            }
        };
        let admin = home.leaf(Role::Admin, "root");
        home.leaf(Role::Node, "n1");
        home.write("node.toml", NODE);
        let args = ["agent", "--config", "node.toml", "--server", &served.grpc];
        let agent = home.spawn("agent.log", &mut home.command(&args));
        until("a session", async || (served.figure("tenure_sessions").await == 1).then_some(())).await;
        let mut besieged = Self { home, served, agent, admin, resident_kib: 0 };
        besieged.honest_client(SOON).await;
        besieged.resident_kib = besieged.resident();
        besieged
    }

    fn address(&self) -> SocketAddr {
        self.served.address().parse().expect("an address")
    }

    /// What the server has in memory, in KiB.
    fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.served.process.pid());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Processor time of the server so far, in hundredths of a second.
    fn busy(&self) -> u64 {
        let path = format!("/proc/{}/stat", self.served.process.pid());
        let stat = std::fs::read_to_string(path).expect("it runs");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
    }

    fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.served.process.pid())).expect("it runs").count()
    }

    /// A new client is answered.
    async fn honest_client(&self, within: Duration) {
        let answered = until("an honest client", async || {
            let (code, words) = self.home.call(&self.served.grpc, &self.admin, &["node", "list"]).await;
            assert!(matches!(code, Some(0 | 69)), "{code:?} {words}");
            (code == Some(0) && words.contains("n1")).then_some(())
        });
        tokio::time::timeout(within, answered).await.expect("an honest client is answered in time");
    }

    /// The session was not touched, the memory stayed within bounds, and everything ends in order.
    async fn end(self, most_grown_kib: u64) {
        assert!(!self.agent.log().contains("the session is over"), "{}", self.agent.log());
        let grown = self.resident().saturating_sub(self.resident_kib);
        eprintln!("{} KiB in memory, {grown} KiB more than before", self.resident());
        assert!(grown < most_grown_kib, "{grown} KiB");
        self.agent.end().await;
        self.served.process.end().await;
    }

    async fn connection(&self) -> Taken {
        let connector = Connector::new(self.admin.clone()).expect("files");
        let address = self.address();
        connector.connect(&address.ip().to_string(), address.port()).await.expect("it is taken")
    }
}

/// A connection from one of many addresses of this host.
async fn from(n: u8, to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 1, n], 0))).expect("an address of this host");
    // A backlog that is full answers nobody.
    tokio::time::timeout(Duration::from_secs(1), socket.connect(to)).await.ok()?.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_sockets_that_never_end_their_handshake_keep_nobody_out() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to the maximum");
    let count = maximum.map_or(5_000, |most| most.saturating_sub(500).min(5_000));
    eprintln!("{count} sockets");
    let besieged = Besieged::new(None).await;
    let to = besieged.address();
    let mut silent = Vec::new();
    for n in 0..count {
        // Half of them from one address, the others from 100.
        let address = if n % 2 == 0 { 1 } else { u8::try_from(n / 2 % 100).expect("small") + 2 };
        silent.extend(from(address, to).await);
        if n == count / 2 {
            besieged.honest_client(Duration::from_secs(5)).await;
        }
    }
    eprintln!("{} connected", silent.len());
    besieged.honest_client(Duration::from_secs(5)).await;
    for cause in ["too_many", "displaced"] {
        let name = format!("tenure_failed_handshakes_total{{cause=\"{cause}\"}}");
        let counted = besieged.served.figure(&name).await;
        eprintln!("{cause}: {counted}");
        assert!(counted > 100, "{cause}: {counted}");
    }
    let lines =
        besieged.served.process.log().lines().filter(|line| line.contains("no TLS with a client")).count();
    assert!(lines < 1_500, "{lines} lines of log");
    assert!(besieged.open_files() < 400, "{}", besieged.open_files());
    drop(silent);
    besieged.end(64 * 1024).await;
}

#[tokio::test]
async fn a_server_without_file_descriptors_rests_keeps_its_session_and_recovers() {
    let besieged = Besieged::new(Some(64)).await;
    let to = besieged.address();
    let mut flood = Vec::new();
    for n in 0..200_u8 {
        flood.extend(from(n % 8 + 1, to).await);
    }
    besieged.served.process.says(&["cannot accept connections", "Too many open files"]).await;
    let before = besieged.busy();
    tokio::time::sleep(Duration::from_secs(3)).await; // a time over which work is measured
    let used = besieged.busy() - before;
    eprintln!("{used} hundredths of a second of work in 3 s");
    assert!(used < 100, "it does not spin: {used}");
    drop(flood);
    besieged.honest_client(Duration::from_secs(15)).await;
    let log = besieged.served.process.log();
    let lines = log.lines().filter(|line| line.contains("cannot accept connections")).count();
    assert!((1..6).contains(&lines), "{lines} lines of log");
    assert_eq!(besieged.served.figure("tenure_reloads_total").await, 0);
    besieged.end(64 * 1024).await;
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), body].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;

/// What a client says first, with one setting.
fn preface(setting: u16, value: u32) -> Vec<u8> {
    let body = [&setting.to_be_bytes()[..], &value.to_be_bytes()].concat();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &body)].concat()
}

/// The header block of a call.
fn call(path: &str) -> Vec<u8> {
    let text =
        |text: &str| [vec![u8::try_from(text.len()).expect("short")], text.as_bytes().to_vec()].concat();
    let literal = |name: &str, value: &str| [vec![0], text(name), text(value)].concat();
    let fields =
        [literal("content-type", "application/grpc"), literal("te", "trailers"), literal(":authority", "x")];
    // Pseudo fields come first: POST, https, then the path and the authority as literals.
    let [kind, trailers, authority] = fields;
    [vec![0x83, 0x87], literal(":path", path), authority, kind, trailers].concat()
}

const LIST: &str = "/tenure.v1.JobService/ListJobs";
const INFO: &str = "/grpc.health.v1.Health/Watch";

/// Sends until the server has had enough: whether it ended the connection in time.
async fn pour(mut connection: Taken, first: Vec<u8>, mut next: impl FnMut(u32) -> Vec<u8>) -> u32 {
    let mut sent = 0;
    let pouring = async {
        connection.write_all(&first).await?;
        for n in 0..1_000_000 {
            connection.write_all(&next(n)).await?;
            connection.flush().await?;
            sent = n;
        }
        Ok::<_, std::io::Error>(())
    };
    let poured = tokio::time::timeout(SOON, pouring).await.expect("an end in time");
    poured.expect_err("the server ends the connection");
    sent
}

#[tokio::test]
async fn floods_of_resets_and_of_headers_end_their_own_connection_alone() {
    let besieged = Besieged::new(None).await;
    let mut resets = Vec::new();
    for _ in 0..8 {
        let block = call(LIST);
        let next = move |n: u32| {
            let stream = 2 * n + 1;
            let open = frame(HEADERS, END_HEADERS, stream, &block);
            [open, frame(RESET, 0, stream, &8_u32.to_be_bytes())].concat()
        };
        resets.push(pour(besieged.connection().await, preface(3, 100), next).await);
    }
    eprintln!("streams reset before the end: {resets:?}");
    assert!(resets.iter().all(|&sent| sent < 200_000), "{resets:?}");

    // A header block without end, in small frames and in large ones.
    for (size, most) in [(10_usize, 100_000), (16_000, 1_000)] {
        let first = [preface(3, 100), frame(HEADERS, 0, 1, &call(LIST))].concat();
        let field = [vec![0, 1, b'x', 0x7f, 0x81, 0x7c], vec![b'a'; size]].concat();
        let next = move |_| frame(CONTINUATION, 0, 1, &field);
        let sent = pour(besieged.connection().await, first, next).await;
        eprintln!("frames of {size} bytes before the end: {sent}");
        assert!(sent < most, "{sent}");
    }
    besieged.honest_client(Duration::from_secs(5)).await;
    besieged.end(64 * 1024).await;
}

#[tokio::test]
async fn clients_that_never_read_and_those_that_vanish_are_let_go() {
    let besieged = Besieged::new(None).await;
    let before = besieged.open_files();
    let mut held = Vec::new();
    for n in 0..100 {
        let mut connection = besieged.connection().await;
        // Windows of no bytes: every answer stays with the server. Half of them call, the others fall silent.
        connection.write_all(&preface(4, 0)).await.unwrap();
        for stream in (1..128).step_by(2).take(if n % 2 == 0 { 64 } else { 0 }) {
            let path = if stream % 4 == 1 { LIST } else { INFO };
            let head = frame(HEADERS, END_HEADERS, stream, &call(path));
            let body = frame(DATA, END_STREAM, stream, &[0; 5]);
            connection.write_all(&[head, body].concat()).await.unwrap();
        }
        connection.flush().await.unwrap();
        held.push(connection);
    }
    besieged.honest_client(Duration::from_secs(5)).await;
    eprintln!("{} open files with all of them, {before} before", besieged.open_files());
    // None of them answers a ping.
    until("the end of them", async || (besieged.open_files() < before + 10).then_some(())).await;
    for mut connection in held {
        let mut rest = Vec::new();
        drop(connection.read_to_end(&mut rest).await); // what was sent before the end
    }
    besieged.end(64 * 1024).await;
}

//! A directory with an authority, and the processes that run in it.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, Issuer, KeyPair, SanType};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure_tls::{Files, Role, files::Own, issue};
use tokio::process::{Child, Command};

/// No test waits longer for anything.
pub(crate) const SOON: Duration = Duration::from_secs(40);

pub(crate) struct Home(TempDir);

/// A process with its log.
pub(crate) struct Process {
    pub(crate) child: Child,
    log: PathBuf,
}

/// A server that is ready.
pub(crate) struct Served {
    pub(crate) process: Process,
    /// With its scheme.
    pub(crate) grpc: String,
    pub(crate) http: String,
}

pub(crate) const SERVER: &str = r#"
[server]
listen = "127.0.0.1:0"
http = "127.0.0.1:0"
data = "data"
"#;

pub(crate) const TLS: &str = r#"
[tls]
cert = "certs/server-s.pem"
key = "certs/server-s-key.pem"
client_ca = "certs/ca.pem"
"#;

/// A node without kinds.
pub(crate) const NODE: &str = r#"
name = "n1"
data = "agent"
allow_root = true

[tls]
ca = "certs/ca.pem"
cert = "certs/node-n1.pem"
key = "certs/node-n1-key.pem"
"#;

impl Home {
    /// With an authority, and a certificate of a server on loopback.
    pub(crate) fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("a directory"));
        issue::init(&home.path("certs"), "tenure").expect("an authority");
        home.leaf(Role::Server, "s");
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    /// A certificate of the authority, made anew.
    pub(crate) fn leaf(&self, role: Role, name: &str) -> Files {
        let hosts = if role == Role::Server { vec!["127.0.0.1".to_owned()] } else { Vec::new() };
        let leaf = issue::Leaf { role, name: name.to_owned(), hosts, days: 1 };
        let made = issue::issue(&self.path("certs"), &leaf, true).expect("a certificate");
        Files { ca: self.path("certs/ca.pem"), own: Some(Own { cert: made.cert, key: made.key }) }
    }

    /// A certificate of the authority with whatever a test puts into it, in the files of that stem.
    pub(crate) fn odd(&self, stem: &str, change: impl FnOnce(&mut CertificateParams)) -> Files {
        let read = |name: &str| std::fs::read_to_string(self.path(name)).expect("it is there");
        let key = KeyPair::from_pem(&read("certs/ca-key.pem")).expect("a key");
        let issuer = Issuer::from_ca_cert_pem(&read("certs/ca.pem"), key).expect("an authority");
        let mut params = CertificateParams::default();
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        let own = Own {
            cert: self.path(&format!("certs/{stem}.pem")),
            key: self.path(&format!("certs/{stem}-key.pem")),
        };
        std::fs::write(&own.cert, certificate.pem()).expect("written");
        std::fs::write(&own.key, key.serialize_pem()).expect("written");
        Files { ca: self.path("certs/ca.pem"), own: Some(own) }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.current_dir(self.0.path()).args(args).env_clear().env("HOME", self.0.path());
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Output {
        tokio::time::timeout(SOON, self.command(args).output()).await.expect("in time").expect("it runs")
    }

    /// What a caller with these files is told: the exit code, and all that was printed.
    pub(crate) async fn call(&self, server: &str, files: &Files, args: &[&str]) -> (Option<i32>, String) {
        let show = |path: &Path| path.display().to_string();
        let mut flags =
            vec!["--server".to_owned(), server.to_owned(), "--retry-for".to_owned(), "0s".to_owned()];
        if server.starts_with("https") {
            flags.extend(["--tls-ca".to_owned(), show(&files.ca)]);
            if let Some(own) = &files.own {
                flags.extend([
                    "--tls-cert".to_owned(),
                    show(&own.cert),
                    "--tls-key".to_owned(),
                    show(&own.key),
                ]);
            }
        }
        let all: Vec<&str> = args.iter().copied().chain(flags.iter().map(String::as_str)).collect();
        let output = self.run(&all).await;
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).expect("UTF-8"))
    }

    pub(crate) fn spawn(&self, log: &str, command: &mut Command) -> Process {
        let log = self.path(log);
        let file = std::fs::File::create(&log).expect("a log");
        let child = command.stdout(Stdio::null()).stderr(Stdio::from(file)).spawn().expect("it starts");
        Process { child, log }
    }

    /// A server with this server file.
    pub(crate) async fn serve(&self, file: &str) -> Served {
        self.write("server.toml", file);
        self.serve_by(&mut self.command(&["server", "--config", "server.toml", "--ready-file", "ready"]))
            .await
    }

    pub(crate) async fn serve_by(&self, command: &mut Command) -> Served {
        drop(std::fs::remove_file(self.path("ready")));
        let mut process = self.spawn("server.log", command);
        let ready = until("the ready file", async || {
            if let Some(status) = process.child.try_wait().expect("it is ours") {
                panic!("the server ended with {status}: {}", process.log());
            }
            std::fs::read_to_string(self.path("ready")).ok()
        })
        .await;
        let line = |key: &str| ready.lines().find_map(|line| line.strip_prefix(key)).expect(key).to_owned();
        Served { process, grpc: line("TENURE_SERVER="), http: line("TENURE_HTTP=http://") }
    }
}

impl Process {
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }

    /// Waits for a line of the log that has all of these words.
    pub(crate) async fn says(&self, words: &[&str]) -> String {
        until(&format!("{words:?} in {}", self.log.display()), async || {
            let log = self.log();
            log.lines().find(|line| words.iter().all(|word| line.contains(word))).map(ToOwned::to_owned)
        })
        .await
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("it is ours");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Ends it in order.
    pub(crate) async fn end(mut self) {
        self.signal(Signal::TERM);
        let ended =
            tokio::time::timeout(SOON, self.child.wait()).await.expect("in time").expect("it is ours");
        assert!(ended.success(), "{ended}: {}", self.log());
    }
}

impl Served {
    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        self.grpc.split_once("://").expect("a scheme").1
    }

    /// A figure by its name with labels.
    pub(crate) async fn figure(&self, name: &str) -> u64 {
        let text = get(&self.http, "/metrics").await;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or("0");
        line.trim().parse().unwrap_or_else(|_| panic!("{name}: {line:?}"))
    }
}

/// One request of HTTP/1.1: everything that was answered.
pub(crate) async fn get(address: &str, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut text = String::new();
    let reading = stream.read_to_string(&mut text);
    tokio::time::timeout(SOON, reading).await.expect("in time").expect("an answer");
    text
}

pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, looking).await.unwrap_or_else(|_| panic!("no {what} in time"))
}

pub(crate) fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().expect("ASCII"))
}

/// A moment that many seconds from now, for certificates.
pub(crate) fn at<T: From<SystemTime>>(seconds: i64) -> T {
    let second = tenure_tls::clock::unix_seconds() + seconds;
    (UNIX_EPOCH + Duration::from_secs(second.unsigned_abs())).into()
}

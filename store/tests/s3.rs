//! Object storage in a bucket: a real service that speaks S3, `moto[server]` of PyPI, on a port of its own.
//!
//! `scripts/test` installs it and names its program in `TENURE_MOTO`. Where that cannot be, these tests say so and show
//! nothing; in CI they fail.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use ring::digest::{SHA256, digest};
use tenure_scheduler::{FencingToken, JobId};
use tenure_store::{
    ObjectName, Objects, Sha256,
    objects::{Bucket, Error, NotWhole, Place, Secret},
};

/// It starts within this, or is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service of S3 in a process of its own.
struct Service {
    process: Child,
    address: SocketAddr,
}

impl Service {
    /// None: it is not installed, which is said, and fails in CI.
    async fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("TENURE_MOTO") else {
            assert!(std::env::var_os("CI").is_none(), "TENURE_MOTO names no moto_server");
            eprintln!("not shown: TENURE_MOTO names no moto_server (scripts/test installs it)");
            return None;
        };
        let address = free();
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &address.port().to_string()]);
        let process =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("moto_server starts");
        let service = Self { process, address };
        let answers = async {
            while service.say("GET", "/moto-api/").is_none() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, answers).await.expect("moto_server answers");
        service.say("PUT", "/results").expect("it makes a bucket");
        Some(service)
    }

    /// One request by hand; the answer, if it is a good one.
    fn say(&self, method: &str, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        let address = self.address;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    }

    fn place(&self, prefix: &str) -> Place {
        Place::Bucket(Bucket {
            name: "results".to_owned(),
            prefix: prefix.to_owned(),
            endpoint: Some(format!("http://{}", self.address)),
            region: None,
            path_style: true,
            credentials: Some(("id".to_owned(), Secret("a secret".to_owned()))),
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

fn named(bytes: &[u8]) -> ObjectName {
    let sha256 = Sha256(digest(&SHA256, bytes).as_ref().try_into().expect("32 bytes"));
    ObjectName { job: JobId(uuid::Uuid::from_u128(7)), token: FencingToken(1 << 40 | 3), sha256 }
}

async fn put(objects: &Objects, name: ObjectName, bytes: &[u8]) -> Result<Result<(), NotWhole>, Error> {
    let mut upload = objects.write(name, bytes.len() as u64);
    for chunk in bytes.chunks(256 * 1024) {
        if let Err(error) = upload.write(Bytes::copy_from_slice(chunk)).await {
            upload.abort().await;
            return Err(error);
        }
    }
    upload.finish().await
}

async fn all(objects: &Objects) -> Vec<ObjectName> {
    objects.list().try_collect().await.expect("a list")
}

#[tokio::test]
async fn a_bucket_keeps_objects_whole_and_nothing_else() {
    let Some(service) = Service::start().await else { return };
    let objects = Objects::open(&service.place("a/b")).unwrap();
    let other = Objects::open(&service.place("")).unwrap();
    // In parts and in one request.
    let large: Vec<u8> = (0..20_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 4]).collect();
    for bytes in [&large[..], b"small"] {
        let name = named(bytes);
        for _ in 0..2 {
            put(&objects, name, bytes).await.unwrap().unwrap();
        }
        assert!(objects.contains(name).await.unwrap());
        assert!(!other.contains(name).await.unwrap(), "it has a prefix");
        assert_eq!(all(&objects).await, [name]);
        let chunks: Vec<Bytes> = objects.read(name).await.unwrap().try_collect().await.unwrap();
        assert!(chunks.concat() == bytes, "{} bytes come back changed", bytes.len());
        objects.remove(name).await.unwrap();
        objects.remove(name).await.unwrap();
        assert!(matches!(objects.read(name).await, Err(Error::Missing(missing)) if missing == name));
    }
    // What is not as announced leaves no object, and no parts.
    let wrong = put(&objects, named(b"other"), &large).await.unwrap();
    assert_eq!(wrong, Err(NotWhole::Others));
    assert_eq!(all(&objects).await, []);
    let unfinished = service.say("GET", "/results?uploads").unwrap();
    assert!(!unfinished.contains("<Upload>"), "{unfinished}");
}

#[tokio::test]
async fn a_bucket_that_is_away_is_no_lost_object() {
    let Some(mut service) = Service::start().await else { return };
    let objects = Objects::open(&service.place("")).unwrap();
    let name = named(b"small");
    put(&objects, name, b"small").await.unwrap().unwrap();
    service.process.kill().unwrap();
    service.process.wait().unwrap();
    let away = objects.read(name).await.err().unwrap();
    assert!(matches!(away, Error::Unavailable(_)), "{away}");
    assert!(!format!("{away:?} {objects:?}").contains("a secret"), "the secret is not for logs");
    assert!(matches!(put(&objects, name, b"small").await, Err(Error::Unavailable(_))));
    assert!(objects.contains(name).await.is_err());
}

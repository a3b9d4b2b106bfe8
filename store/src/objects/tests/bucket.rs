//! Reads out of a bucket that writes down what it is asked for.

use std::sync::{Mutex, PoisonError};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::*;
use crate::objects::{Bucket, Secret};

/// As of HTTP.
const HEADERS: &str = "etag: \"1\"\r\nlast-modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nconnection: close\r\n";

/// First and last byte of a read; none: all of it.
type Asked = Option<(usize, usize)>;

/// A bucket with one object.
struct Fake {
    objects: Objects,
    asked: Arc<Mutex<Vec<Asked>>>,
    _task: JoinSet<()>,
}

impl Fake {
    async fn start(bytes: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = Place::Bucket(Bucket {
            name: "results".to_owned(),
            prefix: String::new(),
            endpoint: Some(format!("http://{}", listener.local_addr().unwrap())),
            region: None,
            path_style: true,
            credentials: Some(("id".to_owned(), Secret("secret".to_owned()))),
        });
        let asked = Arc::<Mutex<Vec<_>>>::default();
        let (kept, mut task) = (Arc::clone(&asked), JoinSet::new());
        task.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                answer(stream, &bytes, &kept).await;
            }
        });
        Self { objects: Objects::open(&place).unwrap(), asked, _task: task }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn answer(mut stream: TcpStream, bytes: &[u8], asked: &Mutex<Vec<Asked>>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
    let request = String::from_utf8(request).unwrap().to_lowercase();
    let size = bytes.len();
    let range = request.lines().find_map(|line| line.strip_prefix("range: bytes="));
    let range = range.and_then(|range| range.split_once('-'));
    let range = range.map(|(first, last)| (first.parse().unwrap(), last.trim().parse().unwrap()));
    let is_head = request.starts_with("head");
    if !is_head {
        asked.lock().unwrap_or_else(PoisonError::into_inner).push(range);
    }
    let (status, (first, last)) = match range {
        Some(range) => ("206 Partial Content", range),
        None => ("200 OK", (0, size - 1)),
    };
    let body = if is_head { &[][..] } else { &bytes[first..=last] };
    let length = last + 1 - first;
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\ncontent-range: bytes {first}-{last}/{size}\r\n{HEADERS}\r\n"
    );
    // Who asked may have gone away.
    drop(stream.write_all(&[head.as_bytes(), body].concat()).await);
}

#[tokio::test]
async fn a_reader_that_pauses_holds_no_request_and_each_asks_for_little() {
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    let fake = Fake::start(bytes.clone()).await;
    let mut chunks = fake.objects.read(named(&bytes)).await.unwrap();
    assert_eq!(fake.asked(), [], "nothing was taken yet");
    let mut all = Vec::new();
    let mut taken = 0;
    while let Some(chunk) = chunks.try_next().await.unwrap() {
        taken += 1;
        // What is asked for is what was taken: a pause here, however long, is the pause of no request.
        assert_eq!(fake.asked().len(), taken);
        all.extend_from_slice(&chunk);
    }
    assert!(all == bytes, "the bytes come back changed");
    let most = usize::try_from(CHUNK).unwrap();
    for range in fake.asked() {
        let (first, last) = range.expect("all of it is asked for at once");
        assert!(last - first < most, "{first} to {last}");
    }
}

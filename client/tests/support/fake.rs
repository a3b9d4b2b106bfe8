//! A server that answers by script: for each method a list of answers, given one after the other, the last for ever.
//!
//! It speaks gRPC on a real loopback socket, and knows neither jobs nor kinds. What it was sent is kept.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Status;
use tonic::body::Body as TonicBody;
use tonic::service::Routes;

/// The bytes before each message: no compression, then its length.
const PREFIX_BYTES: usize = 5;

/// One answer.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A message, encoded.
    Ok(Vec<u8>),
    /// A no.
    No(Status),
    /// Several messages of a stream, then its end: well, or with a status.
    Stream(Vec<Vec<u8>>, Option<Status>),
}

impl Answer {
    /// A message.
    pub(crate) fn ok(message: &impl Message) -> Self {
        Self::Ok(message.encode_to_vec())
    }

    /// Messages of a stream, and how it ends.
    pub(crate) fn stream(messages: &[impl Message], end: Option<Status>) -> Self {
        Self::Stream(messages.iter().map(Message::encode_to_vec).collect(), end)
    }
}

#[derive(Default)]
struct Script {
    answers: BTreeMap<String, Vec<Answer>>,
    calls: Vec<(String, Vec<u8>)>,
}

/// The running server; it ends with this value.
pub(crate) struct Fake {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    script: Arc<Mutex<Script>>,
    task: JoinHandle<()>,
}

impl Fake {
    /// Starts a server on a free port. A method is named as on the wire: `JobService/GetJob`.
    pub(crate) async fn start(script: impl IntoIterator<Item = (&'static str, Vec<Answer>)>) -> Self {
        let answers = script.into_iter().map(|(method, answers)| (method.to_owned(), answers)).collect();
        let script = Arc::new(Mutex::new(Script { answers, calls: Vec::new() }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener");
        let router = axum::Router::new().fallback(answer).with_state(script.clone());
        #[expect(clippy::disallowed_methods, reason = "the handle is kept and aborted with the server")]
        let task = tokio::spawn(async move {
            tonic::transport::Server::builder()
                .add_routes(Routes::from(router))
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .expect("the server runs until its task ends");
        });
        Self { address, script, task }
    }

    /// Its address as a client wants it.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was sent to one method, oldest first.
    pub(crate) fn sent<M: Message + Default>(&self, method: &str) -> Vec<M> {
        let script = self.script.lock().expect("no call panicked");
        let calls = script.calls.iter().filter(|(called, _)| called == method);
        calls.map(|(_, body)| M::decode(body.as_slice()).expect("a request of that method")).collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, request: Request<Body>) -> Response<TonicBody> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let method = path.rsplit_once('.').map_or(path.clone(), |(_, method)| method.to_owned());
    let body = request.into_body().collect().await.expect("a whole request").to_bytes();
    let answer = {
        let mut script = script.lock().expect("no call panicked");
        script.calls.push((method.clone(), body.get(PREFIX_BYTES..).unwrap_or_default().to_vec()));
        match script.answers.get_mut(&method) {
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers[0].clone(),
            None => Answer::No(Status::unimplemented(format!("the script has no {method}"))),
        }
    };
    match answer {
        Answer::No(status) => status.into_http(),
        Answer::Ok(message) => messages(&[message], None),
        Answer::Stream(all, end) => messages(&all, end),
    }
}

fn messages(all: &[Vec<u8>], end: Option<Status>) -> Response<TonicBody> {
    let mut framed = Vec::new();
    for message in all {
        framed.push(0);
        framed.extend(u32::try_from(message.len()).expect("a small message").to_be_bytes());
        framed.extend(message);
    }
    let mut trailers = HeaderMap::new();
    let end = end.unwrap_or_else(|| Status::ok(""));
    end.add_header(&mut trailers).expect("a status fits trailers");
    trailers.entry("grpc-status").or_insert(HeaderValue::from_static("0"));
    let body = Full::new(framed.into()).with_trailers(std::future::ready(Some(Ok(trailers))));
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(TonicBody::new(body.map_err(|never| match never {}))).expect("a response")
}

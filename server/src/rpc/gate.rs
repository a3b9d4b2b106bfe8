//! The layer outside all services: what is no call of a method that exists goes no further.
//!
//! Responsible for exact paths, for the method and the media type of HTTP, for requests that never end, and for handing
//! what tonic answers by itself to `decode.rs`. Not for anything that is said inside a message. Invariant: a service is
//! called only by a path that the descriptors name.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::{Either, MapOk, Ready, TryFutureExt as _, ready};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use opentelemetry::{
    Context,
    context::{FutureExt as _, WithContext},
};
use prost::Message as _;
use prost_types::{FileDescriptorSet, ServiceDescriptorProto};
use tokio::time::Sleep;
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};

use super::{decode, status::No};
use crate::{
    metrics::Metrics,
    trace::{self, Spans},
};

/// A request of one message that is not here by then is answered: it would hold its stream for ever.
const WHOLE_WITHIN: Duration = Duration::from_secs(30);

/// How the media type of a call begins. What follows names the form of messages.
const GRPC: &[u8] = b"application/grpc";

/// How a method is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// By one message.
    Once,
    /// By a stream of them, which has timers of its own.
    Streaming,
}

/// How a method is asked and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) asked: Asked,
    /// Whether it may go on answering for as long as it likes.
    pub(crate) answers_on: bool,
}

/// The methods of some descriptor sets by path: `/package.Service/Method`.
pub(crate) type Methods = BTreeMap<String, Method>;

/// The methods of some descriptor sets.
///
/// # Errors
/// If a set is none.
pub(crate) fn paths(sets: &[&[u8]]) -> Result<Methods, prost::DecodeError> {
    let mut paths = BTreeMap::new();
    for set in sets {
        for file in FileDescriptorSet::decode(*set)?.file {
            let package = file.package().to_owned();
            // Agents serve that one, to the commands that they run.
            let ours = |service: &&ServiceDescriptorProto| {
                !tenure_proto::SERVED_BY_AGENTS.contains(&format!("{package}.{}", service.name()).as_str())
            };
            for service in file.service.iter().filter(ours) {
                for method in &service.method {
                    let asked = if method.client_streaming() { Asked::Streaming } else { Asked::Once };
                    let shape = Method { asked, answers_on: method.server_streaming() };
                    paths.insert(format!("/{package}.{}/{}", service.name(), method.name()), shape);
                }
            }
        }
    }
    Ok(paths)
}

/// Puts [`Gate`] around a service.
#[derive(Debug, Clone)]
pub(crate) struct GateLayer {
    paths: Arc<Methods>,
    metrics: Arc<Metrics>,
    spans: Spans,
}

impl GateLayer {
    pub(crate) fn new(paths: Methods, metrics: Arc<Metrics>, spans: Spans) -> Self {
        Self { paths: Arc::new(paths), metrics, spans }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        Gate { inner, layer: self.clone() }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Gate<S> {
    inner: S,
    layer: GateLayer,
}

type Rewrite = Box<dyn FnOnce(Response<Body>) -> Response<Body> + Send>;

impl<S> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<Body>, S::Error>>, MapOk<WithContext<S::Future>, Rewrite>>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let request = match self.layer.admit(request) {
            Ok(request) => request,
            Err(no) => return Either::Left(ready(Ok(*no))),
        };
        let metrics = Arc::clone(&self.layer.metrics);
        let span = self.layer.span(&request);
        let context = span.clone().unwrap_or_default();
        let rewrite: Rewrite = Box::new(move |response| {
            let response = answered(response, &metrics);
            if let Some(span) = span {
                trace::answered(
                    &span,
                    Status::from_header_map(response.headers()).map_or(Code::Ok, |no| no.code()),
                );
            }
            response
        });
        Either::Right(self.inner.call(request).with_context(context).map_ok(rewrite))
    }
}

impl GateLayer {
    /// The span of a call of ours. A stream has none: it may last for days.
    fn span(&self, request: &Request<Body>) -> Option<Context> {
        let path = request.uri().path();
        let unary = Method { asked: Asked::Once, answers_on: false };
        let ours = path.starts_with("/tenure.") && self.paths.get(path) == Some(&unary);
        if ours { self.spans.call(path, request.headers()) } else { None }
    }

    /// The request as the services get it, or the answer to what is no call of theirs.
    fn admit(&self, request: Request<Body>) -> Result<Request<Body>, Box<Response<Body>>> {
        // Not gRPC at all: whoever asks reads no gRPC status either.
        if request.method() != http::Method::POST {
            return Err(Box::new(plain(StatusCode::METHOD_NOT_ALLOWED)));
        }
        if !is_grpc(request.headers()) {
            return Err(Box::new(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE)));
        }
        let path = request.uri().path();
        match self.paths.get(path).map(|method| method.asked) {
            Some(Asked::Once) => Ok(request.map(|body| Body::new(Patient::new(body, WHOLE_WITHIN)))),
            Some(Asked::Streaming) => Ok(request),
            None => {
                let shown: String = path.chars().take(200).collect();
                let no = No::unknown_method(&shown);
                self.metrics.observe_refusal(no.reason());
                Err(Box::new(no.into_status().into_http()))
            }
        }
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(header::HeaderValue::as_bytes).unwrap_or_default();
    kind.strip_prefix(GRPC).is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

fn plain(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

fn answered(response: Response<Body>, metrics: &Metrics) -> Response<Body> {
    // tonic leaves the status that it answered with beside the response.
    let Some(no) = response.extensions().get::<Status>().and_then(decode::meaning) else { return response };
    metrics.observe_refusal(no.reason());
    let mut rewritten = no.into_status().into_http();
    // Which encodings are understood stands there, when none of them was used.
    for (name, value) in response.headers() {
        rewritten.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    rewritten
}

/// A body that must be whole in time.
struct Patient {
    inner: Body,
    within: Duration,
    over: Pin<Box<Sleep>>,
}

impl Patient {
    fn new(inner: Body, within: Duration) -> Self {
        Self { inner, within, over: Box::pin(tokio::time::sleep(within)) }
    }
}

impl http_body::Body for Patient {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame);
        }
        self.over.as_mut().poll(context).map(|()| {
            let problem = format!("was not whole within {} s", self.within.as_secs());
            Some(Err(No::invalid_field("request", problem).into_status()))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_exactly_those_of_the_descriptors() {
        let paths = paths(&[tenure_proto::FILE_DESCRIPTOR_SET]).unwrap();
        assert_eq!(paths["/tenure.v1.JobService/Enqueue"], Method { asked: Asked::Once, answers_on: false });
        let session = Method { asked: Asked::Streaming, answers_on: true };
        assert_eq!(paths["/tenure.node.v1.NodeService/Session"], session);
        assert!(!paths.contains_key("tenure.v1.JobService/Enqueue"));
        assert!(super::paths(&[b"\xff"]).is_err());
    }

    #[tokio::test]
    async fn a_body_that_is_never_whole_ends_with_the_reason() {
        let endless = axum::body::Body::from_stream(futures_util::stream::pending::<Result<Bytes, Status>>());
        let mut patient = Patient::new(Body::new(endless), Duration::from_millis(1));
        let frame =
            std::future::poll_fn(|context| http_body::Body::poll_frame(Pin::new(&mut patient), context));
        let status = frame.await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().starts_with("request: was not whole"), "{status:?}");
    }

    #[test]
    fn only_grpc_is_grpc() {
        let with = |kind: &'static str| {
            HeaderMap::from_iter([(header::CONTENT_TYPE, header::HeaderValue::from_static(kind))])
        };
        for kind in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
            assert!(is_grpc(&with(kind)), "{kind}");
        }
        for kind in ["", "application/json", "application/grpc-web", "text/application/grpc"] {
            assert!(!is_grpc(&with(kind)), "{kind}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}

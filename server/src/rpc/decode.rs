//! The layer outside all services: it lets through exactly the paths that exist, and rewrites what tonic answers by
//! itself, before any handler, about a message that it cannot take.
//!
//! Three answers of tonic are rewritten, and nothing else: a message that does not decode (INTERNAL there) is the
//! caller's mistake, INVALID_FIELD; one over the limit (OUT_OF_RANGE, or RESOURCE_EXHAUSTED if gzip hid its size) is
//! PAYLOAD_TOO_LARGE. Their texts belong to pinned crates, and a test holds them. On a stream the handler sees the
//! status itself, so that sessions answer for themselves.

use std::{
    collections::BTreeSet,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::{Either, MapOk, Ready, TryFutureExt as _, ready};
use http::{Request, Response};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};

use super::status::No;
use crate::metrics::Metrics;

/// The largest message that is decoded, in bytes, on every service. Senders stay under 1 MiB.
pub(crate) const MOST_MESSAGE: usize = 4 * 1024 * 1024;

/// How prost's errors begin.
const UNDECODABLE: &str = "failed to decode Protobuf message: ";
/// What tonic says of a message over the limit.
const TOO_LARGE: &str = "decoded message length too large";
/// What tonic says of a compressed message that is over the limit once it is not.
const TOO_LARGE_INFLATED: &str = "Error decompressing: size limit";

/// The paths of all methods of some descriptor sets: `/package.Service/Method`.
///
/// # Errors
/// If a set is none.
pub(crate) fn paths(sets: &[&[u8]]) -> Result<BTreeSet<String>, prost::DecodeError> {
    let mut paths = BTreeSet::new();
    for set in sets {
        for file in FileDescriptorSet::decode(*set)?.file {
            let package = file.package().to_owned();
            for service in &file.service {
                for method in &service.method {
                    paths.insert(format!("/{package}.{}/{}", service.name(), method.name()));
                }
            }
        }
    }
    Ok(paths)
}

/// Puts [`Gate`] around a service.
#[derive(Debug, Clone)]
pub(crate) struct GateLayer {
    paths: Arc<BTreeSet<String>>,
    metrics: Arc<Metrics>,
}

impl GateLayer {
    pub(crate) fn new(paths: BTreeSet<String>, metrics: Arc<Metrics>) -> Self {
        Self { paths: Arc::new(paths), metrics }
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

impl<S, B> Service<Request<B>> for Gate<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<Body>, S::Error>>, MapOk<S::Future, Rewrite>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        if !self.layer.paths.contains(path) {
            let shown: String = path.chars().take(200).collect();
            let no = No::unknown_method(&shown);
            self.layer.metrics.observe_refusal(no.reason());
            return Either::Left(ready(Ok(no.into_status().into_http())));
        }
        let metrics = Arc::clone(&self.layer.metrics);
        let rewrite: Rewrite = Box::new(move |response| answered(response, &metrics));
        Either::Right(self.inner.call(request).map_ok(rewrite))
    }
}

fn answered(response: Response<Body>, metrics: &Metrics) -> Response<Body> {
    // tonic leaves the status that it answered with beside the response.
    let Some(no) = response.extensions().get::<Status>().and_then(meaning) else { return response };
    metrics.observe_refusal(no.reason());
    no.into_status().into_http()
}

/// The same on a stream, whose handler sees the status itself: what to end it with, if it is one of the three.
pub(crate) fn rewritten(status: &Status) -> Option<Status> {
    meaning(status).map(No::into_status)
}

/// What one of tonic's own answers means, if it is one of the three.
fn meaning(status: &Status) -> Option<No> {
    let message = status.message();
    if status.code() == Code::Internal
        && let Some(rest) = message.strip_prefix(UNDECODABLE)
    {
        let (field, problem) = field_of(rest);
        return Some(No::invalid_field(field, problem));
    }
    let too_large = (status.code() == Code::OutOfRange && message.contains(TOO_LARGE))
        || (status.code() == Code::ResourceExhausted && message.starts_with(TOO_LARGE_INFLATED));
    // Nothing was decoded, so that no field can be named.
    too_large.then(|| No::too_large("message", None, MOST_MESSAGE, "send less at once, at most 1 MiB"))
}

/// prost names the innermost field first, with its message and without list indexes:
/// `JobSpec.kind: EnqueueRequest.job: invalid string value: …` is `job.kind`.
fn field_of(mut rest: &str) -> (String, String) {
    let mut path = Vec::new();
    while let Some((place, behind)) = rest.split_once(": ") {
        let Some((message, field)) = place.split_once('.') else { break };
        let is_message = message.starts_with(|c: char| c.is_ascii_uppercase()) && is_word(message);
        if !is_message || !is_word(field) {
            break;
        }
        path.push(field);
        rest = behind;
    }
    path.reverse();
    let field = if path.is_empty() { "request".to_owned() } else { path.join(".") };
    (field, rest.to_owned())
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use tonic_types::StatusExt as _;

    use super::*;

    #[test]
    fn paths_of_fields_are_turned_around() {
        let cases = [
            (
                "JobSpec.kind: EnqueueRequest.job: invalid string value: x",
                "job.kind",
                "invalid string value: x",
            ),
            ("invalid varint", "request", "invalid varint"),
            ("A.b: c. d: e", "b", "c. d: e"),
            ("a.b: c", "request", "a.b: c"),
            ("", "request", ""),
        ];
        for (text, field, problem) in cases {
            assert_eq!(field_of(text), (field.to_owned(), problem.to_owned()), "{text}");
        }
    }

    #[test]
    fn other_statuses_are_left_alone() {
        for status in [
            Status::internal("could not store it"),
            Status::internal("a text with failed to decode Protobuf message: in it"),
            Status::invalid_argument("failed to decode Protobuf message: x"),
            Status::out_of_range("page"),
            Status::resource_exhausted("QUEUE_FULL"),
            Status::internal("decoded message length too large"),
        ] {
            assert!(rewritten(&status).is_none(), "{status:?}");
        }
    }

    #[test]
    fn a_message_over_the_limit_names_the_limit() {
        let status =
            rewritten(&Status::out_of_range("Error, decoded message length too large: found 9")).unwrap();
        let info = status.get_details_error_info().unwrap();
        assert_eq!((info.reason.as_str(), &*info.metadata["limit_bytes"]), ("PAYLOAD_TOO_LARGE", "4194304"));
    }

    #[test]
    fn paths_are_exactly_those_of_the_descriptors() {
        let paths = paths(&[tenure_proto::FILE_DESCRIPTOR_SET]).unwrap();
        assert!(paths.contains("/tenure.v1.JobService/Enqueue"));
        assert!(paths.contains("/tenure.node.v1.NodeService/Session"));
        assert!(!paths.contains("tenure.v1.JobService/Enqueue"));
        assert!(super::paths(&[b"\xff"]).is_err());
    }
}

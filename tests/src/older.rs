//! An older peer, imitated: a gRPC proxy that knows only what the committed baseline of the protocol knows. What is newer
//! is left out, both ways, as a build of that time would neither send nor read it.
//!
//! Responsible for that only: a call that the baseline lacks is UNIMPLEMENTED, everything else passes as it is. Without
//! TLS, without compression.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Context as _;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::{TryStreamExt as _, future::BoxFuture};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, ReflectMessage as _, Value,
};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint, Server};
use tower::Service;

/// The protocol as the oldest peers that count speak it.
const BASELINE: &[u8] = include_bytes!("../../proto/baseline.binpb");

/// Before each message: whether it is compressed, and its length.
const HEAD: usize = 5;

/// A proxy in front of one server. Dropped, it ends.
#[derive(Debug)]
pub struct Older {
    address: SocketAddr,
    /// One task; a set, so that it ends with this value.
    _serving: JoinSet<()>,
}

impl Older {
    /// Listens on a free port for peers of `server`.
    ///
    /// # Errors
    /// If there is no port, or the baseline cannot be read.
    pub async fn start(server: SocketAddr) -> anyhow::Result<Self> {
        let pool = DescriptorPool::decode(BASELINE).context("the baseline")?;
        let channel = Endpoint::from_shared(format!("http://{server}"))?.connect_lazy();
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port for a proxy")?;
        let address = listener.local_addr()?;
        let routes =
            Routes::from(Routes::default().into_axum_router().fallback_service(Strip { pool, channel }));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let ended =
                Server::builder().add_routes(routes).serve_with_incoming(TcpListenerStream::new(listener));
            if let Err(error) = ended.await {
                eprintln!("the older peer ended: {error}");
            }
        });
        Ok(Self { address, _serving: serving })
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[derive(Clone, Debug)]
struct Strip {
    pool: DescriptorPool,
    channel: Channel,
}

impl Strip {
    fn method(&self, path: &str) -> Option<MethodDescriptor> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        self.pool.get_service_by_name(service)?.methods().find(|known| known.name() == method)
    }
}

impl<B> Service<Request<B>> for Strip
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Some(method) = self.method(request.uri().path()) else {
            let unknown = Status::unimplemented("the baseline has no such call");
            return Box::pin(async move { Ok(unknown.into_http()) });
        };
        let mut channel = self.channel.clone();
        Box::pin(async move {
            let request = request.map(|body| stripped(Body::new(body), method.input()));
            let answer = async {
                std::future::poll_fn(|context| channel.poll_ready(context)).await?;
                channel.call(request).await
            };
            Ok(match answer.await {
                Ok(answer) => answer.map(|body| stripped(body, method.output())),
                Err(error) => Status::unavailable(error.to_string()).into_http(),
            })
        })
    }
}

/// The messages of a body, each without what its description lacks; what is no message (trailers) as it is.
fn stripped(body: Body, kind: MessageDescriptor) -> Body {
    let mut cut = Cut { kind, held: BytesMut::new() };
    let frames = BodyStream::new(body).map(move |frame| {
        frame.and_then(|frame| match frame.into_data() {
            Ok(data) => cut.next(data).map(Frame::data),
            Err(other) => Ok(other),
        })
    });
    let frames: Pin<Box<dyn tokio_stream::Stream<Item = _> + Send>> = Box::pin(frames);
    Body::new(StreamBody::new(frames.map_err(|error: Status| error)).boxed_unsync())
}

#[derive(Debug)]
struct Cut {
    kind: MessageDescriptor,
    /// The begin of a message whose end has not come.
    held: BytesMut,
}

impl Cut {
    /// What the messages that are whole now become.
    fn next(&mut self, data: Bytes) -> Result<Bytes, Status> {
        self.held.extend_from_slice(&data);
        let mut out = BytesMut::new();
        while let Some(head) = self.held.get(1..HEAD) {
            let length = head.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            if self.held.len() < HEAD + length {
                break;
            }
            self.held.advance(HEAD);
            let message = DynamicMessage::decode(self.kind.clone(), self.held.split_to(length))
                .map_err(|error| Status::internal(error.to_string()))?;
            let older = known(&message).encode_to_vec();
            out.put_u8(0);
            out.put_u32(u32::try_from(older.len()).map_err(|error| Status::internal(error.to_string()))?);
            out.put_slice(&older);
        }
        Ok(out.freeze())
    }
}

/// The same message without the fields that its description lacks.
fn known(message: &DynamicMessage) -> DynamicMessage {
    let mut older = DynamicMessage::new(message.descriptor());
    for (field, value) in message.fields() {
        // It has none of the abilities that came later.
        let is_ability = field.full_name() == "tenure.node.v1.Hello.features";
        older.set_field(&field, if is_ability { Value::List(Vec::new()) } else { known_value(value) });
    }
    older
}

fn known_value(value: &Value) -> Value {
    match value {
        Value::Message(message) => Value::Message(known(message)),
        Value::List(values) => Value::List(values.iter().map(known_value).collect()),
        Value::Map(values) => {
            Value::Map(values.iter().map(|(key, value)| (key.clone(), known_value(value))).collect())
        }
        plain @ (Value::Bool(_)
        | Value::I32(_)
        | Value::I64(_)
        | Value::U32(_)
        | Value::U64(_)
        | Value::F32(_)
        | Value::F64(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::EnumNumber(_)) => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use tenure_proto::v1::{JobSpec, Payload};

    use super::*;

    #[test]
    fn what_is_newer_than_the_baseline_is_left_out_however_the_bytes_arrive() {
        let pool = DescriptorPool::decode(BASELINE).unwrap();
        let kind = pool.get_message_by_name("tenure.v1.JobSpec").unwrap();
        let now = DescriptorPool::decode(tenure_proto::FILE_DESCRIPTOR_SET).unwrap();
        let now = now.get_message_by_name("tenure.v1.JobSpec").unwrap();
        let newer = now.fields().find(|field| kind.get_field(field.number()).is_none());
        let newer = newer.expect("a field that is newer, else the proxy shows nothing");
        let payload = Payload { data: Bytes::from_static(b"data"), ..Payload::default() };
        let spec = JobSpec { kind: "shell.task".into(), payload: Some(payload), ..JobSpec::default() };
        let plain = spec.encode_to_vec();
        let mut bytes = plain.clone();
        prost::encoding::string::encode(newer.number(), &"new".to_owned(), &mut bytes);
        let mut wire = vec![0, 0, 0, 0, u8::try_from(bytes.len()).unwrap()];
        wire.extend(&bytes);

        let mut cut = Cut { kind, held: BytesMut::new() };
        let mut out = Vec::new();
        for byte in wire {
            out.extend(cut.next(Bytes::from(vec![byte])).unwrap());
        }
        assert_eq!(out.get(HEAD..), Some(&plain[..]));
    }
}

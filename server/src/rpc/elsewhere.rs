//! Calls to a server that does not lead: what only the leader knows or changes is answered NOT_LEADER, with its address.
//!
//! Responsible for which methods any server answers by itself. Not for who may call (`auth`, which comes before).
//! Invariant: no service sees a call while this server does not lead, but for those methods; so none answers from an
//! empty memory as if it were the leader's.

use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::Either;
use http::{Request, Response};
use tonic::body::Body;
use tower::{Layer, Service};

use super::status::No;
use crate::{handle::Handle, metrics::Metrics};

/// Methods about this server, not about the fleet.
const OWN: [&str; 1] = ["/tenure.v1.AdminService/GetServerInfo"];

/// Puts [`Elsewhere`] around a service.
#[derive(Debug, Clone)]
pub(crate) struct ElsewhereLayer {
    handle: Handle,
    metrics: Arc<Metrics>,
}

impl ElsewhereLayer {
    pub(crate) fn new(handle: Handle, metrics: Arc<Metrics>) -> Self {
        Self { handle, metrics }
    }

    /// The no to a call of this path, if it is not for this server.
    fn no(&self, path: &str) -> Option<No> {
        // Health and reflection of gRPC are each server's own, too.
        if !path.starts_with("/tenure.") || OWN.contains(&path) || self.handle.standing().leads() {
            return None;
        }
        Some(self.handle.elsewhere().into())
    }
}

impl<S> Layer<S> for ElsewhereLayer {
    type Service = Elsewhere<S>;

    fn layer(&self, inner: S) -> Elsewhere<S> {
        Elsewhere { inner, layer: self.clone() }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Elsewhere<S> {
    inner: S,
    layer: ElsewhereLayer,
}

impl<S> Service<Request<Body>> for Elsewhere<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<Body>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.layer.no(request.uri().path()) {
            None => Either::Right(self.inner.call(request)),
            Some(no) => {
                self.layer.metrics.observe_refusal(no.reason());
                Either::Left(ready(Ok(no.into_status().into_http())))
            }
        }
    }
}

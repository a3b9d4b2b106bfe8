//! Answers that go on: they end with a reason once their caller counts for nothing any more.
//!
//! One place for all methods, so that no handler can forget it. Invariant: what was answered before stays answered; the
//! end is a status like any other.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::{Status, body::Body};

use super::Caller;
use crate::{metrics::Metrics, rpc::status::No};

/// The body of an answer, for as long as its caller may hear it.
pub(super) fn guarded(inner: Body, caller: Caller, metrics: Arc<Metrics>) -> Body {
    // A refusal is over already.
    if http_body::Body::is_end_stream(&inner) {
        return inner;
    }
    let revoked = Box::pin(async move { caller.revoked().await });
    Body::new(Live { inner: Some(inner), revoked, metrics })
}

struct Live {
    /// None, once it was cut off.
    inner: Option<Body>,
    revoked: Pin<Box<dyn Future<Output = No> + Send>>,
    metrics: Arc<Metrics>,
}

impl http_body::Body for Live {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        // Before the answers: however many there are, they end.
        let Poll::Ready(no) = this.revoked.as_mut().poll(context) else {
            return Pin::new(inner).poll_frame(context);
        };
        this.inner = None;
        this.metrics.observe_refusal(no.reason());
        let mut trailers = HeaderMap::new();
        let frame = no.into_status().add_header(&mut trailers).map(|()| Frame::trailers(trailers));
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map(http_body::Body::size_hint).unwrap_or_default()
    }
}

//! The answer of the leader on its way through a server that follows.
//!
//! Invariant: it ends with a status: the leader's, or NOT_LEADER if the leader is gone before it came to that.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Status, body::Body};

use super::gone;
use crate::metrics::Metrics;

/// Ends with the leader.
type Gone = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The body of an answer. It holds a place until it is over.
pub(super) fn handed_on(inner: Body, gone: Gone, place: OwnedSemaphorePermit, metrics: Arc<Metrics>) -> Body {
    // A refusal is over already.
    if inner.is_end_stream() {
        return inner;
    }
    Body::new(HandedOn { inner: Some(inner), gone, metrics, _place: place })
}

struct HandedOn {
    /// None, once it is over.
    inner: Option<Body>,
    gone: Gone,
    metrics: Arc<Metrics>,
    _place: OwnedSemaphorePermit,
}

impl http_body::Body for HandedOn {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        // What the leader has said is handed on before its end is.
        match Pin::new(inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => return Poll::Ready(Some(Ok(frame))),
            Poll::Ready(None) => {
                this.inner = None;
                return Poll::Ready(None);
            }
            Poll::Ready(Some(Err(status))) => {
                tracing::debug!(error = %status, "an answer of the leader broke off");
            }
            Poll::Pending => std::task::ready!(this.gone.as_mut().poll(context)),
        }
        this.inner = None;
        let no = gone();
        this.metrics.observe_refusal(no.reason());
        let mut trailers = HeaderMap::new();
        let frame = no.into_status().add_header(&mut trailers).map(|()| Frame::trailers(trailers));
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        // How much is left of an answer that may break off is not known.
        SizeHint::default()
    }
}

//! Spans of the server: one for each call, one for each turn that commits, and one for its commit.
//!
//! A call's span goes on with the trace of its caller. A turn serves many calls, so that it is a trace of its own, linked
//! to theirs. Spans are made by the OpenTelemetry API alone; whoever starts the process sets the global provider that
//! exports them. Not responsible for the trace context that is stored with a job (`rpc/convert/trace.rs`).
//!
//! Invariants: without tracing nothing is allocated and no clock is read; no span carries a payload, a result, a
//! metadata value or a text of a job.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::HeaderMap;
use opentelemetry::{
    Context, KeyValue,
    global::{self, BoxedSpan, BoxedTracer},
    trace::{
        Link, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _,
        TraceFlags, TraceId, TraceState, Tracer as _,
    },
};
use tenure_proto::trace_context::Traceparent;
use tenure_scheduler::{Epoch, Wall};
use tonic::Code;

/// Calls that a turn is linked to. The rest of a larger turn is only counted.
pub(crate) const MOST_LINKS: usize = 32;

/// Makes spans, or none. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spans(Option<Arc<BoxedTracer>>);

/// The span of a turn that commits, with that of its commit. Dropped, both end.
#[derive(Debug)]
pub(crate) struct TurnSpans {
    turn: BoxedSpan,
    commit: BoxedSpan,
}

impl Spans {
    /// Spans by the global provider, if they are wanted at all.
    pub(crate) fn new(wanted: bool) -> Self {
        Self(wanted.then(|| Arc::new(global::tracer("tenure-server"))))
    }

    /// The span of a call, as the context that the call runs in.
    pub(crate) fn call(&self, path: &str, headers: &HeaderMap) -> Option<Context> {
        let tracer = self.0.as_ref()?;
        let method = path.trim_start_matches('/').to_owned();
        let attributes =
            [KeyValue::new("rpc.system.name", "grpc"), KeyValue::new("rpc.method", method.clone())];
        let builder = SpanBuilder::from_name(method).with_kind(SpanKind::Server).with_attributes(attributes);
        let parent = parent(headers)
            .map_or_else(Context::new, |caller| Context::new().with_remote_span_context(caller));
        let span = tracer.build_with_context(builder, &parent);
        Some(Context::new().with_span(span))
    }

    /// The spans of a turn that began at `began` and goes into its commit now.
    pub(crate) fn turn(
        &self,
        began: Wall,
        epoch: Epoch,
        commands: u64,
        calls: &[Arc<SpanContext>],
    ) -> Option<TurnSpans> {
        let tracer = self.0.as_ref()?;
        let commands = i64::try_from(commands).unwrap_or(i64::MAX);
        let epoch = i64::try_from(epoch.0).unwrap_or(i64::MAX);
        let builder = SpanBuilder::from_name("turn")
            .with_kind(SpanKind::Internal)
            .with_start_time(instant(began))
            .with_attributes([KeyValue::new("epoch", epoch), KeyValue::new("commands", commands)])
            .with_links(calls.iter().map(|call| Link::with_context(SpanContext::clone(call))).collect());
        let turn = tracer.build_with_context(builder, &Context::new());
        // The remote one is this process's own; the API knows no other way to a parent that is not moved.
        let under = Context::new().with_remote_span_context(turn.span_context().clone());
        let builder = SpanBuilder::from_name("commit").with_kind(SpanKind::Client);
        let commit = tracer.build_with_context(builder, &under);
        Some(TurnSpans { turn, commit })
    }
}

impl TurnSpans {
    /// The commit is settled: done; or it failed, or nobody knows what became of it.
    pub(crate) fn committed(&mut self, done: bool) {
        if !done {
            self.commit.set_status(Status::error("the commit failed"));
            self.turn.set_status(Status::error("the commit failed"));
        }
        self.commit.end();
    }
}

/// How a call ended.
pub(crate) fn answered(call: &Context, code: Code) {
    let span = call.span();
    span.set_attribute(KeyValue::new("rpc.response.status_code", name(code)));
    // Of the others the caller is at fault: to the server they are no error.
    if matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    ) {
        span.set_attribute(KeyValue::new("error.type", name(code)));
        span.set_status(Status::error(name(code)));
    }
    span.end();
}

/// The span of the call that this code runs for, if it has one that is recorded.
pub(crate) fn current_call() -> Option<SpanContext> {
    Context::map_current(|context| {
        let recorded = context.has_active_span() && context.span().span_context().is_sampled();
        recorded.then(|| context.span().span_context().clone())
    })
}

/// What the caller says it is in. Malformed: nothing, as the standard asks.
fn parent(headers: &HeaderMap) -> Option<SpanContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let parsed =
        Traceparent::parse(parents.next()?.to_str().ok()?).ok().filter(|_| parents.next().is_none())?;
    let states: Option<Vec<&str>> =
        headers.get_all("tracestate").iter().map(|state| state.to_str().ok()).collect();
    let state = states.and_then(|states| states.join(",").parse::<TraceState>().ok()).unwrap_or_default();
    let (trace, span) = (TraceId::from(parsed.trace_id), SpanId::from(parsed.span_id));
    Some(SpanContext::new(trace, span, TraceFlags::new(parsed.flags), true, state))
}

fn instant(at: Wall) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(at.0).unwrap_or(0))
}

/// As the conventions spell it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

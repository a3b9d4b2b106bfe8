//! Spans of attempts.
//!
//! An attempt is a trace of its own, for it may begin long after its enqueue and more than once; it is linked to the
//! enqueue, whose trace context came with the grant. Its command goes on with it by TRACEPARENT. Spans are made by the
//! OpenTelemetry API alone; whoever starts the process sets the global provider that exports them.
//!
//! Invariants: without tracing nothing is made, and the command gets what its producer sent; no span carries a payload, a
//! result, output, or a text that a job wrote.

use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
    Tracer as _,
};
use opentelemetry::{
    Context, KeyValue,
    global::{self, BoxedSpan},
};
use tenure_proto::node::v1::{FinishedOutcome, Grant, Report, report};
use tenure_proto::trace_context::Traceparent;

use crate::own_rule::OwnRule;

/// Makes the spans of attempts, or none.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// The node that they say they ran on. None: no spans.
    pub node: Option<String>,
}

/// The span of one attempt, or none. Dropped, it ends.
#[derive(Debug, Default)]
pub(crate) struct AttemptSpan(Option<BoxedSpan>);

impl Spans {
    /// The span of the attempt that a grant begins.
    pub(crate) fn attempt(&self, grant: &Grant) -> AttemptSpan {
        let Some(node) = &self.node else { return AttemptSpan(None) };
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let attributes = [
            KeyValue::new("messaging.system", "tenure"),
            KeyValue::new("messaging.operation.name", "process"),
            KeyValue::new("messaging.operation.type", "process"),
            KeyValue::new("messaging.destination.name", grant.kind.clone()),
            KeyValue::new("messaging.message.id", grant.job_id.clone()),
            KeyValue::new("job.id", grant.job_id.clone()),
            KeyValue::new("job.kind", grant.kind.clone()),
            KeyValue::new("job.attempt", i64::from(grant.attempt)),
            KeyValue::new("lease.token", number(grant.token)),
            KeyValue::new("node.id", node.clone()),
        ];
        let enqueue = enqueue(grant).map(Link::with_context);
        let builder = SpanBuilder::from_name(format!("process {}", grant.kind))
            .with_kind(SpanKind::Consumer)
            .with_attributes(attributes)
            .with_links(enqueue.into_iter().collect());
        let tracer = global::tracer("tenure-node-agent");
        AttemptSpan(Some(tracer.build_with_context(builder, &Context::new())))
    }
}

impl AttemptSpan {
    /// The grant as its command is to see it: within the span of its attempt, if there is one.
    pub(crate) fn enter(&self, mut grant: Grant) -> Grant {
        let context = self.0.as_ref().map(BoxedSpan::span_context).filter(|context| context.is_valid());
        if let Some(context) = context {
            let parent = Traceparent {
                trace_id: u128::from_be_bytes(context.trace_id().to_bytes()),
                span_id: u64::from_be_bytes(context.span_id().to_bytes()),
                flags: context.trace_flags().to_u8(),
            };
            grant.traceparent = parent.to_string();
            grant.tracestate = context.trace_state().header();
        }
        grant
    }

    /// Its command runs.
    pub(crate) fn started(&mut self) {
        if let Some(span) = &mut self.0 {
            span.add_event("started", Vec::new());
        }
    }

    /// Nothing was started and nothing will be.
    pub(crate) fn never_started(&mut self, rule: OwnRule) {
        self.end("returned", &rule.to_string(), false);
    }

    /// It ended, as its report says.
    pub(crate) fn reported(&mut self, report: &Report) {
        match &report.event {
            Some(report::Event::Finished(finished)) => {
                let failed = match finished.outcome() {
                    FinishedOutcome::Succeeded | FinishedOutcome::Revoked | FinishedOutcome::Detached => {
                        false
                    }
                    FinishedOutcome::Unspecified
                    | FinishedOutcome::Failed
                    | FinishedOutcome::FailedPermanent
                    | FinishedOutcome::TimedOut
                    | FinishedOutcome::Stalled
                    | FinishedOutcome::Lost => true,
                };
                let outcome = finished.outcome().as_str_name().trim_start_matches("FINISHED_OUTCOME_");
                self.end(&outcome.to_ascii_lowercase(), &finished.cause, failed);
            }
            Some(report::Event::Returned(returned)) => self.end("returned", &returned.rule, false),
            Some(_) | None => {}
        }
    }

    fn end(&mut self, outcome: &str, reason: &str, failed: bool) {
        let Some(mut span) = self.0.take() else { return };
        span.set_attribute(KeyValue::new("outcome", outcome.to_owned()));
        span.set_attribute(KeyValue::new("reason", reason.to_owned()));
        if failed {
            span.set_attribute(KeyValue::new("error.type", reason.to_owned()));
            span.set_status(Status::error(outcome.to_owned()));
        }
        span.end();
    }
}

/// The span of the enqueue. The server has checked it; a text that is none makes no link.
fn enqueue(grant: &Grant) -> Option<SpanContext> {
    let parsed = Traceparent::parse(&grant.traceparent).ok()?;
    let state = grant.tracestate.parse::<TraceState>().unwrap_or_default();
    let (trace, span) = (TraceId::from(parsed.trace_id), SpanId::from(parsed.span_id));
    Some(SpanContext::new(trace, span, TraceFlags::new(parsed.flags), true, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn without_spans_a_command_gets_what_its_producer_sent() {
        let grant =
            Grant { traceparent: PARENT.to_owned(), tracestate: "rojo=1".to_owned(), ..Grant::default() };
        let span = Spans::default().attempt(&grant);
        assert_eq!(span.enter(grant.clone()), grant);
    }

    #[test]
    fn the_enqueue_is_read_from_the_grant() {
        let grant =
            Grant { traceparent: PARENT.to_owned(), tracestate: "rojo=1".to_owned(), ..Grant::default() };
        let context = enqueue(&grant).unwrap();
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span_id().to_string(), "b7ad6b7169203331");
        assert!(context.is_sampled() && context.is_remote());
        assert_eq!(context.trace_state().header(), "rojo=1");
        assert!(enqueue(&Grant::default()).is_none());
    }
}

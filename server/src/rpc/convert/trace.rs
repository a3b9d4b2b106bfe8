//! The trace context of an enqueue: of its spec, where a malformed one is refused, or of the call's metadata, where it is
//! ignored, as the standard asks: a proxy on the way must not be able to fail a call.

use std::sync::Arc;

use tenure_proto::trace_context::{self, Malformed, Traceparent};
use tenure_scheduler::TraceContext;
use tonic::metadata::MetadataMap;

use crate::{rpc::check::Checks, trace};

/// What a spec names.
pub(crate) fn of_spec(checks: &mut Checks, parent: &str, state: &str) -> Option<Arc<TraceContext>> {
    let mut refuse = |field, problem: Malformed| checks.refuse(field, problem.0);
    if !state.is_empty() {
        if let Err(problem) = trace_context::check_state(state) {
            refuse("job.tracestate", problem);
        } else if parent.is_empty() {
            refuse("job.tracestate", Malformed("stands without a traceparent"));
        }
    }
    if parent.is_empty() {
        return None;
    }
    if let Err(problem) = Traceparent::parse(parent) {
        refuse("job.traceparent", problem);
    }
    Some(context(parent, Some(state).filter(|state| !state.is_empty())))
}

/// The trace context of a call: of its metadata, else of the span that this server records for it.
pub(crate) fn of_call(metadata: &MetadataMap) -> Option<Arc<TraceContext>> {
    of_metadata(metadata).or_else(|| {
        let span = trace::current_call()?;
        let parent = Traceparent {
            trace_id: u128::from_be_bytes(span.trace_id().to_bytes()),
            span_id: u64::from_be_bytes(span.span_id().to_bytes()),
            flags: span.trace_flags().to_u8(),
        };
        Some(context(&parent.to_string(), None))
    })
}

/// What the metadata of a call names, as instrumented clients send it. A state that is malformed is left out; without a
/// parent nothing counts.
fn of_metadata(metadata: &MetadataMap) -> Option<Arc<TraceContext>> {
    let mut parents = metadata.get_all("traceparent").iter();
    let parent = parents.next()?.to_str().ok().filter(|_| parents.next().is_none())?;
    Traceparent::parse(parent).ok()?;
    let states: Option<Vec<&str>> =
        metadata.get_all("tracestate").iter().map(|state| state.to_str().ok()).collect();
    let state =
        states.map(|states| states.join(",")).filter(|state| trace_context::check_state(state).is_ok());
    Some(context(parent, state.as_deref()))
}

fn context(parent: &str, state: Option<&str>) -> Arc<TraceContext> {
    Arc::new(TraceContext { parent: parent.into(), state: state.map(Into::into) })
}

#[cfg(test)]
mod tests {
    use tonic::metadata::MetadataValue;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn of(headers: &[(&'static str, &'static str)]) -> Option<(String, Option<String>)> {
        let mut metadata = MetadataMap::new();
        for (name, value) in headers {
            metadata.append(*name, MetadataValue::from_static(value));
        }
        let context = of_metadata(&metadata)?;
        Some((context.parent.to_string(), context.state.as_ref().map(ToString::to_string)))
    }

    #[test]
    fn metadata_that_is_malformed_is_ignored() {
        let parent = ("traceparent", PARENT);
        assert_eq!(of(&[parent]), Some((PARENT.to_owned(), None)));
        assert_eq!(
            of(&[parent, ("tracestate", "a=1"), ("tracestate", "b=2")]),
            Some((PARENT.to_owned(), Some("a=1,b=2".to_owned())))
        );
        assert_eq!(
            of(&[parent, ("tracestate", "a=1"), ("tracestate", "nothing")]),
            Some((PARENT.to_owned(), None))
        );
        assert_eq!(of(&[parent, parent]), None);
        assert_eq!(of(&[("traceparent", "00-ab-cd-01"), ("tracestate", "a=1")]), None);
        assert_eq!(of(&[("tracestate", "a=1")]), None);
    }
}

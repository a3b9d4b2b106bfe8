-- Why: the vendors' part of the trace context of an enqueue travels with its job, beside `traceparent`. Locks: the
-- database, for a moment; no row is rewritten. Contracted by: nothing.

alter table jobs add column
  tracestate         text                        -- W3C tracestate of its enqueue, beside traceparent
  constraint jobs_state_of_a_trace check (tracestate is null or traceparent is not null);

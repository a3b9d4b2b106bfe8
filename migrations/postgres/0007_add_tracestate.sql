-- Why: the vendors' part of the trace context of an enqueue travels with its job, beside `traceparent`. Locks: jobs
-- exclusively, for a moment; no row is rewritten. Contracted by: nothing.

alter table jobs
  add column tracestate text,
  add constraint jobs_state_of_a_trace check (tracestate is null or traceparent is not null) not valid;
comment on column jobs.tracestate is 'W3C tracestate of its enqueue, beside traceparent';

-- Why: a producer in the same Postgres enqueues in its own transaction. A SQLite file has one process: nobody but the server
-- could insert here, so there is no function, and the tables, which are always empty, are here for the two schemas to be one.
-- Locks: nothing that exists. Contracted by: nothing; the version before knows no inbox.

-- What producers in the same Postgres enqueue in their own transactions. Here always empty.
create table inbox (
  seq                integer not null, -- the order of insertion, which need not be that of the commits
  role               text    not null, -- who inserted it: the role that logged in, as the database says
  inserted_at        integer not null, -- when, by the clock of the database; compared with nothing but that clock
  job_id             text    not null, -- a UUID v7; under it a row that is ingested again is the same job
  kind               text    not null, -- its kind
  payload            blob    not null, -- its payload
  content_type       text    not null, -- a media type; may be empty
  dedupe_key         text, -- null: none
  tenant             text, -- null: that of the producer
  priority           integer, -- null: that of the kind
  run_at             integer, -- not to be started before; null: at once
  delay_ms           integer, -- not to be started before so long after inserted_at; null: at once
  stale_after_ms     integer, -- not worth starting so long after inserted_at; null: that of the kind
  labels             text, -- JSON, text to text; null: none
  selector           text, -- JSON, label to value; null: none
  needs              text, -- JSON, slot to units; null: those of the kind
  concurrency_key    text, -- null: none
  hard_time_limit_ms integer, -- null: that of the kind
  soft_time_limit_ms integer, -- null: that of the kind
  traceparent        text, -- a W3C traceparent; null: none
  constraint inbox_pkey primary key (seq),
  constraint inbox_payload_in_bounds check (length(payload) <= 262144),
  constraint inbox_texts_in_bounds check (
    length(cast(role as blob)) <= 63 and length(cast(kind as blob)) <= 255 and length(cast(content_type as blob)) <= 255
    and length(cast(coalesce(dedupe_key, '') as blob)) <= 255 and length(cast(coalesce(tenant, '') as blob)) <= 255
    and length(cast(coalesce(concurrency_key, '') as blob)) <= 256
    and length(cast(coalesce(traceparent, '') as blob)) <= 128
  ),
  constraint inbox_maps_in_bounds check (
    length(coalesce(labels, '')) <= 65536 and length(coalesce(selector, '')) <= 65536
    and length(coalesce(needs, '')) <= 65536
  ),
  constraint inbox_run_at_in_bounds check (run_at >= 0 and run_at < 253402300800000000)
) strict;

create index inbox_by_kind on inbox (kind, seq);

-- Rows of the inbox that became no job, with the reason. Here always empty.
create table inbox_refusals (
  seq         integer not null, -- that of the row
  role        text    not null, -- who inserted it
  producer    text    not null, -- as whom it would have enqueued
  inserted_at integer not null, -- when it was inserted, by the clock of the database
  refused_at  integer not null, -- when it was refused
  job_id      text    not null, -- the id that the job would have had; there is none under it
  kind        text    not null, -- its kind, as it was asked for
  dedupe_key  text, -- null: none
  reason      text    not null, -- the reason, as an RPC would be told it
  message     text    not null, -- the same as a sentence
  entry       text, -- JSON, the row whole, so that it can be brought back; null: it was refused for what it asks for
  constraint inbox_refusals_pkey primary key (seq)
) strict;

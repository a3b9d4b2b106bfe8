-- Why: how fast units of a fleet slot may be granted, and what its bucket lacks, so that a later leader goes on from
-- there. Locks: slots exclusively, for a moment; no row is rewritten. Contracted by: nothing.

alter table slots
  add column rate_tokens bigint,
  add column rate_per_us bigint,
  add column rate_burst bigint,
  add column rate_full_at timestamptz,
  add constraint slots_rate_from_one check (rate_tokens >= 1),
  add constraint slots_rate_has_its_time check ((rate_per_us is null) = (rate_tokens is null)),
  add constraint slots_rate_has_its_burst check ((rate_burst is null) = (rate_tokens is null)),
  add constraint slots_bucket_of_a_rate check (rate_full_at is null or rate_tokens is not null);
comment on column slots.rate_tokens is 'units that may be granted in each rate_per_us; null: no rate';
comment on column slots.rate_per_us is 'the time of rate_tokens';
comment on column slots.rate_burst is 'units that may be granted at once after a time of rest';
comment on column slots.rate_full_at is 'when its bucket is full again; null: it is';

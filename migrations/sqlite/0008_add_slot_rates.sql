-- Why: how fast units of a fleet slot may be granted, and what its bucket lacks, so that a later leader goes on from
-- there. Locks: the database, for a moment; no row is rewritten. Contracted by: nothing.

alter table slots add column
  rate_tokens  integer                           -- units that may be granted in each rate_per_us; null: no rate
  constraint slots_rate_from_one check (rate_tokens >= 1);
alter table slots add column
  rate_per_us  integer                           -- the time of rate_tokens
  constraint slots_rate_has_its_time check ((rate_per_us is null) = (rate_tokens is null));
alter table slots add column
  rate_burst   integer                           -- units that may be granted at once after a time of rest
  constraint slots_rate_has_its_burst check ((rate_burst is null) = (rate_tokens is null));
alter table slots add column
  rate_full_at integer                           -- when its bucket is full again; null: it is
  constraint slots_bucket_of_a_rate check (rate_full_at is null or rate_tokens is not null);

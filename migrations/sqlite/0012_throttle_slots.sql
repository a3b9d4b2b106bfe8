-- Why: a job may say that the provider for which a fleet slot stands wants no more for a while. Locks: the database, for a
-- moment; no row is rewritten. Contracted by: nothing.

alter table slots add column
  throttled_until integer                        -- nothing that needs it may start until then: its provider said so
  constraint slots_throttled_of_the_fleet check (throttled_until is null or scope = 'fleet');

-- Why: a lease of a gone instance or boot of its node runs out under any leader, so the row says that it is one.
-- Locks: the file for an instant; no row is rewritten. Contracted by: nothing; the default lets the version before write.

alter table leases add column
  orphaned integer not null default 0 -- 1: another instance or boot of its node said Hello; it runs out, whoever lists it
  constraint leases_flags_are_flags check (orphaned in (0, 1));

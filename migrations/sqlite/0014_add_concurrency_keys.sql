-- Why: of the jobs of a kind that name the same key only so many run at once; the lease says that it holds the key, for as
-- long as it does. Locks: the file for an instant; no row is rewritten. Contracted by: nothing; to the version before it
-- limits nothing.

alter table jobs add column
  concurrency_key text; -- what it shares with jobs of its tenant and kind that may not all run at once

alter table leases add column
  concurrency_key text; -- of the job, while it is held

-- Why: of the jobs of a kind that name the same key only so many run at once; the lease says that it holds the key, for as
-- long as it does. Locks: jobs and leases for an instant; no row is rewritten. Contracted by: nothing; to the server before
-- it limits nothing.

alter table jobs add column concurrency_key text;
comment on column jobs.concurrency_key is 'what it shares with jobs of its tenant and kind that may not all run at once';

alter table leases add column concurrency_key text;
comment on column leases.concurrency_key is 'of the job, while it is held';

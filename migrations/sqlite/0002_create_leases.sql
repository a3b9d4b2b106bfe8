-- Why: the right to run one attempt, with what it holds. Locks: a new database only. Contracted by: nothing.

-- A row lives from the grant until its process tree is gone, past its end as phase unreaped, which charges node slots
-- only. No foreign key to jobs: a lease outlives its final or deleted job. Its expiry is stored nowhere.
create table leases (
  token       integer not null, -- its identity, epoch << 40 | n
  job_id      text    not null, -- the job; it may be gone
  kind        text    not null, -- of the job, for people
  node        text    not null, -- who holds it
  length_us   integer not null, -- how long it lasts without a renewal, fixed at the grant
  reservation text    not null, -- JSON, {node: slot -> units, fleet: slot -> units}
  attempt     integer not null, -- the number of the attempt
  round       integer not null, -- of the job
  granted_at  integer not null, -- when it was granted
  phase       text    not null, -- granted: no outcome yet; finished: not reaped yet; unreaped: over
  constraint leases_pkey primary key (token),
  constraint leases_phase_is_known check (phase in ('granted', 'finished', 'unreaped')),
  constraint leases_token_from_one check (token > 0),
  constraint leases_attempt_from_one check (attempt >= 1 and round >= 1)
) strict;

-- The second wall of "at most one live lease per job".
create unique index leases_one_live_per_job on leases (job_id) where phase <> 'unreaped';

-- Why: the right to run one attempt, with what it holds. Locks: a new database only. Contracted by: nothing.

-- Few rows that come and go with every turn: vacuum counts rows, not a share of them. Truncating would lock out commits.
create table leases (
  token bigint not null,
  job_id uuid not null,
  kind text collate "C" not null,
  node text collate "C" not null,
  length_us bigint not null,
  reservation jsonb not null,
  attempt bigint not null,
  round bigint not null,
  granted_at timestamptz not null,
  phase text not null,
  constraint leases_pkey primary key (token),
  constraint leases_phase_is_known check (phase in ('granted', 'finished', 'unreaped')),
  constraint leases_token_from_one check (token > 0),
  constraint leases_attempt_from_one check (attempt >= 1 and round >= 1)
)
with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);
comment on table leases is
  'The right to run one attempt. A row lives from the grant until its process tree is gone, past its end as phase unreaped,
  which charges node slots only. No foreign key to jobs: a lease outlives its final or deleted job. Its expiry is stored
  nowhere.';
comment on column leases.token is 'its identity, epoch << 40 | n';
comment on column leases.job_id is 'the job; it may be gone';
comment on column leases.kind is 'of the job, for people';
comment on column leases.node is 'who holds it';
comment on column leases.length_us is 'how long it lasts without a renewal, fixed at the grant';
comment on column leases.reservation is 'JSON, {node: slot -> units, fleet: slot -> units}';
comment on column leases.attempt is 'the number of the attempt';
comment on column leases.round is 'of the job';
comment on column leases.granted_at is 'when it was granted';
comment on column leases.phase is 'granted: no outcome yet; finished: not reaped yet; unreaped: over';

-- The second wall of "at most one live lease per job".
create unique index leases_one_live_per_job on leases (job_id) where phase <> 'unreaped';

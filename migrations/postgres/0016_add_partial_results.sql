-- Why: an attempt is asked to wrap up before it is killed. What it has written by then is a partial result; what it saved
-- meanwhile is the checkpoint that the next attempt goes on from: one a job, the newest.
-- Locks: jobs, attempts and results exclusively, for a moment; no row is rewritten. Contracted by: nothing; the defaults
-- let the version before write.

alter table jobs add column soft_time_limit_us bigint;
comment on column jobs.soft_time_limit_us is 'shorter than its kind''s; null: its kind''s';

alter table attempts
  add column partial boolean not null default false,
  add column checkpoint_size bigint,
  add constraint attempts_checkpoint_has_a_size check (checkpoint_size >= 0) not valid;
comment on column attempts.partial is 'what it left as its result is partial';
comment on column attempts.checkpoint_size is
  'bytes of the newest checkpoint that it is known to have saved; null: none';

alter table results add column partial boolean not null default false;
comment on column results.partial is
  'the execution had been asked to wrap up, or was killed, before it was done';

create table checkpoints (
  job_id uuid not null,
  token bigint not null,
  data bytea not null,
  created_at timestamptz not null,
  constraint checkpoints_pkey primary key (job_id),
  constraint checkpoints_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
);
comment on table checkpoints is 'The newest checkpoint of a job.';
comment on column checkpoints.job_id is 'the job';
comment on column checkpoints.token is 'of the lease of the execution that saved it';
comment on column checkpoints.data is 'opaque to the server';
comment on column checkpoints.created_at is 'when it was stored';

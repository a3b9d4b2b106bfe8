-- Why: the end of what an execution printed is read after its node has let go of it, or is gone.
-- Locks: nothing that exists for longer than a moment. Contracted by: nothing; the version before knows no such table.

create table log_tails (
  job_id uuid not null,
  token bigint not null,
  stdout_bytes bigint not null,
  stdout_tail bytea not null,
  stderr_bytes bigint not null,
  stderr_tail bytea not null,
  created_at timestamptz not null,
  constraint log_tails_pkey primary key (job_id, token),
  constraint log_tails_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade,
  constraint log_tails_bytes_not_negative check (stdout_bytes >= 0 and stderr_bytes >= 0)
);
comment on table log_tails is 'The end of what executions printed; none of those that printed nothing.';
comment on column log_tails.job_id is 'the job';
comment on column log_tails.token is 'of the lease of the execution';
comment on column log_tails.stdout_bytes is 'how many bytes it printed to standard output';
comment on column log_tails.stdout_tail is 'the last of them; any bytes';
comment on column log_tails.stderr_bytes is 'how many bytes it printed to standard error';
comment on column log_tails.stderr_tail is 'the last of them; any bytes';
comment on column log_tails.created_at is 'when it was stored';

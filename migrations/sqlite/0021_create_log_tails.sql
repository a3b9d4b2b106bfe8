-- Why: the end of what an execution printed is read after its node has let go of it, or is gone.
-- Locks: the file for an instant. Contracted by: nothing; the version before knows no such table.

-- The end of what executions printed; none of those that printed nothing.
create table log_tails (
  job_id       text    not null, -- the job
  token        integer not null, -- of the lease of the execution
  stdout_bytes integer not null, -- how many bytes it printed to standard output
  stdout_tail  blob    not null, -- the last of them; any bytes
  stderr_bytes integer not null, -- how many bytes it printed to standard error
  stderr_tail  blob    not null, -- the last of them; any bytes
  created_at   integer not null, -- when it was stored
  constraint log_tails_pkey primary key (job_id, token),
  constraint log_tails_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade,
  constraint log_tails_bytes_not_negative check (stdout_bytes >= 0 and stderr_bytes >= 0)
) strict;

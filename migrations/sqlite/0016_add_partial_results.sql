-- Why: an attempt is asked to wrap up before it is killed. What it has written by then is a partial result; what it saved
-- meanwhile is the checkpoint that the next attempt goes on from: one a job, the newest.
-- Locks: the file for an instant; no row is rewritten. Contracted by: nothing; the defaults let the version before write.

alter table jobs add column
  soft_time_limit_us integer; -- shorter than its kind's; null: its kind's

alter table attempts add column
  partial integer not null default 0 -- 1: what it left as its result is partial
  constraint attempts_partial_flags_are_flags check (partial in (0, 1));

alter table attempts add column
  checkpoint_size integer -- bytes of the newest checkpoint that it is known to have saved; null: none
  constraint attempts_checkpoint_has_a_size check (checkpoint_size >= 0);

alter table results add column
  partial integer not null default 0 -- 1: the execution had been asked to wrap up, or was killed, before it was done
  constraint results_partial_flags_are_flags check (partial in (0, 1));

-- The newest checkpoint of a job.
create table checkpoints (
  job_id     text    not null, -- the job
  token      integer not null, -- of the lease of the execution that saved it
  data       blob    not null, -- opaque to the server
  created_at integer not null, -- when it was stored
  constraint checkpoints_pkey primary key (job_id),
  constraint checkpoints_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
) strict;

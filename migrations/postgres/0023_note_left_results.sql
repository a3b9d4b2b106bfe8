-- Why: of a job that has succeeded it is noted whether it left a result: whoever asks for one that is not there is told
-- whether there was none, or is none any more. Locks: jobs exclusively, for a moment; no row is rewritten.
-- Contracted by: nothing; the default lets the version before write, of whose jobs nobody knows.

alter table jobs
  add column left_result boolean,
  add constraint jobs_left_result_of_a_success check (left_result is null or state = 'succeeded') not valid;
comment on column jobs.left_result is
  'succeeded: whether it left a result, kept still or not; null: it has not succeeded, or nobody noted it';

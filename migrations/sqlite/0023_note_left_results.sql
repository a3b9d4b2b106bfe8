-- Why: of a job that has succeeded it is noted whether it left a result: whoever asks for one that is not there is told
-- whether there was none, or is none any more. Locks: the file, for as long as one scan of jobs takes, for the new check; no
-- row is rewritten. Contracted by: nothing; the default lets the version before write, of whose jobs nobody knows.

alter table jobs add column
  left_result integer -- succeeded: whether it left a result, kept still or not; null: it has not succeeded, or nobody noted it
  constraint jobs_left_flags_are_flags check (left_result in (0, 1))
  constraint jobs_left_result_of_a_success check (left_result is null or state = 'succeeded');

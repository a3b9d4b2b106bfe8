-- Why: a result over the inline limit stands in object storage, and its row names it: size and checksum. The row is what
-- makes an object wanted; one without is swept.
-- Locks: results exclusively, for as long as one scan of it takes, since its new index, though over no row yet, is built
-- beneath that lock; no row is rewritten. Contracted by: nothing; the version before writes inline results only, and shows
-- one in object storage as empty.

alter table results
  add column object_size bigint,
  add column object_sha256 text,
  add constraint results_objects_are_named check ((object_size is null) = (object_sha256 is null)) not valid,
  add constraint results_objects_have_a_size check (object_size >= 0) not valid;
comment on column results.object_size is 'bytes of its object, which then stand in object storage and not in data; null: they are in data';
comment on column results.object_sha256 is 'the SHA-256 of its object, in hex; null: there is none';

-- What object storage has to have, in order.
create index results_objects on results (job_id, token) where object_size is not null;

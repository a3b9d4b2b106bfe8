-- Why: what attempts used, as they reported it, and what of its budget a kind has spent so. Locks: kinds and attempts
-- exclusively, for a moment; no row is rewritten. Contracted by: nothing.

alter table kinds
  add column spent jsonb,
  add constraint kinds_spent_is_an_object check (jsonb_typeof(spent) = 'object');
alter table attempts
  add column usage jsonb,
  add constraint attempts_usage_is_an_object check (jsonb_typeof(usage) = 'object') not valid;
comment on column kinds.spent is 'JSON, counter -> {since, amount}: spent in the window that began then';
comment on column attempts.usage is 'JSON, counter -> what it used, as it reported; null: nothing';

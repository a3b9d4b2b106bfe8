-- Why: what attempts used, as they reported it, and what of its budget a kind has spent so. Locks: the database, for a
-- moment; no row is rewritten. Contracted by: nothing.

alter table kinds add column
  spent text                                     -- JSON, counter -> {since, amount}: spent in the window that began then
  constraint kinds_spent_is_an_object check (json_type(spent) = 'object');
alter table attempts add column
  usage text                                     -- JSON, counter -> what it used, as it reported; null: nothing
  constraint attempts_usage_is_an_object check (json_type(usage) = 'object');

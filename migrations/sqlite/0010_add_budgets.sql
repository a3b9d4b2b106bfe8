-- Why: what attempts used, as they reported it, and what of its budget a kind has spent so. Locks: the database, for a
-- moment; no row is rewritten. Contracted by: nothing.

alter table kinds add column
  spent text                                     -- JSON, counter -> {since, amount}: spent in the window that began then
;
alter table attempts add column
  usage text                                     -- JSON, counter -> what it used, as it reported; null: nothing
;

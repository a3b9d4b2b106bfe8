-- Why: a lease of a gone instance or boot of its node runs out under any leader, so the row says that it is one.
-- Locks: leases for an instant; no row is rewritten. Contracted by: nothing; the default lets the server before write.

alter table leases add column orphaned boolean not null default false;
comment on column leases.orphaned is 'another instance or boot of its node said Hello; it runs out, whoever lists it';

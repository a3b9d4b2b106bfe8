-- Why: every commit is fenced by the epoch. Locks: a new database only. Contracted by: nothing.

-- One row, renewed for ever: its versions stay on one page. Truncating would lock out commits.
create table leader_fence (
  epoch bigint not null,
  one boolean not null default true,
  holder uuid,
  holder_addr text,
  holder_peer_addr text,
  hb bigint not null default 0,
  db_ident text,
  acquired_at timestamptz,
  seen_at timestamptz,
  constraint leader_fence_pkey primary key (epoch),
  constraint leader_fence_one_row unique (one),
  constraint leader_fence_one check (one),
  constraint leader_fence_epoch_fits_a_token check (epoch between 0 and 8388607)
)
with (fillfactor = 10, vacuum_truncate = off);
comment on table leader_fence is 'Exactly one row. A takeover raises the epoch; every commit checks it.';
comment on column leader_fence.epoch is 'changes only at a takeover';
comment on column leader_fence.one is 'there is one row';
comment on column leader_fence.holder is 'who leads, random per process start; null: nobody';
comment on column leader_fence.holder_addr is 'its public listener';
comment on column leader_fence.holder_peer_addr is 'its listener for servers';
comment on column leader_fence.hb is 'how often it was renewed or taken over';
comment on column leader_fence.db_ident is 'the identity of the database cluster at the takeover';
comment on column leader_fence.acquired_at is 'the database''s clock at the takeover, for people, never compared';
comment on column leader_fence.seen_at is 'the database''s clock at the newest renewal, for people';

insert into leader_fence (epoch) values (0);

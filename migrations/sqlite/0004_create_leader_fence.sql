-- Why: every commit is fenced by the epoch. Locks: a new database only. Contracted by: nothing.

-- Exactly one row. A takeover raises the epoch; every commit checks it. On SQLite one process leads, by an OS lock
-- beside the database: what only an election among servers needs stays null here.
create table leader_fence (
  epoch            integer not null,           -- changes only at a takeover
  one              integer not null default 1, -- there is one row
  holder           text,                       -- who leads, random per process start; null: nobody, or SQLite
  holder_addr      text,                       -- its public listener
  holder_peer_addr text,                       -- its listener for servers
  hb               integer not null default 0, -- how often it was renewed or taken over
  db_ident         text,                       -- the identity of the database cluster at the takeover
  acquired_at      integer,                    -- the database's clock at the takeover, for people, never compared
  seen_at          integer,                    -- the database's clock at the newest renewal, for people
  constraint leader_fence_pkey primary key (epoch),
  constraint leader_fence_one_row unique (one),
  constraint leader_fence_one check (one = 1),
  constraint leader_fence_epoch_fits_a_token check (epoch between 0 and 8388607)
) strict;

insert into leader_fence (epoch) values (0);

-- Why: what is declared, who is known, and what classes waited for. Locks: a new database only. Contracted by: nothing.

-- Few rows, each rewritten whole: a new version fits beside the old one.
create table kinds (
  name text collate "C" not null,
  policy jsonb not null,
  paused text,
  dead_by_day jsonb not null,
  constraint kinds_pkey primary key (name),
  constraint kinds_pause_is_known check (paused in ('hold', 'reject'))
)
with (fillfactor = 50);
comment on table kinds is 'Declared kinds.';
comment on column kinds.name is 'its name';
comment on column kinds.policy is 'JSON, what the fleet file says of it';
comment on column kinds.paused is 'hold or reject while none of its jobs may start; null: they may';
comment on column kinds.dead_by_day is 'JSON, day since 1970 (UTC) -> jobs that became dead';

-- Few rows, each rewritten whole: a new version fits beside the old one.
create table slots (
  name text collate "C" not null,
  scope text not null,
  capacity bigint,
  capacity_since bigint not null,
  paused boolean not null,
  paused_until timestamptz,
  constraint slots_pkey primary key (name),
  constraint slots_scope_is_known check (scope in ('node', 'fleet')),
  constraint slots_fleet_has_capacity check ((scope = 'fleet') = (capacity is not null)),
  constraint slots_capacity_not_negative check (capacity >= 0),
  constraint slots_until_only_paused check (paused_until is null or paused)
)
with (fillfactor = 50);
comment on table slots is 'Declared slots. What is used of them is stored nowhere: it is the sum of the reservations.';
comment on column slots.name is 'its name';
comment on column slots.scope is 'node: each node reports its own; fleet: one capacity for all';
comment on column slots.capacity is 'units of a fleet slot';
comment on column slots.capacity_since is 'the newest token granted before its capacity last changed';
comment on column slots.paused is 'nothing that needs it may start';
comment on column slots.paused_until is 'when the pause ends by itself; null: it does not';

-- Few rows, each rewritten whole (last_seen_at once a minute): a new version fits beside the old one.
create table nodes (
  name text collate "C" not null,
  instance text not null,
  boot_id text not null,
  incarnation bigint not null,
  stream bigint not null,
  labels jsonb not null,
  slots jsonb not null,
  kinds jsonb not null,
  host jsonb not null,
  agent_version text not null,
  cordoned boolean not null,
  draining_us bigint,
  last_seen_at timestamptz not null,
  constraint nodes_pkey primary key (name)
)
with (fillfactor = 50);
comment on table nodes is 'Known nodes, until an operator forgets them.';
comment on column nodes.name is 'its name';
comment on column nodes.instance is 'random, made once with the agent''s state directory';
comment on column nodes.boot_id is 'of its host''s present boot';
comment on column nodes.incarnation is 'plus one at each start of its agent';
comment on column nodes.stream is 'the count of Hellos in that incarnation';
comment on column nodes.labels is 'JSON, for routing';
comment on column nodes.slots is 'JSON, slot -> {units, since: the newest token granted before units changed}';
comment on column nodes.kinds is 'JSON list, what it runs';
comment on column nodes.host is 'JSON, what its host offers';
comment on column nodes.agent_version is 'for people';
comment on column nodes.cordoned is 'it takes no new grants';
comment on column nodes.draining_us is 'it takes no new grants, and what runs ends within this; null: it is not drained';
comment on column nodes.last_seen_at is 'when it was last heard, saved once a minute, for people';

-- Its key is unique by a hash index: it may be longer than a row of a B-tree (about 2,700 bytes). Rewritten up to once a
-- second: a new version fits beside the old one.
create table classes (
  class text collate "C" not null,
  timeline jsonb not null,
  constraint classes_pkey exclude using hash (class with =)
)
with (fillfactor = 50, vacuum_truncate = off);
comment on table classes is 'Deferral timelines, saved at most once a second.';
comment on column classes.class is 'the text of (kind, needs, selector, tenant)';
comment on column classes.timeline is 'JSON list of {since, reason, message, tries, duration_us}, the oldest first';

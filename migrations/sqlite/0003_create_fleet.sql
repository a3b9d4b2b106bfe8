-- Why: what is declared, who is known, and what classes waited for. Locks: a new database only. Contracted by: nothing.

-- Declared kinds.
create table kinds (
  name        text not null, -- its name
  policy      text not null, -- JSON, what the fleet file says of it
  paused      text,          -- hold or reject while none of its jobs may start; null: they may
  dead_by_day text not null, -- JSON, day since 1970 (UTC) -> jobs that became dead
  constraint kinds_pkey primary key (name),
  constraint kinds_pause_is_known check (paused in ('hold', 'reject'))
) strict;

-- Declared slots. What is used of them is stored nowhere: it is the sum of the reservations.
create table slots (
  name           text    not null, -- its name
  scope          text    not null, -- node: each node reports its own; fleet: one capacity for all
  capacity       integer,          -- units of a fleet slot
  capacity_since integer not null, -- the newest token granted before its capacity last changed
  paused         integer not null, -- nothing that needs it may start
  paused_until   integer,          -- when the pause ends by itself; null: it does not
  constraint slots_pkey primary key (name),
  constraint slots_scope_is_known check (scope in ('node', 'fleet')),
  constraint slots_fleet_has_capacity check ((scope = 'fleet') = (capacity is not null)),
  constraint slots_capacity_not_negative check (capacity >= 0),
  constraint slots_until_only_paused check (paused_until is null or paused),
  constraint slots_flags_are_flags check (paused in (0, 1))
) strict;

-- Known nodes, until an operator forgets them.
create table nodes (
  name          text    not null, -- its name
  instance      text    not null, -- random, made once with the agent's state directory
  boot_id       text    not null, -- of its host's present boot
  incarnation   integer not null, -- plus one at each start of its agent
  stream        integer not null, -- the count of Hellos in that incarnation
  labels        text    not null, -- JSON, for routing
  slots         text    not null, -- JSON, slot -> {units, since: the newest token granted before units changed}
  kinds         text    not null, -- JSON list, what it runs
  host          text    not null, -- JSON, what its host offers
  agent_version text    not null, -- for people
  cordoned      integer not null, -- it takes no new grants
  draining_us   integer,          -- it takes no new grants, and what runs ends within this; null: it is not drained
  last_seen_at  integer not null, -- when it was last heard, saved once a minute, for people
  constraint nodes_pkey primary key (name),
  constraint nodes_flags_are_flags check (cordoned in (0, 1))
) strict;

-- Deferral timelines, saved at most once a second.
create table classes (
  class    text not null, -- the text of (kind, needs, selector, tenant)
  timeline text not null, -- JSON list of {since, reason, message, tries, duration_us}, the oldest first
  constraint classes_pkey primary key (class)
) strict;

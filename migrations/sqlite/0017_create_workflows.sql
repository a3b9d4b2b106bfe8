-- Why: workflows: jobs behind and beside each other, stored whole with their shape. How a member ended is told by its own
-- row, so that the row of its workflow changes seldom: a member names its workflow and its place in it, and one that waits
-- for others since when. Locks: the file, for as long as one scan of jobs takes, for its new index; no row is rewritten.
-- Contracted by: nothing; the defaults let the leader of the version before write.

-- Jobs behind and beside each other; how each ended is told by its own row.
create table workflows (
  id               text    not null, -- UUID v7, made by the producer; the ids of its members are derived from it
  producer         text    not null, -- who submitted it
  name             text,             -- for people
  fingerprint      blob    not null, -- SHA-256 of its shape and of all its jobs
  shape            text    not null, -- JSON, a tree of chains, groups and chords; its leaves are the members by place
  members          integer not null, -- how many leaves that tree has
  state            text    not null, -- where it stands; the last three are final
  version          integer not null, -- plus one at each change of this row
  round            integer not null, -- plus one when a final one comes back, from 1
  cancel_requested integer not null, -- somebody wants it to end
  created_at       integer not null, -- when it was submitted
  began_at         integer not null, -- from when its deadlines count: its submission, or its last requeue
  finished_at      integer,          -- final: when that was recorded
  reason           text,             -- why it stands where it stands, for people
  opened           text    not null, -- JSON, by gate: those that opened before all of their members had ended, and without whom
  constraint workflows_pkey primary key (id),
  constraint workflows_state_is_known check (state in ('running', 'succeeded', 'dead', 'cancelled')),
  constraint workflows_final_has_finished_at check ((state = 'running') = (finished_at is null)),
  constraint workflows_flags_are_flags check (cancel_requested in (0, 1)),
  constraint workflows_fingerprint_is_sha256 check (length(fingerprint) = 32),
  constraint workflows_counts_from_one check (members >= 1 and version >= 1 and round >= 1)
) strict;

-- Loading: live rows only.
create index workflows_live on workflows (id) where finished_at is null;
-- Lists: from the newest to the oldest, by keyset.
create index workflows_newest on workflows (created_at, id);

alter table jobs add column
  workflow_id text; -- the workflow that it is a member of

alter table jobs add column
  workflow_place integer -- where in it, from 0
  constraint jobs_member_has_place check ((workflow_id is null) = (workflow_place is null));

alter table jobs add column
  blocked_at integer -- blocked: since when
  constraint jobs_blocked_has_blocked_at check ((state = 'blocked') = (blocked_at is not null))
  constraint jobs_blocked_is_member check (blocked_at is null or workflow_id is not null);

-- Members of a workflow by place, each once.
create unique index jobs_one_per_place on jobs (workflow_id, workflow_place) where workflow_id is not null;

-- I19: a member that is not final belongs to a live workflow, and a live workflow has all of its members.
create view inv_workflows_have_members (invariant, subject, detail) as
select 'inv_workflows_have_members', jobs.id, 'is ' || jobs.state || ', and its workflow is not live'
from jobs
where jobs.workflow_id is not null
  and jobs.finished_at is null
  and not exists (select 1 from workflows where workflows.id = jobs.workflow_id and workflows.finished_at is null)
union all
select 'inv_workflows_have_members', workflows.id,
  'has ' || (select count(*) from jobs where jobs.workflow_id = workflows.id) || ' of its '
    || workflows.members || ' members'
from workflows
where workflows.finished_at is null
  and workflows.members <> (select count(*) from jobs where jobs.workflow_id = workflows.id);

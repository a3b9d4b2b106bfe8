-- Why: workflows: jobs behind and beside each other, stored whole with their shape. How a member ended is told by its own
-- row, so that the row of its workflow changes seldom: a member names its workflow and its place in it, and one that waits
-- for others since when. Locks: jobs exclusively, for as long as one scan of it takes, since its new index is built beneath
-- that lock; no row is rewritten. Contracted by: nothing; the defaults let the leader of the version before write.

create table workflows (
  id               uuid        not null,
  producer         text        not null,
  name             text,
  fingerprint      bytea       not null,
  shape            jsonb       not null,
  members          bigint      not null,
  state            text        not null,
  version          bigint      not null,
  round            bigint      not null,
  cancel_requested boolean     not null,
  created_at       timestamptz not null,
  began_at         timestamptz not null,
  finished_at      timestamptz,
  reason           text,
  opened           jsonb       not null,
  constraint workflows_pkey primary key (id),
  constraint workflows_state_is_known check (state in ('running', 'succeeded', 'dead', 'cancelled')),
  constraint workflows_final_has_finished_at check ((state = 'running') = (finished_at is null)),
  constraint workflows_fingerprint_is_sha256 check (length(fingerprint) = 32),
  constraint workflows_counts_from_one check (members >= 1 and version >= 1 and round >= 1)
);
comment on table workflows is 'jobs behind and beside each other; how each ended is told by its own row';
comment on column workflows.id is 'UUID v7, made by the producer; the ids of its members are derived from it';
comment on column workflows.producer is 'who submitted it';
comment on column workflows.name is 'for people';
comment on column workflows.fingerprint is 'SHA-256 of its shape and of all its jobs';
comment on column workflows.shape is 'JSON, a tree of chains, groups and chords; its leaves are the members by place';
comment on column workflows.members is 'how many leaves that tree has';
comment on column workflows.state is 'where it stands; the last three are final';
comment on column workflows.version is 'plus one at each change of this row';
comment on column workflows.round is 'plus one when a final one comes back, from 1';
comment on column workflows.cancel_requested is 'somebody wants it to end';
comment on column workflows.created_at is 'when it was submitted';
comment on column workflows.began_at is 'from when its deadlines count: its submission, or its last requeue';
comment on column workflows.finished_at is 'final: when that was recorded';
comment on column workflows.reason is 'why it stands where it stands, for people';
comment on column workflows.opened is 'JSON, by gate: those that opened before all of their members had ended, and without whom';

-- Loading: live rows only.
create index workflows_live on workflows (id) where finished_at is null;
-- Lists: from the newest to the oldest, by keyset.
create index workflows_newest on workflows (created_at, id);

alter table jobs
  add column workflow_id uuid,
  add column workflow_place bigint,
  add column blocked_at timestamptz,
  add constraint jobs_member_has_place check ((workflow_id is null) = (workflow_place is null)) not valid,
  add constraint jobs_blocked_has_blocked_at check ((state = 'blocked') = (blocked_at is not null)) not valid,
  add constraint jobs_blocked_is_member check (blocked_at is null or workflow_id is not null) not valid;
comment on column jobs.workflow_id is 'the workflow that it is a member of';
comment on column jobs.workflow_place is 'where in it, from 0';
comment on column jobs.blocked_at is 'blocked: since when';

-- Members of a workflow by place, each once.
create unique index jobs_one_per_place on jobs (workflow_id, workflow_place) where workflow_id is not null;

create view inv_workflows_have_members (invariant, subject, detail) as
select 'inv_workflows_have_members', jobs.id::text, 'is ' || jobs.state || ', and its workflow is not live'
from jobs
where jobs.workflow_id is not null
  and jobs.finished_at is null
  and not exists (select 1 from workflows where workflows.id = jobs.workflow_id and workflows.finished_at is null)
union all
select 'inv_workflows_have_members', workflows.id::text,
  'has ' || (select count(*) from jobs where jobs.workflow_id = workflows.id) || ' of its '
    || workflows.members || ' members'
from workflows
where workflows.finished_at is null
  and workflows.members <> (select count(*) from jobs where jobs.workflow_id = workflows.id);
comment on view inv_workflows_have_members is
  'I19: a member that is not final belongs to a live workflow, and a live workflow has all of its members';

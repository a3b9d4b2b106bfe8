-- Why: cron entries enqueue jobs by the clock, each instant at most once: the last one that is settled is a column of the
-- entry, written in the commit that enqueues. Locks: nothing that exists. Contracted by: nothing; the version before knows
-- no entries, and fires none.

create table crons (
  name text collate "C" not null,
  policy jsonb not null,
  last_instant timestamptz not null,
  paused_by text,
  paused_at timestamptz,
  fired bigint not null,
  missed bigint not null,
  last_fired jsonb,
  recent jsonb not null,
  constraint crons_pkey primary key (name),
  constraint crons_pause_has_its_time check ((paused_by is null) = (paused_at is null)),
  constraint crons_counts_not_negative check (fired >= 0 and missed >= 0)
);
comment on table crons is 'Declared cron entries: timetables that enqueue jobs.';
comment on column crons.name is 'its name';
comment on column crons.policy is 'JSON, as in the fleet file: timetable, zone, what becomes of missed firings, the job';
comment on column crons.last_instant is 'what becomes of every instant up to this one is settled; it never falls';
comment on column crons.paused_by is 'who paused it; null: it is not paused';
comment on column crons.paused_at is 'since when it is paused';
comment on column crons.fired is 'jobs enqueued for it';
comment on column crons.missed is 'instants that did not become a job';
comment on column crons.last_fired is 'JSON, the newest job that was enqueued for it: instant, at, job';
comment on column crons.recent is 'JSON, its newest missed firings with their reasons, the newest first';

create view inv_instants_fire_once (invariant, subject, detail) as
select 'inv_instants_fire_once', jobs.producer, count(*) || ' jobs of the instant ' || (jobs.labels ->> 'cron.instant')
from jobs
where jobs.producer like 'cron:%' and jobs.parent_id is null and jobs.labels ->> 'cron.instant' is not null
group by jobs.producer, jobs.labels ->> 'cron.instant'
having count(*) > 1;
comment on view inv_instants_fire_once is 'I20: an instant of a cron entry becomes one job at the most';

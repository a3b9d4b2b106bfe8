-- Why: cron entries enqueue jobs by the clock, each instant at most once: the last one that is settled is a column of the
-- entry, written in the commit that enqueues. Locks: nothing that exists. Contracted by: nothing; the version before knows
-- no entries, and fires none.

-- Declared cron entries: timetables that enqueue jobs.
create table crons (
  name         text    not null, -- its name
  policy       text    not null, -- JSON, as in the fleet file: timetable, zone, what becomes of missed firings, the job
  last_instant integer not null, -- what becomes of every instant up to this one is settled; it never falls
  paused_by    text, -- who paused it; null: it is not paused
  paused_at    integer, -- since when it is paused
  fired        integer not null, -- jobs enqueued for it
  missed       integer not null, -- instants that did not become a job
  last_fired   text, -- JSON, the newest job that was enqueued for it: instant, at, job
  recent       text    not null, -- JSON, its newest missed firings with their reasons, the newest first
  constraint crons_pkey primary key (name),
  constraint crons_pause_has_its_time check ((paused_by is null) = (paused_at is null)),
  constraint crons_counts_not_negative check (fired >= 0 and missed >= 0)
) strict;

-- I20: an instant of a cron entry becomes one job at the most.
create view inv_instants_fire_once (invariant, subject, detail) as
select 'inv_instants_fire_once', jobs.producer, count(*) || ' jobs of the instant ' || (jobs.labels ->> '$."cron.instant"')
from jobs
where jobs.producer glob 'cron:*' and jobs.parent_id is null and jobs.labels ->> '$."cron.instant"' is not null
group by jobs.producer, jobs.labels ->> '$."cron.instant"'
having count(*) > 1;

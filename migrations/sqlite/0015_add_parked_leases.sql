-- Why: a parent whose process stays while it waits for children gives back the slots that its kind does not keep. What
-- its lease gave, waits for and was told stands in its row, whatever memory is lost; its job waits under a granted lease.
-- Locks: the file for an instant; no row is rewritten. Contracted by: nothing; the default lets the version before write.

alter table leases add column
  parked text -- JSON, the newest wait under it during which its process stays; null: none, or it has ended
  constraint leases_parked_is_granted check (parked is null or phase = 'granted');

drop view inv_one_live_lease;

-- I4: a running job has one live lease, and so has one whose process is parked; a lease whose outcome is open has such a
-- job.
create view inv_one_live_lease (invariant, subject, detail) as
select 'inv_one_live_lease', leases.job_id, count(*) || ' live leases'
from leases
where leases.phase <> 'unreaped'
group by leases.job_id
having count(*) > 1
union all
select 'inv_one_live_lease', jobs.id, 'runs without a lease under its token'
from jobs
where jobs.state = 'running'
  and jobs.finished_at is null
  and not exists (
    select 1 from leases
    where leases.token = jobs.token and leases.job_id = jobs.id and leases.phase = 'granted')
union all
select 'inv_one_live_lease', leases.job_id, 'lease ' || leases.token || ' is granted, its job does not run under it'
from leases
where leases.phase = 'granted'
  and not exists (
    select 1 from jobs
    where jobs.id = leases.job_id and jobs.token = leases.token
      and jobs.state = iif(leases.parked is not null and leases.parked ->> '$.verdict' is null, 'waiting', 'running'));

drop view inv_all_or_nothing;

-- I9: a lease has all of its job's needs, of the node and of the fleet; a part is given back as a whole. Jobs without
-- needs of their own take their kind's, which may have changed. A parked lease holds nothing that it gave back.
create view inv_all_or_nothing (invariant, subject, detail) as
select 'inv_all_or_nothing', cast(leases.token as text),
  'job ' || jobs.id || ' needs ' || needed.value || ' of ' || slots.scope || ' slot ' || slots.name
from leases
join jobs on jobs.id = leases.job_id and jobs.token = leases.token
join json_each(jobs.needs) as needed
join slots on slots.name = needed.key
where leases.phase = 'granted'
  and jobs.needs is not null
  and leases.reservation -> slots.scope <> '{}'
  and (leases.parked is null or leases.parked -> '$.yielded' = '{"node":{},"fleet":{}}')
  and needed.value is not (
    select taken.value from json_each(leases.reservation -> slots.scope) as taken where taken.key = needed.key)
union all
select 'inv_all_or_nothing', cast(leases.token as text), 'holds slot ' || given.key || ', which it gave back'
from leases
join json_each(leases.parked, '$.yielded.node') as given
join json_each(leases.reservation, '$.node') as held on held.key = given.key
where leases.parked is not null
union all
select 'inv_all_or_nothing', cast(leases.token as text), 'holds slot ' || given.key || ', which it gave back'
from leases
join json_each(leases.parked, '$.yielded.fleet') as given
join json_each(leases.reservation, '$.fleet') as held on held.key = given.key
where leases.parked is not null;

-- Why: a parent whose process stays while it waits for children gives back the slots that its kind does not keep. What
-- its lease gave, waits for and was told stands in its row, whatever memory is lost; its job waits under a granted lease.
-- Locks: leases exclusively, for a moment; no row is rewritten. Contracted by: nothing; the default lets the version before
-- write.

alter table leases
  add column parked jsonb,
  add constraint leases_parked_is_granted check (parked is null or phase = 'granted') not valid;
comment on column leases.parked is
  'JSON, the newest wait under it during which its process stays; null: none, or it has ended';

drop view inv_one_live_lease;
create view inv_one_live_lease (invariant, subject, detail) as
select 'inv_one_live_lease', leases.job_id::text, count(*) || ' live leases'
from leases
where leases.phase <> 'unreaped'
group by leases.job_id
having count(*) > 1
union all
select 'inv_one_live_lease', jobs.id::text, 'runs without a lease under its token'
from jobs
where jobs.state = 'running'
  and jobs.finished_at is null
  and not exists (
    select 1 from leases
    where leases.token = jobs.token and leases.job_id = jobs.id and leases.phase = 'granted')
union all
select 'inv_one_live_lease', leases.job_id::text,
  'lease ' || leases.token || ' is granted, its job does not run under it'
from leases
where leases.phase = 'granted'
  and not exists (
    select 1 from jobs
    where jobs.id = leases.job_id and jobs.token = leases.token
      and jobs.state = case
        when leases.parked is not null and leases.parked ->> 'verdict' is null then 'waiting' else 'running' end);
comment on view inv_one_live_lease is
  'I4: a running job, or one whose process is parked, has one live lease, and a lease whose outcome is open such a job';

drop view inv_all_or_nothing;
create view inv_all_or_nothing (invariant, subject, detail) as
select 'inv_all_or_nothing', leases.token::text,
  'job ' || jobs.id || ' needs ' || needed.value || ' of ' || slots.scope || ' slot ' || slots.name
from leases
join jobs on jobs.id = leases.job_id and jobs.token = leases.token
cross join lateral jsonb_each(jobs.needs) as needed
join slots on slots.name = needed.key
where leases.phase = 'granted'
  and leases.reservation -> slots.scope <> '{}'::jsonb
  and (leases.parked is null or leases.parked -> 'yielded' = '{"node": {}, "fleet": {}}'::jsonb)
  and needed.value is distinct from leases.reservation -> slots.scope -> needed.key
union all
select 'inv_all_or_nothing', leases.token::text, 'holds slot ' || given.slot || ', which it gave back'
from leases
cross join (values ('node'), ('fleet')) as part (name)
cross join lateral jsonb_object_keys(leases.parked -> 'yielded' -> part.name) as given (slot)
where leases.parked is not null and leases.reservation -> part.name ? given.slot;
comment on view inv_all_or_nothing is
  'I9, S9: a lease has all of its job''s needs, of the node and of the fleet; a part is given back as a whole; one that is parked holds nothing that it gave back';

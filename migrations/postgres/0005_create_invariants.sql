-- Why: what must never be true, as views that must return no row. Locks: nothing. Contracted by: nothing; a later
-- migration may drop and create them anew.
--
-- Each has the columns invariant (its name), subject (job, lease, slot or node) and detail (for people).

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
    where jobs.id = leases.job_id and jobs.state = 'running' and jobs.token = leases.token);
comment on view inv_one_live_lease is
  'I4: a running job has one live lease, and a lease whose outcome is open a running job';

create view inv_slots_within_capacity (invariant, subject, detail) as
with held (node, slot, amount, token) as (
  select null, taken.key, taken.value::bigint, leases.token
  from leases
  cross join lateral jsonb_each_text(leases.reservation -> 'fleet') as taken
  where leases.phase <> 'unreaped'
  union all
  select leases.node, taken.key, taken.value::bigint, leases.token
  from leases
  cross join lateral jsonb_each_text(leases.reservation -> 'node') as taken
),
used (node, slot, amount, newest) as (
  select held.node, held.slot, sum(held.amount), max(held.token)
  from held
  group by held.node, held.slot
)
select 'inv_slots_within_capacity', used.slot,
  used.amount || ' of ' || slots.capacity || ' taken, by a grant after the capacity changed'
from used
join slots on slots.name = used.slot
where used.node is null and used.amount > slots.capacity and used.newest > slots.capacity_since
union all
select 'inv_slots_within_capacity', used.node || '/' || used.slot,
  used.amount || ' of ' || (nodes.slots -> used.slot ->> 'units') || ' taken, by a grant after the capacity changed'
from used
join nodes on nodes.name = used.node
where used.amount > (nodes.slots -> used.slot ->> 'units')::bigint
  and used.newest > (nodes.slots -> used.slot ->> 'since')::bigint;
comment on view inv_slots_within_capacity is
  'I7: no slot is over its capacity, but by grants older than its capacity';

-- A lease that is over may be older than its job: that was deleted, and enqueued anew under its id.
create view inv_leases_have_owners (invariant, subject, detail) as
select 'inv_leases_have_owners', leases.token::text, 'its node ' || leases.node || ' is not known'
from leases
where not exists (select 1 from nodes where nodes.name = leases.node)
union all
select 'inv_leases_have_owners', leases.token::text, 'its job never had this token'
from leases
join jobs on jobs.id = leases.job_id
where leases.phase = 'granted' and jobs.token < leases.token;
comment on view inv_leases_have_owners is
  'I8: every reservation belongs to a lease of a known node, and a granted one to a token that its job had';

-- Jobs without needs of their own take their kind's, which may have changed.
create view inv_all_or_nothing (invariant, subject, detail) as
select 'inv_all_or_nothing', leases.token::text,
  'job ' || jobs.id || ' needs ' || needed.value || ' of ' || slots.scope || ' slot ' || slots.name
from leases
join jobs on jobs.id = leases.job_id and jobs.token = leases.token
cross join lateral jsonb_each(jobs.needs) as needed
join slots on slots.name = needed.key
where leases.phase = 'granted'
  and leases.reservation -> slots.scope <> '{}'::jsonb
  and needed.value is distinct from leases.reservation -> slots.scope -> needed.key;
comment on view inv_all_or_nothing is
  'I9: a lease has all of its job''s needs, of the node and of the fleet; a part is given back as a whole';

create view inv_final_is_settled (invariant, subject, detail) as
select 'inv_final_is_settled', jobs.id::text,
  'is ' || jobs.state || ', its newest outcome is ' || coalesce(jobs.last_outcome, 'open')
from jobs
where (jobs.state = 'succeeded') <> (jobs.last_outcome is not distinct from 'succeeded');
comment on view inv_final_is_settled is 'I11: a success is final, and nothing else is a success';

create view inv_results_have_executions (invariant, subject, detail) as
select 'inv_results_have_executions', results.job_id::text,
  'result of token ' || results.token || ' without an execution'
from results
join jobs on jobs.id = results.job_id
where results.token <> jobs.token
  and not exists (
    select 1 from attempts
    where attempts.job_id = results.job_id and attempts.token = results.token);
comment on view inv_results_have_executions is 'I12: every result belongs to an execution of its job';

create view inv_attempts_are_counted (invariant, subject, detail) as
with counted (id, failures, losses) as (
  select jobs.id,
    count(*) filter (
      where attempts.outcome in ('failed_retryable', 'failed_permanent', 'timed_out', 'stalled')),
    count(*) filter (where attempts.outcome = 'lost')
  from jobs
  left join attempts on attempts.job_id = jobs.id and attempts.round = jobs.round
  group by jobs.id
)
select 'inv_attempts_are_counted', jobs.id::text,
  'counts ' || jobs.failures || ' failures and ' || jobs.losses || ' losses, its attempts '
  || counted.failures || ' and ' || counted.losses
from jobs
join counted on counted.id = jobs.id
where jobs.failures <> counted.failures or jobs.losses <> counted.losses;
comment on view inv_attempts_are_counted is
  'I13: failures and losses of the present round are those of its attempts';

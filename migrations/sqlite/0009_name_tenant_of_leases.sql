-- Why: a tenant is charged for what its leases take until they are over, which is longer than their jobs are known.
-- Locks: the file for an instant; the rows of leases whose job is known are rewritten. Contracted by: nothing; the
-- default lets the version before write, and stands for the tenant of a job that is gone.

alter table leases add column
  tenant text not null default 'default'; -- of the job: who is charged for what it takes

update leases
set tenant = (select jobs.tenant from jobs where jobs.id = leases.job_id)
where job_id in (select id from jobs);

-- Why: a parent that waits for its children detaches: its execution ends, and perhaps leaves a state beside; its row
-- tells what it waits for and how the children ended, whatever memory is lost. Children say what their parent's end means
-- to them. An execution that detached is stored as a return, which is what the version before takes it for, with a flag.
-- Locks: jobs, attempts and results exclusively, for a moment; no row is rewritten. Contracted by: nothing; the defaults
-- let the version before write.

alter table jobs
  add column on_parent_cancel text not null default 'cancel',
  add column on_parent_lost text not null default 'keep',
  add column waiting_at timestamptz,
  add column detached jsonb,
  add constraint jobs_on_parent_cancel_is_known check (on_parent_cancel in ('cancel', 'keep')) not valid,
  add constraint jobs_on_parent_lost_is_known check (on_parent_lost in ('cancel', 'keep')) not valid,
  add constraint jobs_waiting_has_waiting_at check ((state = 'waiting') = (waiting_at is not null)) not valid,
  add constraint jobs_final_has_no_wait check (detached is null or finished_at is null) not valid;
comment on column jobs.on_parent_cancel is 'what becomes of it when its parent is cancelled';
comment on column jobs.on_parent_lost is 'what becomes of it when an execution of its parent is lost';
comment on column jobs.waiting_at is 'waiting: since when';
comment on column jobs.detached is 'JSON, the newest wait for which it detached in this round; null: none';

alter table attempts add column detached boolean not null default false;
comment on column attempts.detached is 'it ended in order to wait for children, and charges nothing';

alter table results add column of_wait boolean not null default false;
comment on column results.of_wait is 'no result, but the state that an execution left which detached';

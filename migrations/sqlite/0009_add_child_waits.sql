-- Why: a parent that waits for its children detaches: its execution ends, and perhaps leaves a state beside; its row
-- tells what it waits for and how the children ended, whatever memory is lost. Children say what their parent's end means
-- to them. An execution that detached is stored as a return, which is what the version before takes it for, with a flag.
-- Locks: the file for an instant; no row is rewritten. Contracted by: nothing; the defaults let the version before write.

alter table jobs add column
  on_parent_cancel text not null default 'cancel' -- what becomes of it when its parent is cancelled
  constraint jobs_on_parent_cancel_is_known check (on_parent_cancel in ('cancel', 'keep'));

alter table jobs add column
  on_parent_lost text not null default 'keep' -- what becomes of it when an execution of its parent is lost
  constraint jobs_on_parent_lost_is_known check (on_parent_lost in ('cancel', 'keep'));

alter table jobs add column
  waiting_at integer -- waiting: since when
  constraint jobs_waiting_has_waiting_at check ((state = 'waiting') = (waiting_at is not null));

alter table jobs add column
  detached text -- JSON, the newest wait for which it detached in this round; null: none
  constraint jobs_final_has_no_wait check (detached is null or finished_at is null);

alter table attempts add column
  detached integer not null default 0 -- 1: it ended in order to wait for children, and charges nothing
  constraint attempts_flags_are_flags check (detached in (0, 1));

alter table results add column
  of_wait integer not null default 0 -- 1: no result, but the state that an execution left which detached
  constraint results_flags_are_flags check (of_wait in (0, 1));

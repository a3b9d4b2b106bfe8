-- Why: whoever a fleet file names as a webhook is told when a job or a workflow ends; what is to be told is a row of the
-- commit that ends it, so that no crash loses it. Locks: nothing that exists. Contracted by: nothing; the version before
-- knows no webhooks, and tells nobody.

-- Declared webhooks: who is told when a job or a workflow ends.
create table webhooks (
  name    text    not null, -- its name
  policy  text    not null, -- JSON, as in the fleet file: where to, the name of the secret, which ends of what; never the secret
  gone_at integer, -- since when its receiver says that it is gone (410); null: it is there
  constraint webhooks_pkey primary key (name)
) strict;

-- What is to be told to webhooks, until it has arrived or was kept for long enough.
create table outbox (
  id         integer not null, -- epoch << 40 | n, the nth of that epoch; the same over all tries
  webhook    text    not null, -- to whom
  event      text    not null, -- the type of the event, such as job.succeeded
  subject_id text, -- the job or workflow that ended; null: an operator tries whether it arrives
  body       text    not null, -- what is sent, byte for byte: JSON of the subject as it ended, without payload and result
  created_at integer not null, -- when its subject ended
  since_at   integer not null, -- from then on it is tried: its making, or an operator wanted it again
  tries      integer not null, -- how often it was tried since then
  next_at    integer, -- it is not tried before; null: it is not tried any more
  failed_at  integer, -- since when it is not tried any more; null: it waits
  error      text, -- why the last try failed, for people; null: it was not tried
  constraint outbox_pkey primary key (id),
  constraint outbox_has_a_webhook foreign key (webhook) references webhooks (name),
  constraint outbox_waits_or_failed check ((next_at is null) <> (failed_at is null)),
  constraint outbox_id_from_one check (id > 0),
  constraint outbox_tries_not_negative check (tries >= 0)
) strict;

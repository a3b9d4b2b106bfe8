-- Why: whoever a fleet file names as a webhook is told when a job or a workflow ends; what is to be told is a row of the
-- commit that ends it, so that no crash loses it. Locks: nothing that exists. Contracted by: nothing; the version before
-- knows no webhooks, and tells nobody.

create table webhooks (
  name text collate "C" not null,
  policy jsonb not null,
  gone_at timestamptz,
  constraint webhooks_pkey primary key (name)
);
comment on table webhooks is 'Declared webhooks: who is told when a job or a workflow ends.';
comment on column webhooks.name is 'its name';
comment on column webhooks.policy is 'JSON, as in the fleet file: where to, the name of the secret, which ends of what; never the secret';
comment on column webhooks.gone_at is 'since when its receiver says that it is gone (410); null: it is there';

create table outbox (
  id bigint not null,
  webhook text collate "C" not null,
  event text not null,
  subject_id uuid,
  body text not null,
  created_at timestamptz not null,
  since_at timestamptz not null,
  tries bigint not null,
  next_at timestamptz,
  failed_at timestamptz,
  error text,
  constraint outbox_pkey primary key (id),
  constraint outbox_has_a_webhook foreign key (webhook) references webhooks (name),
  constraint outbox_waits_or_failed check ((next_at is null) <> (failed_at is null)),
  constraint outbox_id_from_one check (id > 0),
  constraint outbox_tries_not_negative check (tries >= 0)
);
comment on table outbox is 'What is to be told to webhooks, until it has arrived or was kept for long enough.';
comment on column outbox.id is 'epoch << 40 | n, the nth of that epoch; the same over all tries';
comment on column outbox.webhook is 'to whom';
comment on column outbox.event is 'the type of the event, such as job.succeeded';
comment on column outbox.subject_id is 'the job or workflow that ended; null: an operator tries whether it arrives';
comment on column outbox.body is 'what is sent, byte for byte: JSON of the subject as it ended, without payload and result';
comment on column outbox.created_at is 'when its subject ended';
comment on column outbox.since_at is 'from then on it is tried: its making, or an operator wanted it again';
comment on column outbox.tries is 'how often it was tried since then';
comment on column outbox.next_at is 'it is not tried before; null: it is not tried any more';
comment on column outbox.failed_at is 'since when it is not tried any more; null: it waits';
comment on column outbox.error is 'why the last try failed, for people; null: it was not tried';

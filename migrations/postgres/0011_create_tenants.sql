-- Why: the fleet file says which tenants are owed more of the fleet than others. Locks: nothing that exists.
-- Contracted by: nothing; to the server before every tenant weighs the same.

create table tenants (
  name text collate "C" not null,
  weight bigint not null,
  constraint tenants_pkey primary key (name),
  constraint tenants_weight_is_bounded check (weight between 1 and 1000)
);
comment on table tenants is 'Declared tenants. Any other has the weight 1.';
comment on column tenants.name is 'its name';
comment on column tenants.weight is 'of two that both have work waiting, twice the weight gets twice as much';

-- Why: the fleet file says which tenants are owed more of the fleet than others. Locks: nothing that exists.
-- Contracted by: nothing; to the version before every tenant weighs the same.

-- Declared tenants. Any other has the weight 1.
create table tenants (
  name   text    not null, -- its name
  weight integer not null, -- of two that both have work waiting, twice the weight gets twice as much
  constraint tenants_pkey primary key (name),
  constraint tenants_weight_is_bounded check (weight between 1 and 1000)
) strict;

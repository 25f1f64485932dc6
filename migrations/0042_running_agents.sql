-- Agents of running trials that another worker can adopt in their sandbox if their worker dies.
create table running_agents (
  comparison bigint not null,
  ordinal integer not null,
  sandbox_id text not null,
  grant_id uuid not null,
  started_at timestamptz(3) not null default now(),
  primary key (comparison, ordinal),
  foreign key (comparison, ordinal) references trials on delete cascade
);

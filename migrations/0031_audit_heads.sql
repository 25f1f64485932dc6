-- The newest event of each workspace's audit log, so that the removal of the newest events is detected, too.
create table audit_heads (
  workspace_id uuid primary key references workspaces on delete cascade,
  sequence bigint not null,
  hash bytea not null
);

insert into audit_heads (workspace_id, sequence, hash)
select distinct on (workspace_id) workspace_id, sequence, hash
from audit_events
order by workspace_id, sequence desc;

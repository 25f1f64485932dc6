-- When the last worker of the job was last known to be alive. Null before the first attempt has ended.
alter table jobs add column attended_until timestamptz(3);

-- Time during which no worker attended the agent, which is not counted against its time limit.
alter table running_agents add column unattended_ms float8 not null default 0;

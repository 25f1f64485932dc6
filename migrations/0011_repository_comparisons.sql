-- A comparison on tasks of a repository belongs to it, whatever the repository is called by now.
alter table comparisons add column repository bigint references repositories on delete cascade;
alter table comparisons add check ((scope_kind = 'repository') = (repository is not null));
create index comparisons_repository on comparisons (repository, created_at desc, id desc) where repository is not null;

-- Where a task of a repository was approved.
alter table comparison_tasks add column run_id text;
alter table comparison_tasks add column task_id text;

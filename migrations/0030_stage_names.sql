-- Stages are named after what they do; before, some were named after their result.
create temporary table stage_names (old text primary key, new text not null);
insert into stage_names values
  ('env_ready', 'environment'),
  ('executed', 'execution'),
  ('authored', 'authoring'),
  ('linted', 'lint'),
  ('assembled', 'assembly'),
  ('validated', 'validation'),
  ('verified', 'review'),
  ('graded', 'difficulty');

alter table batch_task_stages drop constraint batch_task_stages_workspace_id_stage_input_digest_fkey;
update batch_stage_results set stage = new from stage_names where stage = old;
update batch_task_stages set stage = new from stage_names where stage = old;
alter table batch_task_stages add constraint batch_task_stages_workspace_id_stage_input_digest_fkey
  foreign key (workspace_id, stage, input_digest) references batch_stage_results on delete cascade;

update batch_tasks set stage = new from stage_names where stage = old;
update jobs set payload = jsonb_set(payload, '{stage}', to_jsonb(new)) from stage_names
  where (kind = 'batch.look' or kind like 'batch.stage%') and payload ->> 'stage' = old;

drop table stage_names;

-- The models of a batch share its budget, so that candidates that call them at the same time cannot exceed it.
insert into gateway_budgets (id, workspace_id, budget_micros, spent_micros)
select 'batch ' || batches.id, repositories.workspace_id, batches.budget_micros, coalesce(
  (select sum(spent_micros) from batch_tasks where batch_tasks.batch = batches.id), 0)
from batches join repositories on repositories.key = batches.repository
where batches.generation is not null;

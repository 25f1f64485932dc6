-- What ended before its tasks were listed may let its archive go: it failed for good, or nobody came back for it.
alter table batches drop constraint batches_check;
alter table batches add constraint batches_check check (
  case when archive is null then step <> 'unpack' or state in ('failed', 'canceled') else step = 'unpack' end
);
update batches set archive = null where state = 'failed' and not (error ->> 'retryable')::boolean;

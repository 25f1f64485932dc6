-- The output of a stage, for later stages, was called `made`.
update batch_stage_results
  set result = (result - 'made') || jsonb_build_object('output', result -> 'made')
  where result ? 'made';

import { defineRecurringJob, type JobHandler } from '../../platform/jobs/jobs.ts'
import { type DiscoverDeps, discoverJob } from './discover.ts'
import { countRemainingSpend } from './spend.ts'
import { type StageJobDeps, sandboxWatchJob, stageJob } from './stage-job.ts'
import { updateBatchStates } from './update-batch-state.ts'

export type PipelineDeps = DiscoverDeps & StageJobDeps

/** Jobs of the pipeline that need no sandbox. */
export const pipelineJobs = (deps: PipelineDeps): JobHandler[] => [
  discoverJob(deps),
  stageJob(deps, undefined),
  sandboxWatchJob(deps),
  defineRecurringJob('batches.tend', 30, async () => {
    await countRemainingSpend(deps.db)
    await updateBatchStates(deps.db, deps)
  }),
]

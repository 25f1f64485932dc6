import { defineRecurringJob, type JobHandler } from '../../platform/jobs/jobs.ts'
import { type DiscoverDeps, discoverJob } from './discover.ts'
import { countRemainingSpend } from './spend.ts'
import { type StageJobDeps, sandboxWatchJob, stageJob } from './stage-job.ts'
import { updateBatchStates } from './tend.ts'

export type PipelineDeps = DiscoverDeps & StageJobDeps

/** Jobs of the pipeline that need no sandbox. */
export const pipelineJobs = (tools: PipelineDeps): JobHandler[] => [
  discoverJob(tools),
  stageJob(tools, undefined),
  sandboxWatchJob(tools),
  defineRecurringJob('batches.tend', 30, async () => {
    await countRemainingSpend(tools.db)
    await updateBatchStates(tools.db, tools)
  }),
]

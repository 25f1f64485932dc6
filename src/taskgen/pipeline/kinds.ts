import { z } from 'zod'
import type { RunnableKind } from '../../platform/jobs/jobs.ts'
import { type DiscoverDeps, discoverJob } from './discover.ts'
import { countRemainingSpend } from './spend.ts'
import { type StageJobDeps, sandboxWatchJob, stageJob } from './stage-job.ts'
import { updateBatchStates } from './tend.ts'

export type PipelineDeps = DiscoverDeps & StageJobDeps

/** Jobs of the pipeline that need no sandbox. */
export const pipelineJobs = (tools: PipelineDeps): RunnableKind[] => [
  discoverJob(tools),
  stageJob(tools, undefined),
  sandboxWatchJob(tools),
  {
    kind: 'batches.tend',
    payload: z.strictObject({}),
    everySeconds: 30,
    run: async () => {
      await countRemainingSpend(tools.db)
      await updateBatchStates(tools.db, tools)
    },
  },
]

import { z } from 'zod'
import type { RunnableKind } from '../../platform/jobs/jobs.ts'
import { type DiscoverTools, discoverJob } from './discover.ts'
import { countLeftOfBatches } from './spend.ts'
import { lookJob, type StageJobTools, stageJob } from './stage-job.ts'
import { tendAll } from './tend.ts'

export type MakingTools = DiscoverTools & StageJobTools

/** What makes tasks of pull requests, besides what needs a sandbox. */
export const makingKinds = (tools: MakingTools): RunnableKind[] => [
  discoverJob(tools),
  stageJob(tools, undefined),
  lookJob(tools),
  {
    kind: 'batches.tend',
    payload: z.strictObject({}),
    everySeconds: 30,
    run: async () => {
      await countLeftOfBatches(tools.db)
      await tendAll(tools.db, tools)
    },
  },
]

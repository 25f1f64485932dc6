import { z } from 'zod'
import type { RunnableKind } from './jobs.ts'
import { sweepEnded } from './sql.ts'

/** Every worker brings it along; it exists once. */
export const sweep: RunnableKind<object> = {
  kind: 'jobs.sweep',
  payload: z.object({}),
  everySeconds: 3_600,
  run: (job) => job.finish(sweepEnded),
}

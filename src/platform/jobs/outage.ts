import type { JobLog } from './jobs.ts'

export type Outage = ReturnType<typeof createOutage>

/** However many activities fail how often, an outage is one line in the log at its start and one at its end. */
export function createOutage(log: JobLog) {
  const failing = new Set<string>()
  return {
    failed(activity: string, error: unknown): void {
      if (failing.size === 0) log.error({ error, activity }, 'jobs: the database cannot be used; trying on')
      failing.add(activity)
    },
    worked(activity: string): void {
      if (failing.delete(activity) && failing.size === 0) log.info({ activity }, 'jobs: the database can be used again')
    },
  }
}

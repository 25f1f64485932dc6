import type { Evidence } from '../taskgen/schema.ts'

/** What a person should look at before approving a task that was imported. */
export function concernsOf({ calibration }: Evidence): string[] {
  if (calibration?.strength !== 'weak') return []
  return [`Known cheats score: ${calibration.winners.join(', ')}.`]
}

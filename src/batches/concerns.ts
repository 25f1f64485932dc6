import type { Evidence } from '../taskgen/schema.ts'

/** Lists the concerns of an imported task that a reviewer should see before approving it. */
export function listConcerns({ calibration }: Evidence): string[] {
  if (calibration?.strength !== 'weak') return []
  return [`Known cheats score: ${calibration.winners.join(', ')}.`]
}

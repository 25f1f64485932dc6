/** A setting of the frontier, with the numbers by which the others are compared. In the order of the frontier. */
export type Candidate = { id: string; tasks: number; passed: number }

type Role = 'cheapest' | 'most-accurate' | 'best-value'
export type Pick = { id: string; roles: Role[] }

/** Below so many tasks nearly everything is "not shown worse". */
const BEST_VALUE_TASKS_MIN = 20

/**
 * What a reader should look at first. The frontier goes from cheap to dear, and of exact ties the smallest id comes
 * first. `isWorse` says whether a setting was shown to be less accurate than the most accurate one.
 */
export function picks(frontier: readonly Candidate[], isWorse: (id: string, than: string) => boolean): Pick[] {
  const cheapest = frontier[0]
  if (!cheapest) return []
  const accurate = frontier.reduce((best, each) => (isMoreAccurate(each, best) ? each : best), cheapest)
  const roles: [string, Role][] = [
    [cheapest.id, 'cheapest'],
    [accurate.id, 'most-accurate'],
  ]
  const value = frontier.find(({ id }) => id === accurate.id || !isWorse(id, accurate.id))
  if (value && accurate.tasks >= BEST_VALUE_TASKS_MIN) roles.push([value.id, 'best-value'])
  return [...Map.groupBy(roles, ([id]) => id)].map(([id, own]) => ({ id, roles: own.map(([, role]) => role) }))
}

const isMoreAccurate = (a: Candidate, b: Candidate): boolean =>
  BigInt(a.passed) * BigInt(b.tasks) > BigInt(b.passed) * BigInt(a.tasks)

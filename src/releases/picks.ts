/** A setting of the frontier with the numbers that picks are based on. */
export type PickCandidate = { id: string; tasks: number; passed: number }

type PickRole = 'cheapest' | 'most-accurate' | 'best-value'
export type SettingPick = { id: string; roles: PickRole[] }

/** Minimum number of tasks for `best-value`: with fewer, hardly any setting is shown to be worse. */
const BEST_VALUE_TASKS_MIN = 20

/**
 * Chooses the settings that readers should look at first. The frontier is sorted by cost, exact ties by id. `isWorse`
 * returns whether a setting is significantly less accurate than another.
 */
export function choosePicks(
  frontier: readonly PickCandidate[],
  isWorse: (id: string, than: string) => boolean,
): SettingPick[] {
  const cheapest = frontier[0]
  if (!cheapest) return []
  const accurate = frontier.reduce((best, each) => (isMoreAccurate(each, best) ? each : best), cheapest)
  const roles: [string, PickRole][] = [
    [cheapest.id, 'cheapest'],
    [accurate.id, 'most-accurate'],
  ]
  const value = frontier.find(({ id }) => id === accurate.id || !isWorse(id, accurate.id))
  if (value && accurate.tasks >= BEST_VALUE_TASKS_MIN) roles.push([value.id, 'best-value'])
  return [...Map.groupBy(roles, ([id]) => id)].map(([id, own]) => ({ id, roles: own.map(([, role]) => role) }))
}

const isMoreAccurate = (a: PickCandidate, b: PickCandidate): boolean =>
  BigInt(a.passed) * BigInt(b.tasks) > BigInt(b.passed) * BigInt(a.tasks)

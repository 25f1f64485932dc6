import type { Prices } from '../catalog/model.ts'
import { listPublicModels } from '../catalog/models.ts'
import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import { frontier } from '../statistics/frontier.ts'

type TaskUsage = NonNullable<ReleaseSetting['stats']['usagePerTask']>

/** A release with costs at other prices, and the settings whose cost could not be converted. */
export type RepricedRelease = { release: Release; unconverted: string[] }

export const repriceToday = (release: Release, now = new Date()): RepricedRelease =>
  reprice(release, new Map(listPublicModels(now).map(({ catalogId, prices }) => [catalogId, prices])))

/**
 * Converts the costs of a release to other prices and computes its frontier again. A cost changes by the ratio of the two
 * prices of its mean tokens, so that it stays exact where prices did not change. Frontier probabilities would need the
 * results of every task and are left out.
 */
export function reprice(release: Release, prices: ReadonlyMap<string, Prices>): RepricedRelease {
  const converted = release.settings.map((setting) => {
    const factor = findFactor(release, setting, prices.get(setting.model.catalogId))
    return { id: setting.id, factor, setting: factor === undefined ? setting : scaleCost(setting, factor) }
  })
  const complete = converted.filter(({ setting }) => setting.stats.coverage === 100)
  const ids = frontier(complete.map(({ setting }) => toPoint(setting)))
  return {
    release: {
      ...release,
      frontier: ids,
      settings: converted.map(({ setting }) => ({
        ...setting,
        onFrontier: ids.includes(setting.id),
        stats: { ...setting.stats, frontierProbability: null },
      })),
    },
    unconverted: converted.flatMap(({ id, factor }) => (factor === undefined ? [id] : [])),
  }
}

/** Returns the price of the setting's tokens now, divided by their price in the release. Undefined if either is unknown. */
function findFactor({ prices }: Release, setting: ReleaseSetting, now: Prices | undefined): number | undefined {
  const { usagePerTask } = setting.stats
  const before = prices.models.findLast(({ catalogId }) => catalogId === setting.model.catalogId)?.prices
  if (setting.custom || !usagePerTask || !now || !before) return undefined
  const [costNow, costBefore] = [toCost(usagePerTask, now), toCost(usagePerTask, before)]
  return costBefore > 0 ? costNow / costBefore : undefined
}

type Rates = Pick<Prices, 'input' | 'output'> & { cacheRead?: number | undefined; cacheWrite5m?: number | undefined }

const toCost = ({ input, cacheRead, cacheWrite, output }: TaskUsage, rates: Rates): number =>
  input * rates.input +
  cacheRead * (rates.cacheRead ?? rates.input) +
  cacheWrite * (rates.cacheWrite5m ?? rates.input) +
  output * rates.output

const scaleCost = (setting: ReleaseSetting, factor: number): ReleaseSetting => ({
  ...setting,
  costPerTaskUsd: setting.costPerTaskUsd * factor,
  totalCostUsd: setting.totalCostUsd * factor,
})

const toPoint = ({ id, tasks, passed, totalCostUsd }: ReleaseSetting) => ({
  id,
  tasks,
  passed,
  micros: Math.round(totalCostUsd * 1_000_000),
})

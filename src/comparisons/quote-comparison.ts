import { countLiveWorkers } from '../catalog/capabilities.ts'
import { listModels } from '../catalog/models.ts'
import type { ConfigurationDeps } from '../configurations/configurations.ts'
import type { Db } from '../platform/db/db.ts'
import { requireTrialCount, resolveSettings } from './choices.ts'
import type { Quote } from './costs/schema.ts'
import {
  buildQuote,
  type DifficultyCounts,
  estimateTrial,
  MODEL_FREE_SECONDS,
  type PastUsage,
  type SettingBasis,
} from './quote.ts'
import type { QuoteRequest } from './shapes/schema.ts'
import { listDigests, readSource, type TaskSelection } from './source.ts'
import type { ComparisonScope, NewSetting } from './sql.ts'
import { listDurations, listUsage } from './trials/queue/sql.ts'

type QuoteInput = QuoteRequest & TaskSelection

/** Estimates cost, duration and power of a comparison without creating it. */
export async function quoteComparison(
  deps: ConfigurationDeps,
  workspaceId: string,
  scope: ComparisonScope,
  input: QuoteInput,
): Promise<Quote> {
  const { db } = deps
  const source = await readSource(db, workspaceId, scope, input)
  const settings = await resolveSettings(deps, workspaceId, input.models, () => listDigests(source))
  requireTrialCount(source.tasks * settings.length * input.attempts)
  const { budgetUsd, trialBudgetUsd, attempts } = input
  return buildQuote(
    { tasks: source.tasks, settings: settings.length, attempts },
    await loadBases(db, workspaceId, settings, source.difficulties),
    { budgetUsd, trialBudgetUsd, concurrency: input.concurrency ?? (await countSlots(db, input.sandbox)) },
  )
}

/** Default number of trials that a worker runs at the same time. */
const SLOTS_PER_WORKER = 8

async function countSlots(db: Db, sandbox: string | undefined): Promise<number> {
  const workers = sandbox === undefined ? 1 : await countLiveWorkers(db, sandbox)
  return SLOTS_PER_WORKER * Math.max(1, workers)
}

/** Loads cost and duration of earlier trials of each setting, and estimates those of settings without any. */
async function loadBases(
  db: Db,
  workspaceId: string,
  settings: readonly NewSetting[],
  difficulties: DifficultyCounts,
): Promise<SettingBasis[]> {
  const ids = settings.map(({ id }) => id)
  const usage = new Map((await listUsage(db, workspaceId, ids)).map((used) => [used.id, used]))
  const durations = new Map((await listDurations(db, workspaceId, ids)).map(({ id, seconds }) => [id, seconds]))
  const models = new Map((await listModels(db, workspaceId)).map((model) => [model.catalogId, model]))
  return settings.map(({ id, provider, catalog_id, reasoning_level }) => {
    const prices = models.get(catalog_id)?.prices ?? { input: 0, output: 0 }
    const estimate = estimateTrial(prices, reasoning_level, difficulties)
    const past = usage.get(id)
    const measuredSeconds = durations.get(id)
    const estimatedSeconds = provider === 'none' ? MODEL_FREE_SECONDS : estimate.seconds
    return {
      id,
      cost: toCostBasis(provider, past, estimate.micros),
      duration:
        measuredSeconds === undefined
          ? { seconds: estimatedSeconds, source: 'estimated' }
          : { seconds: measuredSeconds, source: 'measured' },
    }
  })
}

function toCostBasis(provider: string, past: PastUsage | undefined, estimatedMicros: number): SettingBasis['cost'] {
  if (provider === 'none') return { source: 'free' }
  if (!past) return { source: 'estimated', micros: estimatedMicros }
  return { source: 'measured', trials: past.trials, micros: past.micros, squares: past.squares }
}

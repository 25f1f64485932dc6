import { buildQuote } from '../comparisons/quote.ts'
import type { Quote } from '../comparisons/quotes/schema.ts'
import { estimateTrial } from '../comparisons/trial-prior.ts'
import type { Config } from '../config.ts'
import { findHarness } from '../harnesses/harnesses.ts'
import type { Log } from '../platform/log.ts'
import { type ModelSelection, resolveTrialModel } from './trial-models.ts'

type PlannedRun = { tasks: number; attempts: number; harness: string }

/** Estimates cost and duration of trials on task folders, which run one after the other. Undefined without a model. */
export async function quoteTaskRun(
  config: Config,
  log: Log,
  selection: ModelSelection,
  { tasks, attempts, harness }: PlannedRun,
): Promise<Quote | undefined> {
  if (!findHarness(harness)?.protocols.length) return undefined
  const { model } = await resolveTrialModel(config, log, selection)
  const level = selection.level ?? model.defaultLevel
  const estimate = estimateTrial(model.prices, level, { easy: 0, medium: tasks, hard: 0 })
  const setting = {
    id: `${model.catalogId}|${harness}|${level}`,
    cost: { source: 'estimated' as const, micros: estimate.micros },
    duration: { seconds: estimate.seconds, source: 'estimated' as const },
  }
  const limits = { trialBudgetUsd: selection.budgetUsd, concurrency: 1 }
  return buildQuote({ tasks, settings: 1, attempts }, [setting], limits)
}

import type { Comparison, ComparisonSetting, ComparisonTrial } from '../../src/comparisons/shapes/schema.ts'

/** Columns of a table of trials and their types, the same in every table format. */
export const TRIAL_COLUMNS = {
  comparison_id: 'text',
  scope: 'text',
  trial_id: 'text',
  task: 'text',
  task_digest: 'text',
  setting_id: 'text',
  model: 'text',
  provider: 'text',
  harness: 'text',
  harness_version: 'text',
  reasoning_level: 'text',
  configuration: 'text',
  timeout_multiplier: 'real',
  attempt: 'integer',
  state: 'text',
  class: 'text',
  passed: 'boolean',
  reward: 'real',
  rewards: 'json',
  reused_from: 'text',
  voided: 'text',
  queue_seconds: 'real',
  prepare_seconds: 'real',
  agent_seconds: 'real',
  verify_seconds: 'real',
  total_seconds: 'real',
  input_tokens: 'integer',
  cache_read_tokens: 'integer',
  cache_write_tokens: 'integer',
  output_tokens: 'integer',
  reasoning_tokens: 'integer',
  cost_usd: 'real',
  retries_cost_usd: 'real',
  cost_source: 'text',
  isolation: 'text',
  verify_mode: 'text',
  retries: 'integer',
  error: 'text',
  failed_tests: 'json',
} as const satisfies Record<string, ColumnType>

export type ColumnType = 'text' | 'integer' | 'real' | 'boolean' | 'json'
export type TrialColumn = keyof typeof TRIAL_COLUMNS

type ColumnValue = { text: string; integer: number; real: number; boolean: boolean; json: unknown }
/** A trial as a row of a table. Unknown values are null. */
export type TrialTableRow = { [Name in TrialColumn]: ColumnValue[(typeof TRIAL_COLUMNS)[Name]] | null }

/** Converts all trials of a comparison, in plan order. */
export function toTrialRows(comparison: Comparison, trials: readonly ComparisonTrial[]): TrialTableRow[] {
  const settings = new Map(comparison.settings.map((setting) => [setting.id, setting]))
  return trials.map((trial) => toTrialRow(comparison, settings.get(trial.settingId), trial))
}

/** Names the benchmark or repository of a comparison as org/name. */
export const formatScope = ({ scope }: Comparison): string =>
  scope.kind === 'benchmark' ? `${scope.datasetOrg}/${scope.dataset}` : `${scope.owner}/${scope.name}`

function toTrialRow(
  comparison: Comparison,
  setting: ComparisonSetting | undefined,
  trial: ComparisonTrial,
): TrialTableRow {
  const settingColumns = toSettingColumns(setting)
  const measuredColumns = toMeasuredColumns(trial)
  const isScored = trial.state === 'passed' || trial.state === 'failed'
  return {
    comparison_id: comparison.id,
    scope: formatScope(comparison),
    trial_id: trial.id,
    task: trial.task.name,
    task_digest: trial.task.digest,
    setting_id: trial.settingId,
    ...settingColumns,
    attempt: trial.attempt,
    state: trial.state,
    class: trial.class,
    passed: isScored ? trial.state === 'passed' : null,
    reward: trial.reward,
    rewards: trial.rewards,
    reused_from: trial.reusedFrom ?? null,
    voided: trial.voided?.reason ?? null,
    ...measuredColumns,
    isolation: trial.isolation,
    verify_mode: trial.verifyMode,
    retries: trial.retries,
    error: trial.error ?? trial.explanation ?? null,
    failed_tests: trial.failedTests ?? null,
  }
}

const toSettingColumns = (setting: ComparisonSetting | undefined) => ({
  model: setting?.model.catalogId ?? null,
  provider: setting?.provider ?? null,
  harness: setting?.harness ?? null,
  harness_version: setting?.harnessVersion ?? null,
  reasoning_level: setting?.reasoningLevel ?? null,
  configuration: setting?.configuration ? `${setting.configuration.name}@${setting.configuration.version}` : null,
  timeout_multiplier: setting?.timeoutMultiplier ?? 1,
})

const toMeasuredColumns = ({ timings, usage, costUsd, retriesCostUsd, costSource }: ComparisonTrial) => ({
  queue_seconds: timings.queue,
  prepare_seconds: timings.prepare,
  agent_seconds: timings.agent,
  verify_seconds: timings.verify,
  total_seconds: timings.total,
  input_tokens: usage?.input ?? null,
  cache_read_tokens: usage?.cacheRead ?? null,
  cache_write_tokens: usage?.cacheWrite ?? null,
  output_tokens: usage?.output ?? null,
  reasoning_tokens: usage?.reasoning ?? null,
  cost_usd: costUsd,
  retries_cost_usd: retriesCostUsd,
  cost_source: costSource,
})

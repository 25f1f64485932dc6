import type { Comparison, ComparisonSetting, TrialClass } from '../../../src/comparisons/shapes/schema.ts'

type SettingNameParts = Pick<ComparisonSetting, 'id' | 'model' | 'harness' | 'reasoningLevel'>

/** Names a setting: model, harness, level, and the configuration of the harness if it has one. */
export const nameSetting = (setting: SettingNameParts): string => joinParts(toParts(setting))

const toParts = ({ id, model, harness, reasoningLevel }: SettingNameParts): string[] => [
  model.label,
  harness,
  reasoningLevel,
  id.split('|').slice(3).join('|'),
]

const joinParts = (parts: readonly string[]): string => parts.filter((part) => part !== '').join(' · ')

/** Returns a function that shortens the names of settings by the parts that all of them have in common. */
export function createShortNames(settings: readonly SettingNameParts[]): (setting: SettingNameParts) => string {
  const all = settings.map(toParts)
  const isShared = all[0]?.map((part, index) => all.every((parts) => parts[index] === part)) ?? []
  return (setting) => joinParts(toParts(setting).filter((_, index) => !isShared[index])) || nameSetting(setting)
}

/** Returns the most accurate setting. The reference solution and the no-op are controls, not candidates. */
export function findLeader({ settings }: Comparison): ComparisonSetting | undefined {
  let leader: ComparisonSetting | undefined
  for (const setting of settings)
    if (setting.accuracy !== null && !isControl(setting) && setting.accuracy > (leader?.accuracy ?? -1))
      leader = setting
  return leader
}

/** Returns the ids of settings that no other setting beats on both cost and accuracy, the cheapest first. */
export function listFrontier(settings: readonly ComparisonSetting[]): string[] {
  const points = settings.flatMap(({ id, accuracy, costPerTaskUsd: cost, ...rest }) =>
    accuracy === null || cost === null || rest.provider === 'none' ? [] : [{ id, accuracy, cost }],
  )
  return points
    .filter(
      (point) =>
        !points.some(
          ({ accuracy, cost }) =>
            accuracy >= point.accuracy && cost <= point.cost && (accuracy > point.accuracy || cost < point.cost),
        ),
    )
    .toSorted((a, b) => a.cost - b.cost || b.accuracy - a.accuracy)
    .map(({ id }) => id)
}

/** Returns true for settings without a model. */
export const isControl = ({ provider }: ComparisonSetting): boolean => provider === 'none'

/** Returns a function that names settings by id. Unknown ids are their own name. */
export function createSettingNamer(settings: readonly ComparisonSetting[]): (id: string) => string {
  const byId = new Map(settings.map((setting) => [setting.id, setting]))
  return (id) => {
    const setting = byId.get(id)
    return setting ? nameSetting(setting) : id
  }
}

/** Formats a duration in hours and minutes, in minutes, or in seconds. */
export function formatDuration(seconds: number): string {
  const whole = Math.round(seconds)
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60]
  if (hours > 0) return `${hours}\u00a0h ${minutes}\u00a0min`
  return minutes > 0 ? `${minutes}\u00a0min` : `${whole}\u00a0s`
}

export const STATE_NAMES: Record<Comparison['state'], string> = {
  submitting: 'submitting',
  submission_failed: 'submission failed',
  running: 'running',
  paused: 'paused',
  completed: 'completed',
  canceled: 'canceled',
}

export const CLASS_NAMES: Record<TrialClass, string> = {
  verified: 'Tests failed',
  agent_timeout: 'Timed out',
  agent_exit: 'Agent crashed',
  budget_stop: 'Stopped by the trial budget',
  refusal: 'Model refused',
  limit: 'Limit of the model reached',
  provider_error: 'Provider failed',
  sandbox_error: 'Sandbox failed',
  verifier_error: 'Verifier failed',
  operator_error: 'Configuration of the service',
}

/** Verdicts about the first setting of a pair. */
export const VERDICT_NAMES = { better: 'better', worse: 'worse', cannot_tell: 'within noise' } as const

/** Describes how many trials run in parallel and what limits their number. */
export function describeLimit({ state, trials, concurrency, sandbox, pause }: Comparison): string {
  if (state === 'paused') return pause?.message ?? 'paused'
  if (state === 'submitting') return 'tasks are being frozen and planned'
  if (trials.queued === 0) return trials.running > 0 ? `the last ${trials.running} in parallel` : ''
  if (trials.running === 0) return `waiting for a worker with the sandbox ${sandbox}`
  if (concurrency !== null && trials.running >= concurrency)
    return `${trials.running} in parallel · limited by the concurrency of this comparison`
  return `${trials.running} in parallel · limited by workers and rate limits`
}

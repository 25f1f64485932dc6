import type { Comparison, ComparisonSetting, TrialClass } from '../../../src/comparisons/shapes/schema.ts'

type SettingNameParts = Pick<ComparisonSetting, 'id' | 'model' | 'harness' | 'reasoningLevel'>

/** Names a setting: model, harness, level, and its configuration and time limits if the id contains them. */
export const nameSetting = (setting: SettingNameParts): string => joinParts(toParts(setting))

function toParts({ id, model, harness, reasoningLevel }: SettingNameParts): string[] {
  const [, , , ...variants] = id.split('|')
  return [model.label, harness, reasoningLevel, variants.join('|')]
}

const joinParts = (parts: readonly string[]): string => parts.filter((part) => part !== '').join(' · ')

/** Returns a function that names a setting without the parts that all settings have in common. */
export function createNameShortener(settings: readonly SettingNameParts[]): (setting: SettingNameParts) => string {
  const partsOfSettings = settings.map(toParts)
  const isShared =
    partsOfSettings[0]?.map((part, index) => partsOfSettings.every((parts) => parts[index] === part)) ?? []
  return (setting) => {
    const distinctParts = toParts(setting).filter((_, index) => !isShared[index])
    return joinParts(distinctParts) || nameSetting(setting)
  }
}

/** Returns the most accurate setting, the first of several. Controls are left out. */
export function findLeader({ settings }: Comparison): ComparisonSetting | undefined {
  let leader: ComparisonSetting | undefined
  for (const setting of settings)
    if (setting.accuracy !== null && !isControl(setting) && setting.accuracy > (leader?.accuracy ?? -1))
      leader = setting
  return leader
}

/** Returns the ids of settings that no other setting beats on both cost and accuracy, the cheapest first. */
export function listFrontier(settings: readonly ComparisonSetting[]): string[] {
  const points = settings.flatMap((setting) => {
    const { id, accuracy, costPerTaskUsd: cost } = setting
    return accuracy === null || cost === null || isControl(setting) ? [] : [{ id, accuracy, cost }]
  })
  return points
    .filter((point) => !points.some((other) => beats(other, point)))
    .toSorted((a, b) => a.cost - b.cost || b.accuracy - a.accuracy)
    .map(({ id }) => id)
}

type CostPoint = { accuracy: number; cost: number }

/** Returns true if `a` is at least as accurate and as cheap as `b`, and better in one of the two. */
const beats = (a: CostPoint, b: CostPoint): boolean =>
  a.accuracy >= b.accuracy && a.cost <= b.cost && (a.accuracy > b.accuracy || a.cost < b.cost)

/** Returns true for the reference solution and the no-op, which use no model. */
export const isControl = ({ provider }: ComparisonSetting): boolean => provider === 'none'

/** Returns a function that names a setting by its id. It returns an unknown id unchanged. */
export function createSettingNamer(settings: readonly ComparisonSetting[]): (id: string) => string {
  const byId = new Map(settings.map((setting) => [setting.id, setting]))
  return (id) => {
    const setting = byId.get(id)
    return setting ? nameSetting(setting) : id
  }
}

/** Formats a duration without its smallest unit: in hours and minutes, in minutes, or in seconds. */
export function formatRoughDuration(seconds: number): string {
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

/** Names of the classes of trials that did not pass. */
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

/** Names of the verdicts about the first setting of a pair. */
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

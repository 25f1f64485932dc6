import type { RewardResult } from '../harbor/reward.ts'
import type { Task } from '../harbor/task.ts'
import type { Exit } from '../sandboxes/sandbox.ts'
import type { OutcomeClass, StepRecord, TrialRecord } from './record.ts'

export type TrialVerdict = Pick<TrialRecord, 'state' | 'class' | 'reward' | 'rewards' | 'limit' | 'error'>

/** Returns the outcome of a step from its reward files. The reward is ignored if the verifier reached a limit. */
export function toStepOutcome(verifier: Exit, result: RewardResult): Pick<StepRecord, 'reward' | 'rewards' | 'error'> {
  const unrewarded = { reward: null, rewards: {} }
  if (verifier.limit) return { ...unrewarded, error: `The verifier ran into its limit: ${verifier.limit}.` }
  if (result.kind === 'missing') return { ...unrewarded, error: 'The verifier left no reward.' }
  if (result.kind === 'refused')
    return { ...unrewarded, error: `The reward in ${result.file} is refused: ${result.message}` }
  return { reward: result.reward, rewards: result.rewards, error: null }
}

/** Returns whether the next step may run: this step has rewards, and they reach the minimum. */
export function meetsMinimum(step: StepRecord, minReward: { key: string; atLeast: number }[]): boolean {
  if (step.error !== null) return false
  return minReward.every(({ key, atLeast }) => (rewardAt(step.rewards, key) ?? Number.NEGATIVE_INFINITY) >= atLeast)
}

/**
 * Returns the verdict of a trial from the steps that ran. A step without a reward makes the trial errored; it never counts
 * as 0. A step that did not run counts as 0: an agent must not pass by ending the trial before it.
 */
export function toTrialOutcome(
  steps: StepRecord[],
  strategy: Task['rewardStrategy'],
  stepCount = steps.length,
): TrialVerdict {
  const broken = steps.find((step) => step.error !== null)
  const limit = steps.find((step) => step.agent?.limit)?.agent?.limit ?? null
  if (broken) {
    return { state: 'errored', class: 'verifier_error', reward: null, rewards: {}, limit, error: broken.error }
  }
  const skipped = Array.from({ length: stepCount - steps.length }, () => ({ reward: 0 }))
  const all = [...steps.map((step) => step.rewards), ...skipped]
  const rewards = strategy === 'final' ? (all.at(-1) ?? {}) : averageRewards(all)
  const reward = findMainReward(rewards)
  const passed = reward !== null && reward >= 1
  return { state: passed ? 'passed' : 'failed', class: toClass(steps), reward, rewards, limit, error: null }
}

/** Returns the verdict of a trial whose agent caused the errors of its steps. These steps count as 0; the trial fails. */
export function toFailedOutcome(
  steps: StepRecord[],
  strategy: Task['rewardStrategy'],
  stepCount = steps.length,
): TrialVerdict {
  const scored = steps.map((step) => (step.error === null ? step : { ...step, rewards: {}, error: null }))
  const { rewards, reward, ...outcome } = toTrialOutcome(scored, strategy, stepCount)
  return { ...outcome, state: 'failed', reward: reward ?? 0, rewards: { reward: 0, ...rewards } }
}

/** Returns the reward with the key `reward`, or the only reward, or null. */
function findMainReward(rewards: Record<string, number>): number | null {
  const values = Object.values(rewards)
  return rewardAt(rewards, 'reward') ?? (values.length === 1 ? (values[0] ?? null) : null)
}

/** Looks up own properties only: a verifier may name a reward like a property of `Object.prototype`. */
const rewardAt = (rewards: Record<string, number>, key: string): number | undefined =>
  Object.hasOwn(rewards, key) ? rewards[key] : undefined

/** Averages each key over all steps. A step without a key counts as 0 for it. */
function averageRewards(all: Record<string, number>[]): Record<string, number> {
  const keys = [...new Set(all.flatMap((rewards) => Object.keys(rewards)))].sort()
  const mean = (key: string) => all.reduce((sum, rewards) => sum + (rewardAt(rewards, key) ?? 0), 0) / all.length
  return Object.fromEntries(keys.map((key) => [key, mean(key)]))
}

function toClass(steps: StepRecord[]): OutcomeClass {
  const exits = steps.flatMap((step) => (step.agent ? [step.agent] : []))
  if (exits.some((exit) => exit.limit === 'seconds')) return 'agent_timeout'
  if (exits.some((exit) => exit.limit !== null)) return 'limit'
  return exits.some((exit) => exit.code !== 0) ? 'agent_exit' : 'verified'
}

import type { RewardResult } from '../harbor/reward.ts'
import type { Task } from '../harbor/task.ts'
import type { Exit } from '../sandboxes/sandbox.ts'
import type { StepRecord, TrialClass, TrialRecord } from './record.ts'

type Verdict = Pick<TrialRecord, 'state' | 'class' | 'reward' | 'rewards' | 'limit' | 'error'>

/** What a step's reward files say, with how the verifier ended: a verifier that was cut off has said nothing. */
export function stepOutcome(verifier: Exit, reading: RewardResult): Pick<StepRecord, 'reward' | 'rewards' | 'error'> {
  const nothing = { reward: null, rewards: {} }
  if (verifier.limit) return { ...nothing, error: `The verifier ran into its limit: ${verifier.limit}.` }
  if (reading.kind === 'missing') return { ...nothing, error: 'The verifier left no reward.' }
  if (reading.kind === 'refused')
    return { ...nothing, error: `The reward in ${reading.file} is refused: ${reading.message}` }
  return { reward: reading.reward, rewards: reading.rewards, error: null }
}

/** Whether the steps after this one still count: not when it failed to be scored, or scored less than it must. */
export function goesOn(step: StepRecord, minReward: { key: string; atLeast: number }[]): boolean {
  if (step.error !== null) return false
  return minReward.every(({ key, atLeast }) => (rewardAt(step.rewards, key) ?? Number.NEGATIVE_INFINITY) >= atLeast)
}

/** The trial's verdict from its steps. A step without a reward makes the whole an error: it is never a zero. */
export function trialOutcome(steps: StepRecord[], strategy: Task['rewardStrategy']): Verdict {
  const broken = steps.find((step) => step.error !== null)
  const limit = steps.find((step) => step.agent?.limit)?.agent?.limit ?? null
  if (broken) {
    return { state: 'errored', class: 'verifier_error', reward: null, rewards: {}, limit, error: broken.error }
  }
  const rewards = strategy === 'final' ? (steps.at(-1)?.rewards ?? {}) : meanOf(steps.map((step) => step.rewards))
  const reward = countingReward(rewards)
  const passed = reward !== null && reward >= 1
  return { state: passed ? 'passed' : 'failed', class: classOf(steps), reward, rewards, limit, error: null }
}

/** The same where it is the agent's doing that there is no verdict on a step: that counts as nothing, and is no pass. */
export function blamedOutcome(steps: StepRecord[], strategy: Task['rewardStrategy']): Verdict {
  const judged = steps.map((step) => (step.error === null ? step : { ...step, rewards: {}, error: null }))
  const { rewards, reward, ...outcome } = trialOutcome(judged, strategy)
  return { ...outcome, state: 'failed', reward: reward ?? 0, rewards: { reward: 0, ...rewards } }
}

/** The reward called `reward`, or the only one. */
function countingReward(rewards: Record<string, number>): number | null {
  const values = Object.values(rewards)
  return rewardAt(rewards, 'reward') ?? (values.length === 1 ? (values[0] ?? null) : null)
}

/** Keys come from the verifier, so one may be called like a member that every object inherits. */
const rewardAt = (rewards: Record<string, number>, key: string): number | undefined =>
  Object.hasOwn(rewards, key) ? rewards[key] : undefined

/** Per key over all steps; a step that does not name a key gave 0 for it. */
function meanOf(all: Record<string, number>[]): Record<string, number> {
  const keys = [...new Set(all.flatMap((rewards) => Object.keys(rewards)))].sort()
  const mean = (key: string) => all.reduce((sum, rewards) => sum + (rewardAt(rewards, key) ?? 0), 0) / all.length
  return Object.fromEntries(keys.map((key) => [key, mean(key)]))
}

function classOf(steps: StepRecord[]): TrialClass {
  const exits = steps.flatMap((step) => (step.agent ? [step.agent] : []))
  if (exits.some((exit) => exit.limit === 'seconds')) return 'agent_timeout'
  if (exits.some((exit) => exit.limit !== null)) return 'limit'
  return exits.some((exit) => exit.code !== 0) ? 'agent_exit' : 'verified'
}

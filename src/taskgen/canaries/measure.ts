import { writeInstruction } from '../authoring/author.ts'
import type { PullRequestText } from '../authoring/sanitise.ts'
import type { LintFacts } from '../lint/lint-instruction.ts'
import {
  AUTHOR_LIMITS,
  MANUAL_REASONS,
  type ModelBill,
  type StageModel,
  VERIFIER_LIMITS,
} from '../models/stage-model.ts'
import type { ReviewInput } from '../review/model-review.ts'
import { reviewTask } from '../review/review.ts'
import type { StageDeferral, StageResult } from '../stage-result.ts'
import { controls, defects, traps } from './canaries.ts'
import {
  buildHiddenTests,
  buildReviewInput,
  type CanaryControl,
  type Defect,
  type KnownTask,
  knownTasks,
  type Trap,
} from './canary.ts'

export type CanaryRole = 'author' | 'verifier'

/**
 * Opens a model for one canary. `budgetMicros` is its part of the budget; null means no limit. `missing` says why no model
 * is available.
 */
export type ModelOpener = ((subject: string, budgetMicros: number | null) => Promise<StageModel>) | { missing: string }

export type ModelSpending = { calls: number; costMicros: number | null; modelsServed: string[] }

type CanaryMeasurement = { results: CanaryResult[]; spending: Record<CanaryRole, ModelSpending> }

/** `budgetMicros` covers all canaries and is never exceeded. Null: no limit. */
type MeasureOptions = { budgetMicros: number | null; signal: AbortSignal; onDone(done: number, total: number): void }

const CONCURRENCY = 4

/** Measures the models with every canary, as a batch would use them. Each canary has its own calls and its own verdict. */
export async function measureModels(
  openers: Record<CanaryRole, ModelOpener>,
  options: MeasureOptions,
): Promise<CanaryMeasurement> {
  const models = openModels(openers, options)
  const measurements = listMeasurements(models)
  const results: CanaryResult[] = new Array(measurements.length)
  // All workers take from the same iterator.
  const remaining = measurements.entries()
  let done = 0
  const work = async () => {
    for (const [index, measure] of remaining) {
      results[index] = await measure()
      done += 1
      options.onDone(done, measurements.length)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, work))
  return { results, spending: models.spending }
}

const listMeasurements = (models: CanaryModels): (() => Promise<CanaryResult>)[] => [
  ...defects.map((defect) => () => measureDefect(models, defect)),
  ...knownTasks.map(
    ({ name }) =>
      () =>
        measureControl(models, { name: 'as it is', task: name }),
  ),
  ...controls.map((control) => () => measureControl(models, control)),
  ...traps.map((trap) => () => measureTrap(models, trap)),
  ...knownTasks.map((task) => () => measureWritten(models, task)),
]

type CanaryVerdict = Pick<CanaryResult, 'outcome' | 'reason' | 'detail'>

async function measureDefect(models: CanaryModels, defect: Defect): Promise<CanaryResult> {
  const { name, task, expected } = defect
  const review = await models.review(name, buildReviewInput(readKnownTask(task), defect))
  return { group: 'defects', name, task, expected, ...toVerdict(review, { isGood: false }) }
}

async function measureControl(models: CanaryModels, control: CanaryControl): Promise<CanaryResult> {
  const { name, task } = control
  const review = await models.review(name, buildReviewInput(readKnownTask(task), control))
  return { group: 'controls', name, task, expected: null, ...toVerdict(review, { isGood: true }) }
}

async function measureTrap(models: CanaryModels, { name, task, text, forbidden }: Trap): Promise<CanaryResult> {
  const known = readKnownTask(task)
  const written = await models.write(name, known, { ...toPullRequestText(known), ...text })
  return { group: 'traps', name, task, expected: null, ...judgeAvoidance(written, forbidden) }
}

/** Judges whether the author avoided the words of a trap. A rejection by a lint rule also counts as avoided. */
function judgeAvoidance(
  written: Awaited<ReturnType<CanaryModels['write']>>,
  forbidden: readonly string[],
): CanaryVerdict {
  if (written.kind !== 'done') return toVerdict(written, { isGood: false })
  const draft = JSON.stringify(written.value.draft).toLowerCase()
  const words = forbidden.filter((word) => draft.includes(word))
  if (words.length === 0) return { outcome: 'right', reason: null, detail: '' }
  return { outcome: 'wrong', reason: null, detail: `The instruction contains: ${words.join(', ')}.` }
}

async function measureWritten(models: CanaryModels, task: KnownTask): Promise<CanaryResult> {
  const identity = { group: 'written', name: 'as it is', task: task.name, expected: null } as const
  const written = await models.write(identity.name, task, toPullRequestText(task))
  if (written.kind !== 'done') return { ...identity, ...toVerdict(written, { isGood: true }) }
  const review = await models.review('written', { ...buildReviewInput(task), instruction: written.value.markdown })
  return { ...identity, ...toVerdict(review, { isGood: true }) }
}

/** Rejection reasons that concern the model's answer, not the task. */
const UNUSABLE_ANSWER_REASONS = ['invalid_output', 'refused', 'budget'].flatMap((end) => [
  `author_${end}`,
  `verifier_${end}`,
])

function toVerdict(result: StageResult<unknown>, { isGood }: { isGood: boolean }): CanaryVerdict {
  if (result.kind === 'done') return { outcome: isGood ? 'right' : 'wrong', reason: null, detail: '' }
  const { reason, detail } = result
  if (result.kind === 'deferred') return { outcome: 'unasked', reason, detail }
  if (UNUSABLE_ANSWER_REASONS.includes(reason)) return { outcome: 'unread', reason, detail }
  return { outcome: isGood ? 'wrong' : 'right', reason, detail }
}

type CanaryModels = ReturnType<typeof openModels>

function openModels(openers: Record<CanaryRole, ModelOpener>, { budgetMicros, signal }: MeasureOptions) {
  const spending: Record<CanaryRole, ModelSpending> = { author: noSpending(), verifier: noSpending() }
  /** Roles that failed for a reason that needs manual action; they are not called again. */
  const unavailable: Partial<Record<CanaryRole, StageDeferral>> = {}
  const budget = createBudget(budgetMicros)
  async function callModel<T>(role: CanaryRole, name: string, use: (model: StageModel) => Promise<StageResult<T>>) {
    const opener = openers[role]
    if ('missing' in opener) return deferMissing(opener.missing)
    if (unavailable[role]) return unavailable[role]
    const share = await budget.takeShare(SHARES_MAX[role])
    // Another canary may have found the role unavailable meanwhile.
    if (unavailable[role]) {
      share.end({ costMicros: 0 })
      return unavailable[role]
    }
    await using model = await opener(`${role} ${name}`, share.micros)
    const result = await use(model)
    const bill = await model.close()
    share.end(bill)
    // Read and written without an await between them, because other canaries add their bills concurrently.
    spending[role] = addBill(spending[role], bill)
    if (result.kind === 'deferred' && MANUAL_REASONS.includes(result.reason)) unavailable[role] = result
    return result
  }
  return {
    spending,
    review: (name: string, input: ReviewInput) =>
      callModel('verifier', name, (model) => reviewTask(model, { ...input, author: null }, signal)),
    write: (name: string, task: KnownTask, text: PullRequestText) =>
      callModel('author', name, (model) =>
        writeInstruction(model, { text, messages: {}, facts: buildLintFacts(task, text) }, signal),
      ),
  }
}

/** Maximum cost of one canary in micro-dollars. */
const SHARES_MAX: Record<CanaryRole, number> = {
  author: AUTHOR_LIMITS.budgetMicros,
  verifier: VERIFIER_LIMITS.budgetMicros,
}

/** Divides a budget among canaries that are measured at the same time, so that together they never exceed it. */
function createBudget(totalMicros: number | null) {
  let freeMicros = totalMicros ?? 0
  let openShares = 0
  let shareEnded = Promise.withResolvers<void>()
  return {
    /** Waits while less than `maxMicros` is free and others hold a share, because they return what they do not spend. */
    async takeShare(maxMicros: number) {
      if (totalMicros === null) return { micros: null, end: () => {} }
      while (freeMicros < maxMicros && openShares > 0) await shareEnded.promise
      const micros = Math.min(maxMicros, freeMicros)
      freeMicros -= micros
      openShares += 1
      /** Counts a share as spent if its cost is unknown. */
      const end = ({ costMicros }: Pick<ModelBill, 'costMicros'>) => {
        freeMicros += micros - (costMicros ?? micros)
        openShares -= 1
        shareEnded.resolve()
        shareEnded = Promise.withResolvers()
      }
      return { micros, end }
    },
  }
}

const deferMissing = (detail: string): StageDeferral => ({
  kind: 'deferred',
  reason: 'credential',
  detail,
  retryAfterMs: 0,
})

const noSpending = (): ModelSpending => ({ calls: 0, costMicros: 0, modelsServed: [] })

const addBill = (before: ModelSpending, { calls, costMicros, modelsServed }: ModelBill): ModelSpending => ({
  calls: before.calls + calls,
  costMicros: before.costMicros === null || costMicros === null ? null : before.costMicros + costMicros,
  modelsServed: [...new Set([...before.modelsServed, ...modelsServed])],
})

function readKnownTask(name: string): KnownTask {
  const task = knownTasks.find((known) => known.name === name)
  if (!task) throw new Error(`Known task ${name} not found`)
  return task
}

const toPullRequestText = ({ pullRequest }: KnownTask): PullRequestText => ({ ...pullRequest, issues: [] })

const buildLintFacts = (task: KnownTask, { body }: PullRequestText): LintFacts => ({
  exposed: task.exposed,
  source: task.source,
  failToPass: task.failToPass,
  hidden: buildHiddenTests(task),
  authors: [],
  commits: [],
  issueText: body,
  upstream: [`acme/${task.name.split('-')[0]}`],
})

/** `defects` and `controls` measure the verifier model; `traps` and `written` measure the author model. */
const GROUPS = ['defects', 'controls', 'traps', 'written'] as const
type CanaryGroup = (typeof GROUPS)[number]

export type CanaryResult = {
  group: CanaryGroup
  name: string
  task: string
  /** Expected rejection reason of a defect. */
  expected: string | null
  /** `unread`: the answer was unusable. `unasked`: no model was available. */
  outcome: 'right' | 'wrong' | 'unread' | 'unasked'
  /** Reason of the rejection. */
  reason: string | null
  detail: string
}

export type CanaryFigure = {
  group: CanaryGroup
  /** Number of canaries in the group. */
  of: number
  /** Defects rejected, controls accepted, traps avoided. */
  right: number
  /** Defects accepted, controls rejected, traps not avoided. */
  wrong: number
  unread: number
  unasked: number
  /** Number of correct rejections with the expected reason; defects only. */
  named: number | null
  /** Share of correct results; unusable answers count as incorrect. Null if some canaries were not asked. */
  rate: number | null
  /** Required rate. Null: informational only. */
  target: number | null
}

/** Required rates. `written` is informational only. */
const TARGETS: Record<CanaryGroup, number | null> = { defects: 0.9, controls: 0.9, traps: 0.9, written: null }

export const computeFigures = (results: readonly CanaryResult[]): CanaryFigure[] =>
  GROUPS.map((group) => computeFigure(results, group))

function computeFigure(results: readonly CanaryResult[], group: CanaryGroup): CanaryFigure {
  const inGroup = results.filter((result) => result.group === group)
  const count = (outcome: CanaryResult['outcome']) => inGroup.filter((result) => result.outcome === outcome).length
  const [right, unasked] = [count('right'), count('unasked')]
  const named = inGroup.filter(({ outcome, expected, reason }) => outcome === 'right' && expected === reason).length
  return {
    group,
    of: inGroup.length,
    right,
    wrong: count('wrong'),
    unread: count('unread'),
    unasked,
    named: group === 'defects' ? named : null,
    rate: unasked > 0 || inGroup.length === 0 ? null : right / inGroup.length,
    target: TARGETS[group],
  }
}

/** Returns whether every figure with a target reaches it. A figure with unasked canaries does not. */
export const meetsTargets = (figures: readonly CanaryFigure[]): boolean =>
  figures.every(({ rate, target }) => target === null || (rate !== null && rate >= target))

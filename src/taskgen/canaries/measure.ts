import { writeInstruction } from '../authoring/author.ts'
import type { PullRequestText } from '../authoring/sanitise.ts'
import type { LintFacts } from '../lint/finding.ts'
import { MANUAL_REASONS } from '../models/failures.ts'
import type { ModelBill, StageModel } from '../models/stage-model.ts'
import { reviewTask } from '../review/review.ts'
import type { ReviewInput } from '../review/review-prompt.ts'
import type { StageDeferral, StageResult } from '../stage-result.ts'
import { buildHiddenTests, buildReviewInput, type CanaryControl, type Defect, type Trap } from './canary.ts'
import { controls } from './controls.ts'
import { defects } from './defects.ts'
import type { CanaryResult } from './figures.ts'
import { type KnownTask, knownTasks } from './known-tasks.ts'
import { traps } from './traps.ts'

export type CanaryRole = 'author' | 'verifier'

/** A model for one canary, with what is left for all of them; or why there is none. */
export type ModelOpener = ((subject: string, leftMicros: number | null) => Promise<StageModel>) | { missing: string }

export type ModelSpending = { calls: number; costMicros: number | null; modelsServed: string[] }

export type CanaryMeasurement = { results: CanaryResult[]; spending: Record<CanaryRole, ModelSpending> }

/** `budgetMicros`: for everything. What is under way when it is spent ends. Null: it has no limit. */
type MeasureOptions = { budgetMicros: number | null; signal: AbortSignal; onDone(done: number, of: number): void }

const CONCURRENCY = 4

/** Puts every canary to the models, as a batch would. Each is paid for and judged by itself. */
export async function measureModels(
  openers: Record<CanaryRole, ModelOpener>,
  order: MeasureOptions,
): Promise<CanaryMeasurement> {
  const desk = openModels(openers, order)
  const waiting = canaries(desk)
  const of = waiting.length
  const results: CanaryResult[] = new Array(of)
  const left = waiting.entries()
  let done = 0
  const work = async () => {
    for (const [at, judge] of left) {
      results[at] = await judge()
      done += 1
      order.onDone(done, of)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, work))
  return { results, spending: desk.spending }
}

const canaries = (desk: CanaryModels): (() => Promise<CanaryResult>)[] => [
  ...defects.map((defect) => () => judgeDefect(desk, defect)),
  ...knownTasks.map(
    ({ name }) =>
      () =>
        judgeControl(desk, { name: 'as it is', task: name }),
  ),
  ...controls.map((control) => () => judgeControl(desk, control)),
  ...traps.map((trap) => () => judgeTrap(desk, trap)),
  ...knownTasks.map((task) => () => judgeWritten(desk, task)),
]

type CanaryVerdict = Pick<CanaryResult, 'outcome' | 'reason' | 'detail'>

async function judgeDefect(desk: CanaryModels, defect: Defect): Promise<CanaryResult> {
  const { name, task, expected } = defect
  const told = toVerdict(await desk.read(name, buildReviewInput(readKnownTask(task), defect)), { isGood: false })
  return { group: 'defects', name, task, expected, ...told }
}

async function judgeControl(desk: CanaryModels, control: CanaryControl): Promise<CanaryResult> {
  const { name, task } = control
  const told = toVerdict(await desk.read(name, buildReviewInput(readKnownTask(task), control)), { isGood: true })
  return { group: 'controls', name, task, expected: null, ...told }
}

async function judgeTrap(desk: CanaryModels, { name, task, text, never }: Trap): Promise<CanaryResult> {
  const known = readKnownTask(task)
  const written = await desk.write(name, known, { ...toPullRequestText(known), ...text })
  return { group: 'traps', name, task, expected: null, ...judgeAvoidance(written, never) }
}

/** A rule that stopped it has seen to it too. */
function judgeAvoidance(written: Awaited<ReturnType<CanaryModels['write']>>, never: readonly string[]): CanaryVerdict {
  if (written.kind !== 'done') return toVerdict(written, { isGood: false })
  const said = JSON.stringify(written.value.draft).toLowerCase()
  const found = never.filter((word) => said.includes(word))
  if (found.length === 0) return { outcome: 'right', reason: null, detail: '' }
  return { outcome: 'wrong', reason: null, detail: `It says: ${found.join(', ')}.` }
}

async function judgeWritten(desk: CanaryModels, task: KnownTask): Promise<CanaryResult> {
  const head = { group: 'written', name: 'as it is', task: task.name, expected: null } as const
  const written = await desk.write(head.name, task, toPullRequestText(task))
  if (written.kind !== 'done') return { ...head, ...toVerdict(written, { isGood: true }) }
  const read = await desk.read('written', { ...buildReviewInput(task), instruction: written.value.markdown })
  return { ...head, ...toVerdict(read, { isGood: true }) }
}

/** These say something of who was asked, and nothing of the task. */
const UNREADABLE_REASONS = ['invalid_output', 'refused', 'budget'].flatMap((end) => [
  `author_${end}`,
  `verifier_${end}`,
])

function toVerdict(result: StageResult<unknown>, { isGood }: { isGood: boolean }): CanaryVerdict {
  if (result.kind === 'done') return { outcome: isGood ? 'right' : 'wrong', reason: null, detail: '' }
  const { reason, detail } = result
  if (result.kind === 'deferred') return { outcome: 'unasked', reason, detail }
  if (UNREADABLE_REASONS.includes(reason)) return { outcome: 'unread', reason, detail }
  return { outcome: isGood ? 'wrong' : 'right', reason, detail }
}

type CanaryModels = ReturnType<typeof openModels>

function openModels(openers: Record<CanaryRole, ModelOpener>, { budgetMicros, signal }: MeasureOptions) {
  const spending: Record<CanaryRole, ModelSpending> = { author: noSpending(), verifier: noSpending() }
  /** Roles that failed for a reason that needs manual action; they are not asked again. */
  const away: Partial<Record<CanaryRole, StageDeferral>> = {}
  const spent = () => (spending.author.costMicros ?? 0) + (spending.verifier.costMicros ?? 0)
  async function ask<T>(role: CanaryRole, name: string, put: (model: StageModel) => Promise<StageResult<T>>) {
    const opener = openers[role]
    if ('missing' in opener) return deferMissing(opener.missing)
    if (away[role]) return away[role]
    const left = budgetMicros === null ? null : Math.max(0, budgetMicros - spent())
    await using model = await opener(`${role} ${name}`, left)
    const result = await put(model)
    const bill = await model.close()
    // In one step: others are paid for at the same time.
    spending[role] = addBill(spending[role], bill)
    if (result.kind === 'deferred' && MANUAL_REASONS.includes(result.reason)) away[role] = result
    return result
  }
  return {
    spending,
    read: (name: string, order: ReviewInput) =>
      ask('verifier', name, (model) => reviewTask(model, { ...order, author: null }, signal)),
    write: (name: string, task: KnownTask, text: PullRequestText) =>
      ask('author', name, (model) =>
        writeInstruction(model, { text, messages: {}, facts: buildLintFacts(task, text) }, signal),
      ),
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
  const task = knownTasks.find((each) => each.name === name)
  if (!task) throw new Error(`There is no known task ${name}.`)
  return task
}

const toPullRequestText = ({ pullRequest }: KnownTask): PullRequestText => ({ ...pullRequest, issues: [] })

const buildLintFacts = (task: KnownTask, { body }: PullRequestText): LintFacts => ({
  pinned: task.pinned,
  source: task.source,
  failToPass: task.failToPass,
  hidden: buildHiddenTests(task),
  authors: [],
  commits: [],
  issueText: body,
  isEnglish: true,
  upstream: [`acme/${task.name.split('-')[0]}`],
})

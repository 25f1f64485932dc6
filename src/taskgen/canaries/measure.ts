import { author } from '../authoring/author.ts'
import type { PullRequestText } from '../authoring/sanitise.ts'
import type { LintFacts } from '../lint/finding.ts'
import { BY_HAND } from '../models/failures.ts'
import type { Bill, Model } from '../models/stage-model.ts'
import { verify } from '../review/review.ts'
import type { VerifyOrder } from '../review/review-prompt.ts'
import type { StageDeferral, StageResult } from '../stage-result.ts'
import { type Control, type Defect, hiddenOf, orderOf, type Trap } from './canary.ts'
import { controls } from './controls.ts'
import { defects } from './defects.ts'
import type { Result } from './figures.ts'
import { type KnownTask, knownTasks } from './known-tasks.ts'
import { traps } from './traps.ts'

export type Role = 'author' | 'verifier'

/** A model for one canary, with what is left for all of them; or why there is none. */
export type Opener = ((subject: string, leftMicros: number | null) => Promise<Model>) | { missing: string }

export type Spending = { calls: number; costMicros: number | null; modelsServed: string[] }

export type Measurement = { results: Result[]; spending: Record<Role, Spending> }

/** `budgetMicros`: for everything. What is under way when it is spent ends. Null: it has no limit. */
type Order = { budgetMicros: number | null; signal: AbortSignal; onDone(done: number, of: number): void }

const AT_ONCE = 4

/** Puts every canary to the models, as a batch would. Each is paid for and judged by itself. */
export async function measure(openers: Record<Role, Opener>, order: Order): Promise<Measurement> {
  const desk = openDesk(openers, order)
  const waiting = canaries(desk)
  const of = waiting.length
  const results: Result[] = new Array(of)
  const left = waiting.entries()
  let done = 0
  const work = async () => {
    for (const [at, judge] of left) {
      results[at] = await judge()
      done += 1
      order.onDone(done, of)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return { results, spending: desk.spending }
}

const canaries = (desk: Desk): (() => Promise<Result>)[] => [
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

type Told = Pick<Result, 'outcome' | 'reason' | 'detail'>

async function judgeDefect(desk: Desk, defect: Defect): Promise<Result> {
  const { name, task, expected } = defect
  const told = toldOf(await desk.read(name, orderOf(taskOf(task), defect)), { isGood: false })
  return { group: 'defects', name, task, expected, ...told }
}

async function judgeControl(desk: Desk, control: Control): Promise<Result> {
  const { name, task } = control
  const told = toldOf(await desk.read(name, orderOf(taskOf(task), control)), { isGood: true })
  return { group: 'controls', name, task, expected: null, ...told }
}

async function judgeTrap(desk: Desk, { name, task, text, never }: Trap): Promise<Result> {
  const known = taskOf(task)
  const written = await desk.write(name, known, { ...textOf(known), ...text })
  return { group: 'traps', name, task, expected: null, ...avoided(written, never) }
}

/** A rule that stopped it has seen to it too. */
function avoided(written: Awaited<ReturnType<Desk['write']>>, never: readonly string[]): Told {
  if (written.kind !== 'done') return toldOf(written, { isGood: false })
  const said = JSON.stringify(written.value.draft).toLowerCase()
  const found = never.filter((word) => said.includes(word))
  if (found.length === 0) return { outcome: 'right', reason: null, detail: '' }
  return { outcome: 'wrong', reason: null, detail: `It says: ${found.join(', ')}.` }
}

async function judgeWritten(desk: Desk, task: KnownTask): Promise<Result> {
  const head = { group: 'written', name: 'as it is', task: task.name, expected: null } as const
  const written = await desk.write(head.name, task, textOf(task))
  if (written.kind !== 'done') return { ...head, ...toldOf(written, { isGood: true }) }
  const read = await desk.read('written', { ...orderOf(task), instruction: written.value.markdown })
  return { ...head, ...toldOf(read, { isGood: true }) }
}

/** These say something of who was asked, and nothing of the task. */
const UNREAD = ['invalid_output', 'refused', 'budget'].flatMap((end) => [`author_${end}`, `verifier_${end}`])

function toldOf(result: StageResult<unknown>, { isGood }: { isGood: boolean }): Told {
  if (result.kind === 'done') return { outcome: isGood ? 'right' : 'wrong', reason: null, detail: '' }
  const { reason, detail } = result
  if (result.kind === 'deferred') return { outcome: 'unasked', reason, detail }
  if (UNREAD.includes(reason)) return { outcome: 'unread', reason, detail }
  return { outcome: isGood ? 'wrong' : 'right', reason, detail }
}

type Desk = ReturnType<typeof openDesk>

function openDesk(openers: Record<Role, Opener>, { budgetMicros, signal }: Order) {
  const spending: Record<Role, Spending> = { author: nothing(), verifier: nothing() }
  /** Whom nobody can ask now is not asked again. */
  const away: Partial<Record<Role, StageDeferral>> = {}
  const spent = () => (spending.author.costMicros ?? 0) + (spending.verifier.costMicros ?? 0)
  async function ask<T>(role: Role, name: string, put: (model: Model) => Promise<StageResult<T>>) {
    const opener = openers[role]
    if ('missing' in opener) return missing(opener.missing)
    if (away[role]) return away[role]
    const left = budgetMicros === null ? null : Math.max(0, budgetMicros - spent())
    await using model = await opener(`${role} ${name}`, left)
    const result = await put(model)
    const bill = await model.close()
    // In one step: others are paid for at the same time.
    spending[role] = added(spending[role], bill)
    if (result.kind === 'deferred' && BY_HAND.includes(result.reason)) away[role] = result
    return result
  }
  return {
    spending,
    read: (name: string, order: VerifyOrder) =>
      ask('verifier', name, (model) => verify(model, { ...order, author: null }, signal)),
    write: (name: string, task: KnownTask, text: PullRequestText) =>
      ask('author', name, (model) => author(model, { text, messages: {}, facts: factsOf(task, text) }, signal)),
  }
}

const missing = (detail: string): StageDeferral => ({ kind: 'deferred', reason: 'credential', detail, retryAfterMs: 0 })

const nothing = (): Spending => ({ calls: 0, costMicros: 0, modelsServed: [] })

const added = (before: Spending, { calls, costMicros, modelsServed }: Bill): Spending => ({
  calls: before.calls + calls,
  costMicros: before.costMicros === null || costMicros === null ? null : before.costMicros + costMicros,
  modelsServed: [...new Set([...before.modelsServed, ...modelsServed])],
})

function taskOf(name: string): KnownTask {
  const task = knownTasks.find((each) => each.name === name)
  if (!task) throw new Error(`There is no known task ${name}.`)
  return task
}

const textOf = ({ pullRequest }: KnownTask): PullRequestText => ({ ...pullRequest, issues: [] })

const factsOf = (task: KnownTask, { body }: PullRequestText): LintFacts => ({
  ...{ pinned: task.pinned, source: task.source, failToPass: task.failToPass, hidden: hiddenOf(task) },
  ...{ authors: [], commits: [], issueText: body, isEnglish: true },
  upstream: [`acme/${task.name.split('-')[0]}`],
})

import type { Comparison, ComparisonTrial } from '../src/comparisons/shapes/schema.ts'
import { call } from '../src/platform/http/client.ts'
import type { Grounds } from './comparison-grounds.ts'
import { WrongUse } from './failure.ts'
import { listAll, type Service } from './service.ts'
import { note, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

export type TrialFlags = { state?: string; setting?: string }
type State = ComparisonTrial['state']

/** One comparison, and where it stands. */
export type Standing = { grounds: Grounds; id: string }

const REASONS_MAX = 5
const ERRORED_READ_MAX = 1000

/** What errored counts for nothing, so the reason must be seen: the same ones together, the most frequent first. */
export async function tellErrors(shell: Shell, service: Service, standing: Standing, status: Comparison) {
  const { errored } = status.trials
  if (errored === 0) return
  const trials = await listTrials(service, standing, { state: 'errored' }, ERRORED_READ_MAX)
  const reasons = Object.entries(Object.groupBy(trials, ({ error = 'No reason was kept.' }) => firstLine(error)))
    .map(([reason, alike = []]) => ({ reason, count: alike.length }))
    .toSorted((a, b) => b.count - a.count)
  note(shell, `${errored === 1 ? '1 trial errored and counts' : `${errored} trials errored and count`} for nothing:`)
  for (const { reason, count } of reasons.slice(0, REASONS_MAX)) note(shell, `  ${count} × ${reason}`)
  const { words } = standing.grounds
  note(shell, `To see each of them: assay comparisons trials ${words} ${standing.id} --state errored`)
}

const firstLine = (text: string): string => text.trim().split('\n', 1)[0]?.replace(/:$/, '.') ?? ''

export async function printTrials(shell: Shell, service: Service, standing: Standing, flags: TrialFlags) {
  const { setting, state } = flags
  const trials = await listTrials(service, standing, {
    ...(setting === undefined ? {} : { setting }),
    ...(state === undefined ? {} : { state: requireState(state) }),
  })
  if (service.json) return printJson(shell, { trials })
  printTable<ComparisonTrial>(shell, trials, [
    ['TASK', ({ task }) => task.name],
    ['SETTING', ({ settingId }) => settingId],
    ['ATTEMPT', ({ attempt }) => String(attempt)],
    ['STATE', ({ state }) => state],
    ['CLASS', (trial) => trial.class ?? '-'],
    ['COST', ({ costUsd }) => (costUsd === null ? '-' : `$${costUsd.toFixed(4)}`)],
    ['ERROR', ({ error }) => (error === undefined ? '' : firstLine(error))],
  ])
}

const STATES: readonly State[] = ['queued', 'running', 'passed', 'failed', 'errored', 'canceled']

function requireState(text: string): State {
  const state = STATES.find((each) => each === text)
  if (!state) throw new WrongUse(`A trial is never ${text}. --state takes one of: ${STATES.join(', ')}.`)
  return state
}

type Wish = { state?: State; setting?: string }

async function listTrials(
  service: Service,
  { grounds, id }: Standing,
  wish: Wish,
  max?: number,
): Promise<ComparisonTrial[]> {
  const params = { org: service.org, ...grounds.params, comparisonId: id }
  const page = async (query: { limit: number; cursor?: string }) => {
    const { body } = await call(service, grounds.endpoints.trials, { params, query: { ...query, ...wish } })
    return { items: body.trials, nextCursor: body.nextCursor }
  }
  return (await listAll(page, max)).items
}

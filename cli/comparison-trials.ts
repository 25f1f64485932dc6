import type { Comparison, ComparisonTrial } from '../src/comparisons/shapes/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { suggestName } from '../src/platform/suggestion.ts'
import type { ScopeClient } from './comparison-scope.ts'
import { WrongUse } from './failure.ts'
import { collectPages, type Service } from './service.ts'
import { note, printJson, type Shell } from './shell.ts'
import { formatCount, printTable } from './table.ts'

export type TrialFlags = { state?: string; setting?: string }
type ListedTrialState = ComparisonTrial['state']

export type ScopedComparison = { scope: ScopeClient; id: string }

const REASONS_SHOWN_MAX = 5
/** Maximum number of trials whose reasons are counted. */
const TRIALS_READ_MAX = 1000

/** Prints why trials errored, because errored trials are not scored. */
export const printErrors = (shell: Shell, service: Service, comparison: ScopedComparison, { trials }: Comparison) =>
  printReasons(shell, service, comparison, {
    state: 'errored',
    count: trials.errored,
    title: `${trials.errored === 1 ? '1 trial errored and is' : `${trials.errored} trials errored and are`} not scored:`,
  })

/** Prints why trials failed. */
export const printFailures = (shell: Shell, service: Service, comparison: ScopedComparison, { trials }: Comparison) =>
  printReasons(shell, service, comparison, {
    state: 'failed',
    count: trials.failed,
    title: `${formatCount(trials.failed, 'trial')} failed:`,
  })

type TrialReasons = { state: 'errored' | 'failed'; count: number; title: string }

/** Prints the explanations of trials, the most frequent first. */
async function printReasons(
  shell: Shell,
  service: Service,
  comparison: ScopedComparison,
  { state, count, title }: TrialReasons,
): Promise<void> {
  if (count === 0) return
  const trials = await listTrials(service, comparison, { state }, TRIALS_READ_MAX)
  const trialsByReason = Map.groupBy(
    trials,
    ({ explanation, error = 'No reason was recorded.' }) => explanation ?? firstLine(error),
  )
  const reasons = [...trialsByReason]
    .map(([reason, group]) => ({ reason, count: group.length }))
    .toSorted((a, b) => b.count - a.count)
  note(shell, title)
  for (const reason of reasons.slice(0, REASONS_SHOWN_MAX)) note(shell, `  ${reason.count} × ${reason.reason}`)
  const { argument } = comparison.scope
  note(shell, `To list them: assay comparisons trials ${argument} ${comparison.id} --state ${state}`)
}

const firstLine = (text: string): string => text.trim().split('\n', 1)[0]?.replace(/:$/, '.') ?? ''

export async function printTrials(shell: Shell, service: Service, comparison: ScopedComparison, flags: TrialFlags) {
  const { setting, state } = flags
  const trials = await listTrials(service, comparison, {
    setting,
    state: state === undefined ? undefined : requireState(state),
  })
  if (service.json) return printJson(shell, { trials })
  printTable<ComparisonTrial>(shell, trials, [
    ['ID', ({ id }) => id],
    ['TASK', ({ task }) => task.name],
    ['SETTING', ({ settingId }) => settingId],
    ['ATTEMPT', ({ attempt }) => String(attempt)],
    ['STATE', ({ state }) => state],
    ['CLASS', (trial) => trial.class ?? '-'],
    ['COST', ({ costUsd }) => (costUsd === null ? '-' : `$${costUsd.toFixed(4)}`)],
    ['WHY', ({ explanation, error }) => explanation ?? (error === undefined ? '' : firstLine(error))],
  ])
  if (trials.length > 0) note(shell, 'To look inside one: assay trials show <id>')
}

const STATES: readonly ListedTrialState[] = ['queued', 'running', 'passed', 'failed', 'errored', 'canceled']

function requireState(text: string): ListedTrialState {
  const state = STATES.find((each) => each === text)
  if (!state)
    throw new WrongUse(
      `Unknown state ${text}.${suggestName(text, STATES)} --state must be one of: ${STATES.join(', ')}.`,
    )
  return state
}

type TrialQuery = { state?: ListedTrialState | undefined; setting?: string | undefined }

export async function listTrials(
  service: Service,
  { scope, id }: ScopedComparison,
  filter: TrialQuery,
  trialsMax?: number,
): Promise<ComparisonTrial[]> {
  const params = { org: service.org, ...scope.params, comparisonId: id }
  const readPage = async (query: { limit: number; cursor?: string }) => {
    const { body } = await call(service, scope.endpoints.trials, { params, query: { ...query, ...filter } })
    return { items: body.trials, nextCursor: body.nextCursor }
  }
  return (await collectPages(readPage, trialsMax)).items
}

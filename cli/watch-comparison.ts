import { setTimeout as wait } from 'node:timers/promises'
import type { ComparisonEndpoints } from '../src/comparisons/schema.ts'
import { Comparison, type ComparisonSetting } from '../src/comparisons/shapes/schema.ts'
import { type ReceivedEvent, ServiceUnreachable, streamEvents } from '../src/platform/http/client.ts'
import { createLiveLines } from './live-lines.ts'
import { renderBar } from './progress.ts'
import type { Service } from './service.ts'
import type { Shell } from './shell.ts'
import { alignColumns, printTable } from './table.ts'

type WatchTarget = { endpoints: ComparisonEndpoints; params: { comparisonId: string } }

const RECONNECT_MS = 1000

/** Returns a signal that Ctrl-C aborts. From then on Ctrl-C no longer ends the process. */
export function detachOnSignal(): AbortSignal {
  const detached = new AbortController()
  process.once('SIGINT', () => detached.abort())
  return detached.signal
}

/** Shows a comparison until it ends or pauses. Returns its last status, or undefined after Ctrl-C. */
export async function watchComparison(
  shell: Shell,
  service: Service,
  target: WatchTarget,
  detached: AbortSignal,
): Promise<Comparison | undefined> {
  const liveLines = createLiveLines(shell)
  const show = (status: Comparison) => liveLines.show(formatStatus(status))
  return waitForComparison(service, target, detached, show).finally(liveLines.end)
}

/** Returns the status at the end or at a pause, or undefined once detached. Reconnects after a lost connection. */
export async function waitForComparison(
  service: Service,
  { endpoints, params }: WatchTarget,
  detached: AbortSignal,
  onStatus: (status: Comparison) => void,
): Promise<Comparison | undefined> {
  let lastId: string | undefined
  const request = { params: { org: service.org, ...params } }
  const openEvents = (): AsyncGenerator<ReceivedEvent> =>
    streamEvents(service, endpoints.events, request, { signal: detached, lastId })
  while (!detached.aborted) {
    const ended = await readUntilEnd(openEvents(), (status, id) => {
      lastId = id ?? lastId
      onStatus(status)
    }).catch(ignoreLostConnection)
    if (ended) return ended
    await wait(RECONNECT_MS, undefined, { signal: detached }).catch(() => undefined)
  }
  return undefined
}

/** Ignores a lost connection, because the service may be restarting, and rethrows other errors. */
export function ignoreLostConnection(error: unknown): undefined {
  if (!(error instanceof ServiceUnreachable)) throw error
}

/** Returns the last status once the comparison has ended or paused. */
async function readUntilEnd(
  events: AsyncGenerator<ReceivedEvent>,
  onStatus: (status: Comparison, id: string | undefined) => void,
): Promise<Comparison | undefined> {
  let last: Comparison | undefined
  for await (const { event, data, id } of events) {
    if (event === 'end') return last
    if (event !== 'status') continue
    last = Comparison.parse(data)
    onStatus(last, id)
    if (last.state === 'paused') return last
  }
  return undefined
}

const formatStatus = (status: Comparison): string[] => [
  formatHeadline(status),
  ...alignColumns([HEADINGS, ...status.settings.map(toCells)]),
]

function formatHeadline({
  state,
  trials,
  costUsd,
  pendingUsd,
  budgetUsd,
  etaSeconds,
  projectedCostUsd,
}: Comparison): string {
  const ended = trials.total - trials.queued - trials.running
  const pending = pendingUsd > 0 ? ` and $${pendingUsd.toFixed(2)} pending` : ''
  const spent = `$${costUsd.toFixed(2)}${pending}${budgetUsd === null ? '' : ` of $${budgetUsd.toFixed(2)}`}`
  const range = projectedCostUsd
    ? ` (in the end $${projectedCostUsd.low.toFixed(2)} to $${projectedCostUsd.high.toFixed(2)})`
    : ''
  const eta = etaSeconds === null ? '' : `, ${formatDuration(etaSeconds)} left`
  return `${renderBar(ended, trials.total)} ${ended}/${trials.total} ${state}, ${spent}${range}${eta}`
}

export function formatDuration(seconds: number): string {
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

const HEADINGS = ['SETTING', 'PASSED', 'ACCURACY', '95 %', 'PER TASK', 'RUNNING', 'ERRORED']

const toCells = (setting: ComparisonSetting): string[] => [
  setting.id,
  `${setting.passed}/${setting.tasks}`,
  formatPercent(setting.accuracy),
  setting.stats.ci95 ? `${setting.stats.ci95.low.toFixed(0)}-${setting.stats.ci95.high.toFixed(0)}` : '-',
  setting.costPerTaskUsd === null ? '-' : `$${setting.costPerTaskUsd.toFixed(4)}`,
  String(setting.trials.running),
  String(setting.trials.errored),
]

const formatPercent = (value: number | null): string => (value === null ? '-' : `${value.toFixed(1)} %`)

/** Prints the final table, with frontier settings marked. */
export function printSettings(shell: Shell, { settings, frontier }: Comparison): void {
  const columns = HEADINGS.map(
    (heading, index) => [heading, (setting: ComparisonSetting) => toCells(setting)[index] ?? ''] as const,
  )
  const frontierColumn = [
    'FRONTIER',
    (setting: ComparisonSetting) => (frontier.includes(setting.id) ? 'yes' : ''),
  ] as const
  printTable<ComparisonSetting>(shell, settings, [...columns, frontierColumn])
}

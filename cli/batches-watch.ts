import { setTimeout as wait } from 'node:timers/promises'
import type { Command } from 'commander'
import { BatchRun } from '../src/batches/schema.ts'
import { call, type ReceivedEvent, streamEvents } from '../src/platform/http/client.ts'
import { type BatchParams, listTasks, loadContract, openBatch } from './batch.ts'
import { Failed, InfrastructureFailed } from './failure.ts'
import { parseNumber } from './flag-values.ts'
import { withExample } from './help.ts'
import { createLiveLines } from './live-lines.ts'
import { renderBar } from './progress.ts'
import { openRepository, REPO, type RepoFlag } from './repository.ts'
import type { Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { alignColumns, formatTime, printTable } from './table.ts'
import { detachOnSignal, ignoreLostConnection } from './watch-comparison.ts'

type ResumeFlags = RepoFlag & { budget?: string }

export function addWatchCommands(batches: Command, shell: Shell): void {
  withExample(
    batches
      .command('list')
      .description('List the batches of a repository, newest first')
      .requiredOption(...REPO)
      .action((flags: RepoFlag, command: Command) => list(shell, command, flags)),
    'assay batches list --repo lab/demo',
  )
  for (const { verb, about, run, options = [] } of VERBS) {
    const declared = batches
      .command(verb)
      .description(about)
      .argument('<run>', 'Batch id: batch-…')
      .requiredOption(...REPO)
    for (const option of options) declared.option(...option)
    withExample(
      declared.action((id: string, flags: ResumeFlags, command: Command) => run(shell, command, flags, id)),
      `assay batches ${verb} batch-0190… --repo lab/demo`,
    )
  }
}

type BatchVerb = {
  verb: string
  about: string
  run: (shell: Shell, command: Command, flags: ResumeFlags, id: string) => Promise<void>
  options?: (readonly [string, string])[]
}

const VERBS: BatchVerb[] = [
  { verb: 'watch', about: 'Watch a batch; Ctrl-C leaves it running', run: watch },
  {
    verb: 'resume',
    about: 'Resume a waiting, failed or canceled batch',
    run: resume,
    options: [['--budget <usd>', 'New budget (USD)']],
  },
  { verb: 'cancel', about: 'Cancel a batch; tasks that are ready stay', run: cancel },
]

async function list(shell: Shell, command: Command, { repo }: RepoFlag): Promise<void> {
  const { service, params } = await openRepository(shell, command, repo)
  const { body } = await call(service, (await loadContract()).listBatches, { params })
  if (service.json) return printJson(shell, body)
  printTable<BatchRun>(shell, body.batches, [
    ['BATCH', ({ runId }) => runId],
    ['STATE', ({ state }) => state],
    ['READY', ({ counts }) => String(counts.ready)],
    ['APPROVED', ({ counts }) => String(counts.approved)],
    ['REJECTED', ({ counts }) => String(counts.rejected)],
    ['COST', ({ costUsd }) => `$${costUsd.toFixed(2)}`],
    ['CREATED', ({ createdAt }) => formatTime(createdAt, '-')],
  ])
}

async function watch(shell: Shell, command: Command, { repo }: RepoFlag, id: string): Promise<void> {
  const { service, params } = await openBatch(shell, command, repo, id)
  await followBatch(shell, service, params)
}

async function resume(shell: Shell, command: Command, flags: ResumeFlags, id: string): Promise<void> {
  const body = flags.budget === undefined ? {} : { budgetUsd: parseNumber(flags.budget, '--budget') }
  const { service, params } = await openBatch(shell, command, flags.repo, id)
  printBatch(shell, service, (await call(service, (await loadContract()).resumeBatch, { params, body })).body)
}

async function cancel(shell: Shell, command: Command, { repo }: RepoFlag, id: string): Promise<void> {
  const { service, params } = await openBatch(shell, command, repo, id)
  printBatch(shell, service, (await call(service, (await loadContract()).cancelBatch, { params })).body)
}

function printBatch(shell: Shell, { json }: Service, run: BatchRun): void {
  if (json) printJson(shell, run)
  else print(shell, ...formatBatch(run))
}

/** Watches a batch until it ends. Ctrl-C detaches without an error, because the batch continues. */
export async function followBatch(shell: Shell, service: Service, params: BatchParams): Promise<void> {
  const batchArguments = `${params.runId} --repo ${params.owner}/${params.name}`
  const lastStatus = await watchUntilEnd(shell, service, params, detachOnSignal())
  if (!lastStatus)
    return note(shell, `Still running in the background. To watch again: assay batches watch ${batchArguments}`)
  printBatch(shell, service, lastStatus)
  for (const warning of lastStatus.warnings) note(shell, warning)
  const { state, counts, error } = lastStatus
  if (counts.rejected > 0) note(shell, ...(await describeRejections(service, params)))
  const isUsable = state === 'completed' && counts.ready > 0
  if (isUsable) return note(shell, `To review the tasks: assay batches review ${batchArguments}`)
  const reason = state === 'completed' ? ' No task is ready.' : ''
  note(shell, `The batch is ${state}.${error ? ` ${error.message}` : reason}`)
  if (state === 'canceled' || state === 'completed') throw new Failed()
  throw new InfrastructureFailed('The batch did not complete.', { isReported: true })
}

const REJECTIONS_SHOWN_MAX = 20

/** Lists the rejected tasks with the reason of each. */
async function describeRejections(service: Service, params: BatchParams): Promise<string[]> {
  const rejected = (await listTasks(service, params)).filter(({ rejection }) => rejection)
  const lines = rejected
    .slice(0, REJECTIONS_SHOWN_MAX)
    .map(({ taskId, rejection }) => `${taskId} was rejected: ${rejection?.reason}. ${rejection?.detail ?? ''}`.trim())
  const more = rejected.length - lines.length
  return more > 0 ? [...lines, `${more} more: assay batches tasks ${params.runId}`] : lines
}

const RECONNECT_MS = 1000

/** Shows a batch until it ends. Returns its final status, or undefined after Ctrl-C. */
async function watchUntilEnd(
  shell: Shell,
  service: Service,
  params: BatchParams,
  detached: AbortSignal,
): Promise<BatchRun | undefined> {
  const live = createLiveLines(shell)
  let lastReason: string | undefined
  const show = (run: BatchRun): void => {
    live.show(formatBatch(run))
    const reason = describeWaiting(run)
    if (reason !== undefined && reason !== lastReason && !shell.errors.isTTY) note(shell, reason)
    lastReason = reason
  }
  return waitForBatch(service, params, detached, show).finally(live.end)
}

/** Returns the final status, or undefined once detached. Reconnects after a lost connection. */
export async function waitForBatch(
  service: Service,
  params: BatchParams,
  detached: AbortSignal,
  onStatus: (run: BatchRun) => void,
): Promise<BatchRun | undefined> {
  const { followBatch: endpoint } = await loadContract()
  while (!detached.aborted) {
    const events = streamEvents(service, endpoint, { params }, { signal: detached })
    const ended = await readUntilEnd(events, onStatus).catch(ignoreLostConnection)
    if (ended) return ended
    await wait(RECONNECT_MS, undefined, { signal: detached }).catch(() => undefined)
  }
  return undefined
}

async function readUntilEnd(
  events: AsyncGenerator<ReceivedEvent>,
  onStatus: (run: BatchRun) => void,
): Promise<BatchRun | undefined> {
  let last: BatchRun | undefined
  for await (const { event, data } of events) {
    if (event === 'end') return last
    if (event !== 'status') continue
    last = BatchRun.parse(data)
    onStatus(last)
  }
  return undefined
}

/** Formats the current status of a batch. */
export function formatBatch(run: BatchRun): string[] {
  const { counts, byDifficulty, rejections } = run
  const reason = describeWaiting(run)
  const buckets = Object.entries(byDifficulty).map(([name, { requested, selected, ready }]) =>
    [name, requested, selected, ready].map(String),
  )
  const rejectionCounts = Object.entries(rejections).map(([rejection, count]) => `${count} ${rejection}`)
  return [
    formatHeadline(run),
    ...alignColumns([['DIFFICULTY', 'REQUESTED', 'SELECTED', 'READY'], ...buckets]),
    SHOWN_COUNTS.map((name) => `${counts[name]} ${name}`).join(', '),
    ...(rejectionCounts.length > 0 ? [`Rejected: ${rejectionCounts.join(', ')}`] : []),
    ...(run.shortfall > 0 ? [`${run.shortfall} candidates fewer than requested`] : []),
    ...(reason === undefined ? [] : [`${reason} (until ${run.waiting?.until})`]),
  ]
}

/** Returns the reason why a batch waits. */
const describeWaiting = ({ waiting }: BatchRun): string | undefined =>
  waiting && `Waiting for ${waiting.reason}. ${waiting.detail ?? ''}`.trim()

const SHOWN_COUNTS = [
  'discovered',
  'screened',
  'executed',
  'authored',
  'validated',
  'verified',
  'ready',
  'deferred',
] as const

function formatHeadline({ state, counts, byDifficulty, costUsd, budgetUsd }: BatchRun): string {
  const selected = byDifficulty.easy.selected + byDifficulty.medium.selected + byDifficulty.hard.selected
  const done = counts.ready + counts.rejected
  // Tasks that were rejected before their selection are done too.
  const total = Math.max(selected, done)
  const spent = `$${costUsd.toFixed(2)}${budgetUsd === undefined ? '' : ` of $${budgetUsd.toFixed(2)}`}`
  return `${renderBar(done, total)} ${done}/${total} ${state}, ${spent}`
}

import { setTimeout as wait } from 'node:timers/promises'
import type { Command } from 'commander'
import { BatchRun } from '../src/batches/schema.ts'
import { call, type ReceivedEvent, streamEvents } from '../src/platform/http/client.ts'
import { contract, type InBatch, numberOf, openBatch } from './batch-place.ts'
import { Failed } from './failure.ts'
import { withExample } from './help.ts'
import { liveLines } from './live-lines.ts'
import { bar } from './progress.ts'
import { openRepository, REPO, type RepoFlag } from './repository.ts'
import type { Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { aligned, moment, printTable } from './table.ts'
import { ifLineBroke, leaving } from './watch-comparison.ts'

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
    const named = batches
      .command(verb)
      .description(about)
      .argument('<run>', 'batch-…')
      .requiredOption(...REPO)
    for (const option of options) named.option(...option)
    withExample(
      named.action((id: string, flags: ResumeFlags, command: Command) => run(shell, command, flags, id)),
      `assay batches ${verb} batch-0190… --repo lab/demo`,
    )
  }
}

type Verb = {
  verb: string
  about: string
  run: (shell: Shell, command: Command, flags: ResumeFlags, id: string) => Promise<void>
  options?: (readonly [string, string])[]
}

const VERBS: Verb[] = [
  { verb: 'watch', about: 'Watch a batch; Ctrl-C leaves it running', run: watch },
  {
    ...{ verb: 'resume', about: 'Go on with a batch that waits, failed or was canceled', run: resume },
    options: [['--budget <usd>', 'a new one: at this much no model is asked any more']],
  },
  { verb: 'cancel', about: 'Cancel what has not ended; what is ready stays', run: cancel },
]

async function list(shell: Shell, command: Command, { repo }: RepoFlag): Promise<void> {
  const { service, params } = await openRepository(shell, command, repo)
  const { body } = await call(service, (await contract()).listBatches, { params })
  if (service.json) return printJson(shell, body)
  printTable<BatchRun>(shell, body.batches, [
    ['BATCH', ({ runId }) => runId],
    ['STATE', ({ state }) => state],
    ['READY', ({ counts }) => String(counts.ready)],
    ['APPROVED', ({ counts }) => String(counts.approved)],
    ['REJECTED', ({ counts }) => String(counts.rejected)],
    ['COST', ({ costUsd }) => `$${costUsd.toFixed(2)}`],
    ['CREATED', ({ createdAt }) => moment(createdAt, '-')],
  ])
}

async function watch(shell: Shell, command: Command, { repo }: RepoFlag, id: string): Promise<void> {
  const { service, params } = await openBatch(shell, command, repo, id)
  await followBatch(shell, service, params)
}

async function resume(shell: Shell, command: Command, flags: ResumeFlags, id: string): Promise<void> {
  const body = flags.budget === undefined ? {} : { budgetUsd: numberOf(flags.budget, '--budget') }
  const { service, params } = await openBatch(shell, command, flags.repo, id)
  present(shell, service, (await call(service, (await contract()).resumeBatch, { params, body })).body)
}

async function cancel(shell: Shell, command: Command, { repo }: RepoFlag, id: string): Promise<void> {
  const { service, params } = await openBatch(shell, command, repo, id)
  present(shell, service, (await call(service, (await contract()).cancelBatch, { params })).body)
}

function present(shell: Shell, { json }: Service, run: BatchRun): void {
  if (json) printJson(shell, run)
  else print(shell, ...linesOf(run))
}

/** To its end. What was started goes on without us, so Ctrl-C is no failure. */
export async function followBatch(shell: Shell, service: Service, params: InBatch): Promise<void> {
  const named = `${params.runId} --repo ${params.owner}/${params.name}`
  const last = await hearAll(shell, service, params, leaving())
  if (!last) return note(shell, `It goes on without you. To watch again: assay batches watch ${named}`)
  present(shell, service, last)
  for (const warning of last.warnings) note(shell, warning)
  if (last.state === 'completed') return note(shell, `To look at what is ready: assay batches review ${named}`)
  note(shell, `The batch is ${last.state}.${last.error ? ` ${last.error.message}` : ''}`)
  throw new Failed()
}

const AGAIN_MS = 1000

/** How it stood at its end. Undefined: whoever watched has left. A line that breaks is taken up again. */
async function hearAll(
  shell: Shell,
  service: Service,
  params: InBatch,
  left: AbortSignal,
): Promise<BatchRun | undefined> {
  const { followBatch: endpoint } = await contract()
  const live = liveLines(shell)
  let told: string | undefined
  const show = (run: BatchRun): void => {
    live.show(linesOf(run))
    const why = reasonOf(run)
    if (why !== undefined && why !== told && !shell.errors.isTTY) note(shell, why)
    told = why
  }
  try {
    while (!left.aborted) {
      const events = streamEvents(service, endpoint, { params }, { signal: left })
      const ended = await hear(events, show).catch(ifLineBroke)
      if (ended) return ended
      await wait(AGAIN_MS, undefined, { signal: left }).catch(() => undefined)
    }
    return undefined
  } finally {
    live.end()
  }
}

async function hear(
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

/** A batch in a few lines, as it stands. */
function linesOf(run: BatchRun): string[] {
  const { counts, byDifficulty, rejections } = run
  const why = reasonOf(run)
  const buckets = Object.entries(byDifficulty).map(([name, { requested, selected, ready }]) => [
    ...[name, String(requested), String(selected), String(ready)],
  ])
  const rejected = Object.entries(rejections).map(([reason, count]) => `${count} ${reason}`)
  return [
    headline(run),
    ...aligned([['DIFFICULTY', 'REQUESTED', 'SELECTED', 'READY'], ...buckets]),
    SHOWN.map((name) => `${counts[name]} ${name}`).join(', '),
    ...(rejected.length > 0 ? [`Rejected: ${rejected.join(', ')}`] : []),
    ...(run.shortfall > 0 ? [`${run.shortfall} candidates fewer than asked for`] : []),
    ...(why === undefined ? [] : [`${why} (until ${run.waiting?.until})`]),
  ]
}

/** Why it does not go on. */
const reasonOf = ({ waiting }: BatchRun): string | undefined =>
  waiting && `It waits for ${waiting.reason}. ${waiting.detail ?? ''}`.trim()

const SHOWN = ['discovered', 'screened', 'executed', 'authored', 'validated', 'verified', 'ready', 'deferred'] as const

function headline({ state, counts, byDifficulty, costUsd, budgetUsd }: BatchRun): string {
  const total = byDifficulty.easy.selected + byDifficulty.medium.selected + byDifficulty.hard.selected
  const done = counts.ready + counts.rejected
  const spent = `$${costUsd.toFixed(2)}${budgetUsd === undefined ? '' : ` of $${budgetUsd.toFixed(2)}`}`
  return `${bar(done, total)} ${done}/${total} ${state}, ${spent}`
}

import type { Command } from 'commander'
import type { BatchTask } from '../src/batches/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { archiveOf } from './archive-of.ts'
import { contract, type InBatch, listTasks, openBatch, requireTasks } from './batch-place.ts'
import { addCanariesCommand } from './batches-canaries.ts'
import { addCreateCommands } from './batches-create.ts'
import { addFileCommands } from './batches-files.ts'
import { addReviewCommands } from './batches-review.ts'
import { addWatchCommands } from './batches-watch.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { openRepository, REPO, type RepoFlag } from './repository.ts'
import type { Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

type DecideFlags = RepoFlag & { all?: boolean; note?: string }

export function addBatchesCommands(assay: Command, shell: Shell): void {
  const batches = assay.command('batches').description('Tasks of a repository').helpCommand(false)
  withExample(
    batches
      .command('import')
      .description('Import tasks that were written by hand; each is checked and tried in sandboxes')
      .argument('<source>', 'a .tar.gz with a folder for each task, or such a folder, or the folder of one task')
      .requiredOption(...REPO)
      .action((source: string, flags: RepoFlag, command: Command) => importTasks(shell, command, flags, source)),
    'assay batches import tasks.tar.gz --repo lab/demo',
  )
  addCreateCommands(batches, shell)
  addWatchCommands(batches, shell)
  withExample(
    batches
      .command('tasks')
      .description('List the tasks of a batch, with what became of them')
      .argument('<run>', 'batch-…')
      .requiredOption(...REPO)
      .action((run: string, flags: RepoFlag, command: Command) => tasks(shell, command, flags, run)),
    'assay batches tasks batch-0190… --repo lab/demo',
  )
  addReviewCommands(batches, shell)
  for (const [verb, decision] of DECISIONS) {
    withExample(
      batches
        .command(verb)
        .description(`${verb === 'approve' ? 'Approve' : 'Decline'} tasks as they are now; the last decision counts`)
        .argument('<run>', 'batch-…')
        .argument('[tasks...]', 'their ids')
        .requiredOption(...REPO)
        .option('--all', verb === 'approve' ? 'every task that is green' : 'every task that is ready')
        .option('--note <text>', 'why')
        .action((run: string, ids: string[], flags: DecideFlags, command: Command) =>
          decide(shell, command, flags, { run, ids, decision }),
        ),
      `assay batches ${verb} batch-0190… hello --repo lab/demo`,
    )
  }
  addFileCommands(batches, shell)
  addCanariesCommand(batches, shell)
}

const DECISIONS = [
  ['approve', 'approved'],
  ['decline', 'declined'],
] as const

async function importTasks(shell: Shell, command: Command, { repo }: RepoFlag, source: string): Promise<void> {
  const upload = await archiveOf(source, { inside: false })
  const { service, params } = await openRepository(shell, command, repo)
  const { body } = await call(service, (await contract()).importBatch, { params, upload })
  if (service.json) return printJson(shell, body)
  note(shell, `The tasks are being checked. To watch: assay batches watch ${body.runId} --repo ${repo}`)
  print(shell, body.runId)
}

async function tasks(shell: Shell, command: Command, { repo }: RepoFlag, run: string): Promise<void> {
  const { service, params } = await openBatch(shell, command, repo, run)
  const { body } = await call(service, (await contract()).readBatch, { params })
  const all = await listTasks(service, params)
  if (service.json) return printJson(shell, { tasks: all })
  note(shell, `${run} is ${body.state}.${body.error ? ` ${body.error.message}` : ''}`)
  printTable<BatchTask>(shell, all, [
    ['TASK', ({ taskId }) => taskId],
    ['STATE', stateOf],
    ['DIFFICULTY', ({ difficulty, requestedDifficulty }) => difficulty ?? requestedDifficulty ?? '-'],
    ['PULL REQUEST', ({ pullRequest }) => (pullRequest ? `#${pullRequest.number ?? '-'}` : '-')],
    ['LOOK AT', ({ concerns }) => (concerns.length === 0 ? '-' : String(concerns.length))],
    ['DECISION', ({ decision }) => decision ?? '-'],
    ['TITLE', ({ title }) => title],
  ])
}

function stateOf({ state, stage, rejection, deferred }: BatchTask): string {
  if (rejection) return `${state}: ${rejection.reason}`
  if (deferred) return `waits: ${deferred.reason}`
  return state === 'making' ? `${state}: ${stage}` : state
}

type Wish = { run: string; ids: string[]; decision: 'approved' | 'declined' }

async function decide(shell: Shell, command: Command, flags: DecideFlags, { run, ids, decision }: Wish): Promise<void> {
  if ((ids.length === 0) !== (flags.all === true)) throw new WrongUse('Name the tasks, or give --all.')
  const { service, params } = await openBatch(shell, command, flags.repo, run)
  const all = await listTasks(service, params)
  const chosen = ids.length > 0 ? requireTasks(all, ids) : chosenOf(shell, all, decision, `${run} --repo ${flags.repo}`)
  const why = flags.note === undefined ? {} : { note: flags.note }
  const wishes = chosen.map(({ taskId, digest }) => ({ taskId, digest: digest ?? '', decision, ...why }))
  const decided = await send(service, params, wishes)
  if (service.json) return printJson(shell, { tasks: decided })
  for (const { taskId } of decided) note(shell, `${taskId} is ${decision}.`)
}

type Decision = { taskId: string; digest: string; decision: 'approved' | 'declined'; note?: string }

/** One that is named alone was looked at: it may have concerns. Several go together, or not at all. */
async function send(service: Service, params: InBatch, wishes: Decision[]): Promise<BatchTask[]> {
  const { decideTask, decideTasks } = await contract()
  const [first, ...others] = wishes
  if (!first || others.length > 0)
    return (await call(service, decideTasks, { params, body: { decisions: wishes } })).body.tasks
  const { taskId, ...body } = first
  return [(await call(service, decideTask, { params: { ...params, taskId }, body })).body]
}

/** All that are ready; of those that are to be approved, only what nobody has to look at first. */
function chosenOf(shell: Shell, all: BatchTask[], decision: Wish['decision'], batch: string): BatchTask[] {
  const ready = all.filter(({ state }) => state === 'ready')
  const chosen = decision === 'approved' ? ready.filter(({ concerns }) => concerns.length === 0) : ready
  const left = ready.filter((task) => !chosen.includes(task))
  if (left.length > 0) note(shell, ...lookLines(left, batch))
  if (chosen.length > 0) return chosen
  throw new WrongUse(
    left.length > 0
      ? 'No task of this batch is green, so none was approved.'
      : `No task of this batch is ready. How they stand: assay batches tasks ${batch}`,
  )
}

/** Ready, and not green. */
const lookLines = (tasks: BatchTask[], batch: string): string[] => [
  'These are ready but not green: somebody has to look at them first.',
  ...tasks.map(({ taskId, concerns }) => `  ${taskId}: ${concerns.join(' ')}`),
  `Look at them with \`assay batches review ${batch}\`. A task that is named alone can be approved as it is.`,
]

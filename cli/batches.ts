import type { Command } from 'commander'
import type { BatchTask } from '../src/batches/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { readArchive } from './archive.ts'
import { type BatchParams, listTasks, loadContract, openBatch, requireTasks } from './batch.ts'
import { addCanariesCommand } from './batches-canaries.ts'
import { addCreateCommands } from './batches-create.ts'
import { addFileCommands } from './batches-files.ts'
import { addReportCommand } from './batches-report.ts'
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
  const batches = assay.command('batches').description('Manage batches of tasks of a repository').helpCommand(false)
  withExample(
    batches
      .command('import')
      .description('Import hand-written tasks; each is checked and validated in sandboxes')
      .argument('<source>', 'A .tar.gz with one folder per task, a folder of tasks, or a task folder')
      .requiredOption(...REPO)
      .action((source: string, flags: RepoFlag, command: Command) => importTasks(shell, command, flags, source)),
    'assay batches import tasks.tar.gz --repo lab/demo',
  )
  addCreateCommands(batches, shell)
  addWatchCommands(batches, shell)
  withExample(
    batches
      .command('tasks')
      .description('List the tasks of a batch and their states')
      .argument('<run>', 'Batch id: batch-…')
      .requiredOption(...REPO)
      .action((run: string, flags: RepoFlag, command: Command) => printTasks(shell, command, flags, run)),
    'assay batches tasks batch-0190… --repo lab/demo',
  )
  addReviewCommands(batches, shell)
  for (const [verb, decision] of DECISIONS) {
    withExample(
      batches
        .command(verb)
        .description(
          `${verb === 'approve' ? 'Approve' : 'Decline'} tasks in their current version; the last decision counts`,
        )
        .argument('<run>', 'Batch id: batch-…')
        .argument('[tasks...]', 'Task ids')
        .requiredOption(...REPO)
        .option(
          '--all',
          verb === 'approve' ? 'All tasks that are ready and have no warnings' : 'All tasks that are ready',
        )
        .option('--note <text>', 'Reason for the decision')
        .action((run: string, ids: string[], flags: DecideFlags, command: Command) =>
          decide(shell, command, flags, { run, ids, decision }),
        ),
      `assay batches ${verb} batch-0190… hello --repo lab/demo`,
    )
  }
  addReportCommand(batches, shell)
  addFileCommands(batches, shell)
  addCanariesCommand(batches, shell)
}

const DECISIONS = [
  ['approve', 'approved'],
  ['decline', 'declined'],
] as const

async function importTasks(shell: Shell, command: Command, { repo }: RepoFlag, source: string): Promise<void> {
  const upload = await readArchive(source, { omitsFolder: false })
  const { service, params } = await openRepository(shell, command, repo)
  const { body } = await call(service, (await loadContract()).importBatch, { params, upload })
  if (service.json) return printJson(shell, body)
  note(shell, `Checking the tasks. To watch: assay batches watch ${body.runId} --repo ${repo}`)
  print(shell, body.runId)
}

async function printTasks(shell: Shell, command: Command, { repo }: RepoFlag, run: string): Promise<void> {
  const { service, params } = await openBatch(shell, command, repo, run)
  const { body } = await call(service, (await loadContract()).readBatch, { params })
  const tasks = await listTasks(service, params)
  if (service.json) return printJson(shell, { tasks })
  note(shell, `${run} is ${body.state}.${body.error ? ` ${body.error.message}` : ''}`)
  printTable<BatchTask>(shell, tasks, [
    ['TASK', ({ taskId }) => taskId],
    ['STATE', formatTaskState],
    ['DIFFICULTY', ({ difficulty, requestedDifficulty }) => difficulty ?? requestedDifficulty ?? '-'],
    ['PULL REQUEST', ({ pullRequest }) => (pullRequest ? `#${pullRequest.number ?? '-'}` : '-')],
    ['WARNINGS', ({ concerns }) => (concerns.length === 0 ? '-' : String(concerns.length))],
    ['DECISION', ({ decision }) => decision ?? '-'],
    ['TITLE', ({ title }) => title],
  ])
}

export function formatTaskState({ state, stage, rejection, deferred }: BatchTask): string {
  if (rejection) return `${state}: ${rejection.reason}`
  if (deferred) return `waits: ${deferred.reason}`
  return state === 'making' ? `${state}: ${stage}` : state
}

type DecideRequest = { run: string; ids: string[]; decision: 'approved' | 'declined' }

async function decide(
  shell: Shell,
  command: Command,
  flags: DecideFlags,
  { run, ids, decision }: DecideRequest,
): Promise<void> {
  const hasIds = ids.length > 0
  const hasAll = flags.all === true
  if (hasIds === hasAll) throw new WrongUse('Give either task ids or --all.')
  const { service, params } = await openBatch(shell, command, flags.repo, run)
  const tasks = await listTasks(service, params)
  const selected = hasIds
    ? requireTasks(tasks, ids)
    : selectTasks(shell, tasks, decision, `${run} --repo ${flags.repo}`)
  const reason = flags.note === undefined ? {} : { note: flags.note }
  const decisions = selected.map(({ taskId, digest }) => ({ taskId, digest: digest ?? '', decision, ...reason }))
  const decided = await sendDecisions(service, params, decisions)
  if (service.json) return printJson(shell, { tasks: decided })
  for (const { taskId } of decided) note(shell, `${taskId} is ${decision}.`)
}

type TaskDecision = { taskId: string; digest: string; decision: 'approved' | 'declined'; note?: string }

/** Sends the decisions. A single task may be approved despite warnings; several tasks are decided atomically. */
export async function sendDecisions(
  service: Service,
  params: BatchParams,
  decisions: TaskDecision[],
): Promise<BatchTask[]> {
  const { decideTask, decideTasks } = await loadContract()
  const [first, ...others] = decisions
  if (!first || others.length > 0) return (await call(service, decideTasks, { params, body: { decisions } })).body.tasks
  const { taskId, ...body } = first
  return [(await call(service, decideTask, { params: { ...params, taskId }, body })).body]
}

/** Selects all tasks that are ready. For an approval, only those without warnings. */
function selectTasks(
  shell: Shell,
  tasks: BatchTask[],
  decision: DecideRequest['decision'],
  batchArguments: string,
): BatchTask[] {
  const ready = tasks.filter(({ state }) => state === 'ready')
  const selected = decision === 'approved' ? ready.filter(({ concerns }) => concerns.length === 0) : ready
  const skipped = ready.filter((task) => !selected.includes(task))
  if (skipped.length > 0) note(shell, ...formatSkipped(skipped, batchArguments))
  if (selected.length > 0) return selected
  throw new WrongUse(
    skipped.length > 0
      ? 'Every task that is ready has warnings, so none was approved.'
      : `No task of this batch is ready. To see the states: assay batches tasks ${batchArguments}`,
  )
}

/** Lists tasks that are ready but have warnings. */
const formatSkipped = (tasks: BatchTask[], batchArguments: string): string[] => [
  'These tasks are ready but have warnings that must be reviewed first:',
  ...tasks.map(({ taskId, concerns }) => `  ${taskId}: ${concerns.join(' ')}`),
  `Review them with \`assay batches review ${batchArguments}\`. To approve one despite its warnings, give its id alone.`,
]

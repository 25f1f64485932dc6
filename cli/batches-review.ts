import type { Command } from 'commander'
import type { BatchTask, BatchTaskDetail } from '../src/batches/schema.ts'
import { call, download } from '../src/platform/http/client.ts'
import { type BatchParams, listTasks, loadContract, openBatch } from './batch.ts'
import { formatStage } from './batch-evidence.ts'
import { Canceled } from './failure.ts'
import { withExample } from './help.ts'
import { REPO, type RepoFlag } from './repository.ts'
import type { Service } from './service.ts'
import { note, print, printJson, type Shell, safeLine, styled } from './shell.ts'
import { alignColumns } from './table.ts'

type ReviewFlags = RepoFlag & { all?: boolean }

export function addReviewCommands(batches: Command, shell: Shell): void {
  withExample(
    batches
      .command('show')
      .description('Show a task: instruction, files, solution and evidence')
      .argument('<run>', 'Batch id: batch-…')
      .argument('<task>', 'Task id')
      .requiredOption(...REPO)
      .action((run: string, task: string, flags: RepoFlag, command: Command) =>
        show(shell, command, flags, { run, task }),
      ),
    'assay batches show batch-0190… hello --repo lab/demo',
  )
  withExample(
    batches
      .command('review')
      .description('Review tasks that are ready and decide on each; without a terminal, only print them')
      .argument('<run>', 'Batch id: batch-…')
      .requiredOption(...REPO)
      .option('--all', 'Include tasks that are already decided')
      .action((run: string, flags: ReviewFlags, command: Command) => review(shell, command, flags, run)),
    'assay batches review batch-0190… --repo lab/demo',
  )
}

export async function readTask(service: Service, params: BatchParams, taskId: string): Promise<BatchTaskDetail> {
  return (await call(service, (await loadContract()).readBatchTask, { params: { ...params, taskId } })).body
}

async function show(shell: Shell, command: Command, { repo }: RepoFlag, { run, task }: { run: string; task: string }) {
  const { service, params } = await openBatch(shell, command, repo, run)
  const detail = await readTask(service, params, task)
  if (service.json) return printJson(shell, detail)
  print(shell, ...(await buildPage(shell, service, params, detail)))
}

/** Builds the page of a task: facts, warnings, instruction, solution, tests and evidence. */
export async function buildPage(
  shell: Shell,
  service: Service,
  params: BatchParams,
  task: BatchTaskDetail,
): Promise<string[]> {
  const heading = (text: string) => styled(shell.output, 'bold', text)
  return [
    heading(`${task.taskId}: ${task.title}`),
    ...alignColumns(listFacts(task)),
    ...(task.concerns.length > 0 ? [heading('Warnings'), ...task.concerns.map((each) => `  ${each}`)] : []),
    ...(task.instruction === null ? [] : [heading('Instruction'), ...task.instruction.split('\n')]),
    ...(await readCode(service, params, task, heading)),
    heading('Evidence'),
    ...formatEvidence(task),
  ]
}

function listFacts(task: BatchTaskDetail): string[][] {
  const { pullRequest, rejection, deferred, requestedDifficulty: requested } = task
  return [
    ['state', rejection ? `rejected: ${rejection.reason}, ${rejection.detail}` : task.state],
    ['difficulty', `${task.difficulty ?? '-'}${requested === null ? '' : ` (requested: ${requested})`}`],
    ...(pullRequest
      ? [
          [
            'pull request',
            `#${pullRequest.number ?? '-'} ${pullRequest.title} ${pullRequest.url ?? ''} ${pullRequest.mergedAt}`,
          ],
        ]
      : []),
    ...(deferred ? [['waits for', `${deferred.reason}: ${deferred.detail ?? ''}`]] : []),
    ['decision', task.decision ?? '-'],
    ['cost', `$${task.costUsd.toFixed(4)}`],
  ]
}

const SOLUTION_PATCH = /^solution\/.*\.(patch|diff)$/
/** Folder of the pull request's tests in a generated task. */
const HIDDEN_TESTS_FOLDER = 'tests/grader/hidden/'
const FILE_BYTES_MAX = 100_000

/** Returns the text of the solution and of the hidden tests. */
async function readCode(
  service: Service,
  params: BatchParams,
  { taskId, files }: BatchTaskDetail,
  heading: (text: string) => string,
) {
  const patches = files.filter(({ path }) => SOLUTION_PATCH.test(path))
  const solutions = patches.length > 0 ? patches : files.filter(({ path }) => path === 'solution/solve.sh')
  const tests = files.filter(({ path }) => path.startsWith(HIDDEN_TESTS_FOLDER))
  const { readBatchTaskFile } = await loadContract()
  const readPart = (name: string) => async (file: BatchTaskDetail['files'][number]) => {
    const { path, bytes: size } = file
    const title = heading(`${name}: ${path.replace(HIDDEN_TESTS_FOLDER, '')}`)
    if (size > FILE_BYTES_MAX) return [title, `  File too long to show (${size} bytes). Use assay batches export.`]
    const { bytes } = await download(service, readBatchTaskFile, { params: { ...params, taskId, path } })
    return [title, ...new TextDecoder().decode(bytes).split('\n')]
  }
  return (await Promise.all([...solutions.map(readPart('Solution')), ...tests.map(readPart('Tests'))])).flat()
}

const EVIDENCE_LENGTH_MAX = 2000

function formatEvidence({ evidence, stage: lastStage }: BatchTaskDetail): string[] {
  const { findings, calibration, stages, rejection } = evidence
  return [
    ...findings.map(({ severity, rule, path, detail }) => `  ${severity} ${rule} ${path}: ${detail}`),
    ...(calibration
      ? [
          `  verified by ${calibration.verifyMode ?? '-'}, ${calibration.strength ?? '-'}; cheats that pass: ${calibration.winners.join(', ') || 'none'}`,
          ...(calibration.weakness ? [`  weakness in the files: ${calibration.weakness}`] : []),
        ]
      : []),
    ...stages.flatMap(formatStage).map((line) => `  ${line}`),
    ...(rejection === undefined
      ? []
      : [`  ${lastStage ?? '-'} (rejected it) ${JSON.stringify(rejection)}`.slice(0, EVIDENCE_LENGTH_MAX)]),
  ]
}

async function review(shell: Shell, command: Command, flags: ReviewFlags, run: string): Promise<void> {
  const { service, params } = await openBatch(shell, command, flags.repo, run)
  const ready = (await listTasks(service, params)).filter(({ state }) => state === 'ready')
  const tasksToReview = ready.filter(({ decision }) => flags.all === true || decision === null)
  if (service.json)
    return printJson(shell, {
      tasks: await Promise.all(tasksToReview.map(({ taskId }) => readTask(service, params, taskId))),
    })
  const isInteractive = shell.input().isTTY && shell.errors.isTTY
  for (const [index, task] of tasksToReview.entries()) {
    const detail = await readTask(service, params, task.taskId)
    note(shell, `${index + 1} of ${tasksToReview.length}`)
    print(shell, ...(await buildPage(shell, service, params, detail)))
    if (isInteractive && (await decideOn(shell, service, params, detail)) === 'quit') break
  }
  if (tasksToReview.length === 0) note(shell, 'No task is waiting for a decision.')
}

type ReviewChoice = 'approved' | 'declined' | 'later' | 'quit'

/** Asks for a decision on one task. A single task can be approved despite warnings. */
async function decideOn(shell: Shell, service: Service, params: BatchParams, task: BatchTask): Promise<ReviewChoice> {
  const choice = await ask(shell, task)
  if (choice !== 'approved' && choice !== 'declined') return choice
  const { decideTask } = await loadContract()
  const body = { decision: choice, digest: task.digest ?? '' }
  await call(service, decideTask, { params: { ...params, taskId: task.taskId }, body })
  note(shell, `${task.taskId} is ${choice}.`)
  return choice
}

async function ask(shell: Shell, { taskId }: BatchTask): Promise<ReviewChoice> {
  const { isCancel, select } = await import('@clack/prompts')
  const answer = await select<ReviewChoice>({
    message: safeLine(shell.errors, `${taskId}?`),
    options: [
      { value: 'approved', label: 'Approve' },
      { value: 'declined', label: 'Decline' },
      { value: 'later', label: 'Later' },
      { value: 'quit', label: 'Quit' },
    ],
    input: shell.input(),
    output: shell.errors,
  })
  if (isCancel(answer)) throw new Canceled()
  return answer
}

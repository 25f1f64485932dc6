import type { Command } from 'commander'
import type { BatchTask, BatchTaskDetail } from '../src/batches/schema.ts'
import { call, download } from '../src/platform/http/client.ts'
import { stageLines } from './batch-evidence.ts'
import { contract, type InBatch, listTasks, openBatch } from './batch-place.ts'
import { Canceled } from './failure.ts'
import { withExample } from './help.ts'
import { REPO, type RepoFlag } from './repository.ts'
import type { Service } from './service.ts'
import { note, print, printJson, type Shell, safeLine, styled } from './shell.ts'
import { aligned } from './table.ts'

type ReviewFlags = RepoFlag & { all?: boolean }

export function addReviewCommands(batches: Command, shell: Shell): void {
  withExample(
    batches
      .command('show')
      .description('Show a task: its instruction, its files, the solution, and the evidence')
      .argument('<run>', 'batch-…')
      .argument('<task>', 'its id')
      .requiredOption(...REPO)
      .action((run: string, task: string, flags: RepoFlag, command: Command) =>
        show(shell, command, flags, { run, task }),
      ),
    'assay batches show batch-0190… hello --repo lab/demo',
  )
  withExample(
    batches
      .command('review')
      .description('Look at tasks that are ready, one after another, and decide on each; without a terminal, only look')
      .argument('<run>', 'batch-…')
      .requiredOption(...REPO)
      .option('--all', 'also those that were decided on')
      .action((run: string, flags: ReviewFlags, command: Command) => review(shell, command, flags, run)),
    'assay batches review batch-0190… --repo lab/demo',
  )
}

async function readTask(service: Service, params: InBatch, taskId: string): Promise<BatchTaskDetail> {
  return (await call(service, (await contract()).readBatchTask, { params: { ...params, taskId } })).body
}

async function show(shell: Shell, command: Command, { repo }: RepoFlag, { run, task }: { run: string; task: string }) {
  const { service, params } = await openBatch(shell, command, repo, run)
  const found = await readTask(service, params, task)
  if (service.json) return printJson(shell, found)
  print(shell, ...(await pageOf(shell, service, params, found)))
}

/** What somebody needs to see who decides: what is asked, what is right, and why we believe it. */
async function pageOf(shell: Shell, service: Service, params: InBatch, task: BatchTaskDetail): Promise<string[]> {
  const heading = (text: string) => styled(shell.output, 'bold', text)
  return [
    heading(`${task.taskId}: ${task.title}`),
    ...aligned(factsOf(task)),
    ...(task.concerns.length > 0 ? [heading('Look at'), ...task.concerns.map((each) => `  ${each}`)] : []),
    ...(task.instruction === null ? [] : [heading('Instruction'), ...task.instruction.split('\n')]),
    ...(await codeLines(service, params, task, heading)),
    heading('Evidence'),
    ...evidenceLines(task),
  ]
}

function factsOf(task: BatchTaskDetail): string[][] {
  const { pullRequest, rejection, deferred } = task
  return [
    ['state', rejection ? `rejected: ${rejection.reason}, ${rejection.detail}` : task.state],
    ['difficulty', `${task.difficulty ?? '-'} (asked for: ${task.requestedDifficulty ?? '-'})`],
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

const PATCH = /^solution\/.*\.(patch|diff)$/
/** Of a task that was made of a pull request: the tests that came with it. */
const HIDDEN = 'tests/grader/hidden/'
const FILE_BYTES_MAX = 100_000

/** What is right, and what it is judged by. */
async function codeLines(
  service: Service,
  params: InBatch,
  { taskId, files }: BatchTaskDetail,
  heading: (text: string) => string,
) {
  const patches = files.filter(({ path }) => PATCH.test(path))
  const solutions = patches.length > 0 ? patches : files.filter(({ path }) => path === 'solution/solve.sh')
  const tests = files.filter(({ path }) => path.startsWith(HIDDEN))
  const { readBatchTaskFile } = await contract()
  const partOf = (name: string) => async (file: BatchTaskDetail['files'][number]) => {
    const { path, bytes: size } = file
    const title = heading(`${name}: ${path.replace(HIDDEN, '')}`)
    if (size > FILE_BYTES_MAX)
      return [title, `  It is long (${size} bytes): assay batches export writes it to a folder.`]
    const { bytes } = await download(service, readBatchTaskFile, { params: { ...params, taskId, path } })
    return [title, ...new TextDecoder().decode(bytes).split('\n')]
  }
  return (await Promise.all([...solutions.map(partOf('Solution')), ...tests.map(partOf('Tests'))])).flat()
}

const EVIDENCE_MAX = 2000

function evidenceLines({ evidence, stage: last }: BatchTaskDetail): string[] {
  const { findings, calibration, stages, rejection } = evidence
  return [
    ...findings.map(({ severity, rule, path, detail }) => `  ${severity} ${rule} ${path}: ${detail}`),
    ...(calibration
      ? [
          `  verified by ${calibration.verifyMode ?? '-'}, ${calibration.strength ?? '-'}; cheats that score: ${calibration.winners.join(', ') || 'none'}`,
        ]
      : []),
    ...stages.flatMap(stageLines).map((line) => `  ${line}`),
    ...(rejection === undefined
      ? []
      : [`  ${last ?? '-'} (rejected it) ${JSON.stringify(rejection)}`.slice(0, EVIDENCE_MAX)]),
  ]
}

async function review(shell: Shell, command: Command, flags: ReviewFlags, run: string): Promise<void> {
  const { service, params } = await openBatch(shell, command, flags.repo, run)
  const ready = (await listTasks(service, params)).filter(({ state }) => state === 'ready')
  const open = ready.filter(({ decision }) => flags.all === true || decision === null)
  if (service.json)
    return printJson(shell, { tasks: await Promise.all(open.map(({ taskId }) => readTask(service, params, taskId))) })
  const isAsked = shell.input().isTTY && shell.errors.isTTY
  for (const [place, task] of open.entries()) {
    const found = await readTask(service, params, task.taskId)
    note(shell, `${place + 1} of ${open.length}`)
    print(shell, ...(await pageOf(shell, service, params, found)))
    if (isAsked && (await decideOn(shell, service, params, found)) === 'quit') break
  }
  if (open.length === 0) note(shell, 'No task waits for a decision.')
}

type Choice = 'approved' | 'declined' | 'later' | 'quit'

/** One task, looked at alone: it may have concerns. */
async function decideOn(shell: Shell, service: Service, params: InBatch, task: BatchTask): Promise<Choice> {
  const choice = await ask(shell, task)
  if (choice !== 'approved' && choice !== 'declined') return choice
  const { decideTask } = await contract()
  const body = { decision: choice, digest: task.digest ?? '' }
  await call(service, decideTask, { params: { ...params, taskId: task.taskId }, body })
  note(shell, `${task.taskId} is ${choice}.`)
  return choice
}

async function ask(shell: Shell, { taskId }: BatchTask): Promise<Choice> {
  const { isCancel, select } = await import('@clack/prompts')
  const answer = await select<Choice>({
    message: safeLine(shell.errors, `${taskId}?`),
    options: [
      { value: 'approved', label: 'Approve' },
      { value: 'declined', label: 'Decline' },
      { value: 'later', label: 'Later' },
      { value: 'quit', label: 'Leave' },
    ],
    ...{ input: shell.input(), output: shell.errors },
  })
  if (isCancel(answer)) throw new Canceled()
  return answer
}

import type { Command } from 'commander'
import type { BatchTaskDetail } from '../src/batches/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { listTasks, loadContract, openBatch } from './batch.ts'
import { withExample } from './help.ts'
import { REPO, type RepoFlag } from './repository.ts'
import { print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

export function addReportCommand(batches: Command, shell: Shell): void {
  withExample(
    batches
      .command('report')
      .description('Report how tasks left each stage, CPU time, model cost, and what would raise the yield')
      .argument('<run>', 'Batch id: batch-…')
      .requiredOption(...REPO)
      .action((run: string, flags: RepoFlag, command: Command) => printBatchReport(shell, command, flags, run)),
    'assay batches report batch-0190… --repo lab/demo',
  )
}

async function printBatchReport(shell: Shell, command: Command, { repo }: RepoFlag, run: string): Promise<void> {
  const { service, params } = await openBatch(shell, command, repo, run)
  const { readBatchTask } = await loadContract()
  const details = []
  for (const { taskId } of await listTasks(service, params))
    details.push((await call(service, readBatchTask, { params: { ...params, taskId } })).body)
  const batchReport = buildBatchReport(details)
  if (service.json) return printJson(shell, batchReport)
  printReport(shell, batchReport)
}

function printReport(shell: Shell, { tasks, ready, deferred, costUsd, stages, rejections }: BatchReport): void {
  print(
    shell,
    `${ready} of ${tasks} candidates are ready, ${deferred} deferred; models cost $${costUsd.toFixed(2)}`,
    '',
  )
  printTable(shell, stages, [
    ['stage', ({ stage }) => stage],
    ['entered', ({ entered }) => String(entered)],
    ['passed', ({ passed }) => String(passed)],
    ['rejected', ({ rejected }) => String(rejected)],
    ['seconds', ({ seconds }) => seconds.toFixed(0)],
    ['CPU seconds', ({ cpuSeconds }) => cpuSeconds.toFixed(0)],
    ['model cost', (stage) => `$${stage.costUsd.toFixed(2)}`],
  ])
  if (rejections.length === 0) return
  print(shell, '')
  printTable(shell, rejections, [
    ['reason', ({ reason }) => reason],
    ['stage', ({ stage }) => stage],
    ['count', ({ count }) => String(count)],
    ['what would help', ({ advice }) => advice ?? '-'],
  ])
}

/** Counts the tasks that reached a stage of a batch and how they left it, with the time and cost of the stage. */
type StageReport = {
  stage: string
  entered: number
  passed: number
  rejected: number
  /** Elapsed seconds of the tasks that passed; reused results take none. */
  seconds: number
  /** CPU seconds of test runs, of passed and rejected tasks. */
  cpuSeconds: number
  /** Model cost of the tasks that passed. */
  costUsd: number
}

type RejectionReport = { reason: string; stage: string; count: number; advice: string | null }

type BatchReport = {
  tasks: number
  ready: number
  deferred: number
  costUsd: number
  stages: StageReport[]
  /** Most frequent first. */
  rejections: RejectionReport[]
}

/** Counts how the tasks of a batch left each stage, what that took, and what would raise the yield. */
export function buildBatchReport(tasks: readonly BatchTaskDetail[]): BatchReport {
  return {
    tasks: tasks.length,
    ready: tasks.filter(({ state }) => state === 'ready').length,
    deferred: tasks.filter(({ deferred }) => deferred !== undefined).length,
    costUsd: sum(tasks.map(({ costUsd }) => costUsd)),
    stages: listReachedStages(tasks).map((stage) => reportStage(tasks, stage)),
    rejections: reportRejections(tasks),
  }
}

/**
 * Lists the stages that some task has reached. Stages run in order, so the task that got furthest has reached all of
 * them.
 */
function listReachedStages(tasks: readonly BatchTaskDetail[]): string[] {
  const reached = tasks.map(({ evidence, stage }) => [
    ...evidence.stages.map((each) => each.stage),
    ...(stage === null ? [] : [stage]),
  ])
  const longest = reached.toSorted((one, other) => other.length - one.length)[0] ?? []
  return [...new Set(longest)]
}

function reportStage(tasks: readonly BatchTaskDetail[], stage: string): StageReport {
  const passes = tasks.flatMap(({ evidence }) => evidence.stages.filter((each) => each.stage === stage))
  const ownPasses = passes.filter(({ reused }) => !reused)
  const rejected = tasks.filter((task) => task.state === 'rejected' && task.stage === stage)
  const evidenceList = [
    ...ownPasses.map(({ evidence }) => evidence),
    ...rejected.map(({ evidence }) => evidence.rejection),
  ]
  return {
    stage,
    entered: passes.length + rejected.length + countUnfinished(tasks, stage),
    passed: passes.length,
    rejected: rejected.length,
    seconds: sum(ownPasses.map(({ seconds }) => seconds)),
    cpuSeconds: sum(evidenceList.map(sumCpuSeconds)),
    costUsd: sum(ownPasses.map(({ evidence }) => readCostMicros(evidence))) / 1_000_000,
  }
}

const countUnfinished = (tasks: readonly BatchTaskDetail[], stage: string): number =>
  tasks.filter((task) => task.state !== 'rejected' && task.stage === stage).length

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

/** Maximum nesting of evidence that is searched. */
const DEPTH_MAX = 6

/** Adds up every `cpuSeconds` in the evidence of a stage. Each stage has its own format. */
function sumCpuSeconds(evidence: unknown, depth = 0): number {
  if (typeof evidence !== 'object' || evidence === null || depth > DEPTH_MAX) return 0
  const parts = Object.entries(evidence)
  return sum(parts.map(([name, value]) => toCpuSeconds(name, value) ?? sumCpuSeconds(value, depth + 1)))
}

const toCpuSeconds = (name: string, value: unknown): number | undefined =>
  name === 'cpuSeconds' && typeof value === 'number' ? value : undefined

function readCostMicros(evidence: unknown): number {
  const bill = readField(evidence, 'bill')
  const cost = readField(bill, 'costMicros')
  return typeof cost === 'number' ? cost : 0
}

const readField = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Object.entries(value).find(([key]) => key === name)?.[1] : undefined

function reportRejections(tasks: readonly BatchTaskDetail[]): RejectionReport[] {
  const reports = new Map<string, RejectionReport>()
  for (const { rejection, stage } of tasks) {
    if (!rejection) continue
    const key = `${stage} ${rejection.reason}`
    const current = reports.get(key) ?? {
      reason: rejection.reason,
      stage: stage ?? '',
      count: 0,
      advice: ADVICE[rejection.reason] ?? null,
    }
    reports.set(key, { ...current, count: current.count + 1 })
  }
  return [...reports.values()].toSorted((one, other) => other.count - one.count)
}

/**
 * Steps that raise the yield, by the reason that they address. Other reasons mean that the candidate itself is
 * unsuitable.
 */
const ADVICE: Readonly<Record<string, string>> = {
  env_build_failed: 'Add a lock file or CI file that names the missing packages, or select a stronger author model.',
  unsupported_runner: 'Run the tests by one of the supported runners, or select a stronger author model.',
  submodule_unavailable: 'Connect the repository with a credential that can read its submodules on the same host.',
  lfs_content_missing: 'Keep files that most tests need in git, or mark the tests that need them.',
  unsupported_service: 'Mark tests that need these services, so that they are skipped without them.',
  suite_unhealthy: 'Look at the messages of the failed tests; a missing service or tool fails many for one reason.',
  needs_network: 'Mark tests that need the network, so that they are skipped offline.',
  suite_too_slow: 'Split off slow tests; a run may use three minutes of CPU time.',
  no_f2p: 'Prefer pull requests that add tests; a larger batch finds more of them.',
  flaky_f2p: 'Make the new tests independent of order and time.',
  weak_tests: 'Prefer pull requests whose tests cover the whole change.',
  underspecified: 'Connect GitHub with a credential, so that the author sees the issues.',
  wrong_solution_passes: 'Add tests for the violated sentence to the repository.',
  uncovered_assertions: 'Select a stronger verifier model, or one that writes longer answers.',
  author_budget: 'Select a cheaper author model.',
  verifier_budget: 'Select a cheaper verifier model.',
  environment_failed: 'Check the sandbox, then resume the batch.',
  internal_error: 'Report the bug, then resume the batch.',
}

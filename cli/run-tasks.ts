import { join } from 'node:path'
import type { ModelTrialRecord } from '../src/operate/metered-trial.ts'
import { createDataFolder } from '../src/platform/data-folder.ts'
import { confirmQuote } from './comparison-quote.ts'
import type { YesFlag } from './confirm.ts'
import { buildEngineOptions, type EngineFlags, rethrowForExitCode, stopOnSignals } from './engine.ts'
import { Failed, InfrastructureFailed } from './failure.ts'
import { startHeartbeat } from './heartbeat.ts'
import type { NamedServer } from './model-servers.ts'
import { openLog, readSettings } from './operate-config.ts'
import { createProgressBar } from './progress.ts'
import { toTaskName } from './run-target.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatCount, printTable } from './table.ts'

/** Options of a run on task folders, which needs no service. */
type TaskRun = {
  folders: readonly string[]
  attempts: number
  harness: string
  model: string | undefined
  server: NamedServer | undefined
  level: string | undefined
  budgetUsd: number | undefined
  failUnder: number | undefined
  isJson: boolean
  flags: EngineFlags & YesFlag
}

/** A finished trial of the task `name`. `output` is the folder with its files. */
type FinishedTrial = { name: string; attempt: number; record: ModelTrialRecord; output: string }

/** Runs the trials one after the other and prints a summary. Throws if a trial has no result or too few passed. */
export async function runTasks(shell: Shell, run: TaskRun): Promise<void> {
  const config = await readSettings(shell, run.flags)
  const log = await openLog(shell, config, 'error')
  using stop = stopOnSignals()
  createDataFolder(config.dataFolder)
  const folder = join(config.dataFolder, 'runs', new Date().toISOString().replaceAll(/[:.]/g, '-'))
  const plannedTrials = run.folders.flatMap((taskFolder) =>
    Array.from({ length: run.attempts }, (_, index) => ({ taskFolder, attempt: index + 1 })),
  )
  await confirmCost(shell, run, config, log).catch(rethrowForExitCode(stop.signal))
  note(shell, describeRun(run, plannedTrials.length))
  const finished: FinishedTrial[] = []
  for (const { taskFolder, attempt } of plannedTrials) {
    const task = toTaskName(taskFolder)
    const output = join(folder, run.attempts === 1 ? task : `${task}-${attempt}`)
    const label = `[${finished.length + 1}/${plannedTrials.length}] ${task}`
    const record = await runTask(shell, run, { config, log, signal: stop.signal, taskFolder, output, label })
    finished.push({ name: task, attempt, record, output })
    note(shell, `${label}: ${record.state}${record.explanation === null ? '' : `. ${record.explanation}`}`)
  }
  printSummary(shell, run, folder, finished)
}

/** Shows the expected cost of the trials and asks on a terminal. Does not ask if the model has no price. */
async function confirmCost(shell: Shell, run: TaskRun, config: TaskRunConfig, log: TaskRunLog): Promise<void> {
  const selection = toModelSelection(run)
  if (!selection) return
  const { quoteTaskRun } = await import('../src/operate/trial-models.ts')
  const quote = await quoteTaskRun(config, log, selection, { ...run, tasks: run.folders.length })
  if (quote && quote.costUsd.high > 0) await confirmQuote(shell, quote, run.flags, 'Start these trials?')
}

function describeRun({ harness, model, budgetUsd }: TaskRun, trials: number): string {
  const limit = budgetUsd === undefined ? '' : `, each at most $${budgetUsd}`
  return `${formatCount(trials, 'trial')} of ${harness}${model === undefined ? '' : ` with ${model}`}${limit}`
}

type TaskRunConfig = Awaited<ReturnType<typeof readSettings>>
type TaskRunLog = Awaited<ReturnType<typeof openLog>>

type TaskContext = {
  config: TaskRunConfig
  log: TaskRunLog
  signal: AbortSignal
  taskFolder: string
  output: string
  label: string
}

async function runTask(shell: Shell, run: TaskRun, context: TaskContext): Promise<ModelTrialRecord> {
  const { config, log, signal, taskFolder, output, label } = context
  const { runModelTrial } = await import('../src/operate/model-trial.ts')
  const startedAt = performance.now()
  let phase = 'prepare'
  const elapsedSeconds = (): number => Math.round((performance.now() - startedAt) / 1000)
  const heartbeat = startHeartbeat(shell, () => `${label}: ${phase}, ${elapsedSeconds()} s so far`)
  const progress = createProgressBar(shell)
  const notePhase = (text: string): void => {
    phase = text
    progress.end()
    note(shell, `${label}: ${text}`)
  }
  const options = {
    taskFolder,
    harness: run.harness,
    command: undefined,
    ...buildEngineOptions(shell, config, run.flags),
    outputFolder: output,
    onTrial: notePhase,
    verifyMode: undefined,
    signal,
    onPhase: (name: string) => notePhase(name),
    onLog: () => {},
    onInstall: (name: string, done: number, all: number) => progress.show(done, all, `packages of ${name}`),
    log,
  }
  return runModelTrial(config, log, options, toModelSelection(run))
    .catch(rethrowForExitCode(signal))
    .finally(() => {
      progress.end()
      heartbeat.stop()
    })
}

const toModelSelection = ({ model, server, level, budgetUsd }: TaskRun) =>
  model === undefined ? undefined : { catalogId: server?.name ?? model, level, budgetUsd, server }

function printSummary(shell: Shell, run: TaskRun, folder: string, finished: readonly FinishedTrial[]): void {
  const passed = finished.filter(({ record }) => record.state === 'passed').length
  const errored = finished.filter(({ record }) => record.state === 'errored').length
  const scored = finished.length - errored
  const accuracy = scored === 0 ? null : (100 * passed) / scored
  const costMicros = finished.reduce((sum, { record }) => sum + (record.model?.costMicros ?? 0), 0)
  if (run.isJson) {
    const trials = finished.map(({ name, attempt, record, output }) => ({ name, attempt, output, ...record }))
    printJson(shell, { passed, scored, errored, accuracy, costUsd: costMicros / 1e6, trials })
  } else {
    printTable(shell, finished, [
      ['TASK', ({ name }) => name],
      ['ATTEMPT', ({ attempt }) => String(attempt)],
      ['RESULT', ({ record }) => record.state],
      ['COST', ({ record }) => formatMicros(record.model?.costMicros ?? 0)],
      ['SECONDS', ({ record }) => record.timings.total.toFixed(1)],
      ['WHY', ({ record }) => record.explanation ?? ''],
    ])
    const result =
      accuracy === null ? 'No trial was scored.' : `${passed} of ${scored} passed (${accuracy.toFixed(1)} %).`
    print(shell, '', `${result} Cost: ${formatMicros(costMicros)}.`)
    note(shell, `Logs, changes and trajectories are in ${folder}`)
  }
  if (errored > 0) throw new InfrastructureFailed(`${formatCount(errored, 'trial')} without a result.`)
  if (run.failUnder === undefined || (accuracy ?? 0) >= run.failUnder) return
  note(shell, `The accuracy is below --fail-under ${run.failUnder}.`)
  throw new Failed()
}

const formatMicros = (micros: number): string => `$${(micros / 1e6).toFixed(4)}`

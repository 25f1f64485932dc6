import type { Command } from 'commander'
import type { ModelTrialRecord } from '../src/operate/metered-trial.ts'
import { createDataFolder } from '../src/platform/data-folder.ts'
import {
  buildEngineOptions,
  type EngineFlags,
  rethrowForExitCode,
  stopOnSignals,
  TIMEOUT_MULTIPLIER,
} from './engine.ts'
import { InfrastructureFailed, WrongUse } from './failure.ts'
import { collect } from './flag-values.ts'
import { startHeartbeat } from './heartbeat.ts'
import { withExample, withGlobals } from './help.ts'
import { findServer, SERVER_OPTIONS, type ServerFlags } from './model-servers.ts'
import { DATA, type Flags, openLog, readSettings } from './operate-config.ts'
import { requireFolder, requirePath } from './paths.ts'
import { createProgressBar } from './progress.ts'
import { readGlobals } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printFacts } from './table.ts'

type RunTrialFlags = EngineFlags &
  ServerFlags & {
    harness: string
    command?: string
    model?: string
    level?: string
    budget?: string
    verifyMode?: string
    expect?: string
  }

/** Adds `assay trial` and `assay images import`, which need no server, database or API key of a service. */
export function addTrialCommands(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('trial'), '--json')
      .description('Run one trial of a task and print its phases, reward and timings')
      .argument('<task-folder>', "Task in Harbor's format")
      .option(
        '--harness <name>',
        'Harness: oracle (reference solution), nop (no-op) or a coding agent (assay harnesses list)',
        'oracle',
      )
      .option('--model <id>', 'Model of the catalog (key from the environment), custom/<name>, or ollama/ and a name')
      .option(...SERVER_OPTIONS[0])
      .option(...SERVER_OPTIONS[1])
      .option(...SERVER_OPTIONS[2])
      .option('--level <level>', "Reasoning level (default: the catalog's)")
      .option('--budget <usd>', 'Maximum cost of the trial (USD)')
      .option('--command <line>', 'Run this shell command as the agent, to try a solution or a cheat')
      .option('--sandbox <name>', 'Sandbox: auto, docker, kubernetes, local, local-runc or local-bwrap', 'auto')
      .option(
        '--verify-mode <mode>',
        'Verify mode: grader, workspace, snapshot, shared-cold or shared-live (default: the strictest in which the oracle passes)',
      )
      .option(...TIMEOUT_MULTIPLIER)
      .option('--expect <result>', 'Exit with 1 unless the result is this: pass or fail')
      .option('--env <name=value>', 'Variable that the task requires; repeatable', collect, [])
      .option('--verbose', 'Show the build output, and why no other sandbox was selected')
      .option(...DATA)
      .action((folder: string, flags: RunTrialFlags, command: Command) => runTrial(shell, folder, flags, command)),
    'assay trial ./my-task --harness oracle',
  )
  withExample(
    withGlobals(
      assay.command('images').description('Manage base images of local sandboxes').command('import'),
      '--json',
    )
      .description('Import a root filesystem, a docker save archive or an OCI layout')
      .argument('<path>', 'Folder or tar archive, for example of debootstrap or docker save')
      .requiredOption('--name <name>', 'Image name that tasks use, for example debian:bookworm-slim')
      .option(...DATA)
      .action((path: string, flags: Flags & { name: string }, command: Command) =>
        importImage(shell, path, flags, command),
      ),
    'assay images import ./rootfs --name debian:bookworm-slim',
  )
}

async function runTrial(shell: Shell, taskFolder: string, flags: RunTrialFlags, command: Command): Promise<void> {
  const expected = flags.expect === undefined ? undefined : requireExpectation(flags.expect)
  await requireFolder(taskFolder, 'the folder of a task')
  const config = await readSettings(shell, flags)
  const log = await openLog(shell, config, 'warn')
  const { runModelTrial } = await import('../src/operate/model-trial.ts')
  using stop = stopOnSignals()
  const progress = createProgressBar(shell)
  const startedAt = performance.now()
  let currentPhase = 'prepare'
  const heartbeat = startHeartbeat(
    shell,
    () => `${currentPhase}, ${Math.round((performance.now() - startedAt) / 1000)} s so far`,
  )
  const notePhase = (text: string): void => {
    currentPhase = text
    progress.end()
    note(shell, text)
  }
  const options = {
    taskFolder,
    harness: flags.harness,
    command: flags.command,
    ...buildEngineOptions(shell, config, flags),
    onTrial: notePhase,
    verifyMode: flags.verifyMode,
    signal: stop.signal,
    onPhase: (phase: string, step: string | null) => notePhase(step ? `${phase} (${step})` : phase),
    onLog: (line: string) => {
      if (flags.verbose) note(shell, line)
    },
    onInstall: (name: string, done: number, total: number) => progress.show(done, total, `packages of ${name}`),
    log,
  }
  const record = await runModelTrial(config, log, options, toModelSelection(shell, flags))
    .catch(rethrowForExitCode(stop.signal))
    .finally(() => {
      progress.end()
      heartbeat.stop()
    })
  if (readGlobals(command).json) printJson(shell, { ...record, outputFolder: options.outputFolder })
  else printRecord(shell, record, options.outputFolder)
  if (record.state === 'errored') throw new InfrastructureFailed(record.error ?? 'The trial could not be scored.')
  if (expected !== undefined && record.state !== expected)
    throw new Error(`The trial ${record.state}, but --expect ${flags.expect} was given.`)
}

function requireExpectation(text: string): 'passed' | 'failed' {
  if (text === 'pass' || text === 'fail') return text === 'pass' ? 'passed' : 'failed'
  throw new WrongUse('--expect must be pass or fail.')
}

function toModelSelection(shell: Shell, flags: RunTrialFlags) {
  const { model, level, budget } = flags
  if (model === undefined) return undefined
  const server = findServer(shell, model, flags)
  const budgetUsd = budget === undefined ? undefined : Number(budget)
  if (budgetUsd !== undefined && !(budgetUsd >= 0))
    throw new WrongUse('--budget must be an amount in USD, for example 0.50.')
  return { catalogId: server?.name ?? model, level, budgetUsd, server }
}

const formatSeconds = (value: number): string => `${value.toFixed(2)} s`

function printRecord(shell: Shell, record: ModelTrialRecord, outputFolder: string): void {
  printFacts(shell, [
    ['task', record.task.name],
    ['harness', record.harness],
    ['result', `${record.state} (${record.class}${record.limit ? `: ${record.limit}` : ''})`],
    ['reward', record.reward === null ? 'none' : String(record.reward)],
    ...(record.explanation === null ? [] : [['why', record.explanation] as [string, string]]),
    ['verify mode', record.verifyMode],
    ...listNetworkFacts(record),
    ['isolation', record.base === 'host-base' ? `${record.isolation}, host-base` : record.isolation],
    ['prepare', formatSeconds(record.timings.prepare)],
    ['agent', formatSeconds(record.timings.agent)],
    ['verify', formatSeconds(record.timings.verify)],
    ['total', formatSeconds(record.timings.total)],
    ...listModelFacts(record),
    ['output', outputFolder],
  ])
  const failedTests = record.steps.flatMap((step) => step.failedTests ?? [])
  if (failedTests.length > 0) print(shell, 'failed tests', ...failedTests.map((name) => `  ${name}`))
}

/** Formats the usage that the gateway metered. */
function listModelFacts({ model }: ModelTrialRecord): [string, string][] {
  if (!model) return []
  const { usage, costMicros, costSource, calls, levelMismatches } = model
  const cached = usage.cacheRead + usage.cacheWrite5m + usage.cacheWrite1h
  return [
    ['calls', `${calls.succeeded} answered, ${calls.failed + calls.cut + calls.lost} not`],
    ['tokens', `${usage.input} in, ${cached} cached, ${usage.output} out (${usage.reasoning} thinking)`],
    ['cost', costMicros === null ? 'unknown' : `$${(costMicros / 1e6).toFixed(6)} (${costSource})`],
    ...(levelMismatches > 0
      ? [['level', `another level than requested, in ${levelMismatches} calls`] as [string, string]]
      : []),
  ]
}

/** Formats the network of each phase, and notes where the task declares none. */
const listNetworkFacts = ({ steps }: ModelTrialRecord): [string, string][] =>
  (['agent', 'verifier'] as const).map((phase) => {
    const networks = steps.map(({ network: { [phase]: record } }) =>
      record.asked === 'undeclared' ? `${record.given} (not declared by the task)` : record.given,
    )
    return [`network of the ${phase}`, [...new Set(networks)].join(', ') || 'none']
  })

async function importImage(
  shell: Shell,
  path: string,
  flags: Flags & { name: string },
  command: Command,
): Promise<void> {
  await requirePath(path)
  const config = await readSettings(shell, flags)
  const log = await openLog(shell, config, 'warn')
  createDataFolder(config.dataFolder)
  const engine = await import('../src/trials/local-engine.ts')
  const digest = await engine
    .importImage(path, flags.name, { dataFolder: config.dataFolder, log })
    .catch(rethrowForExitCode())
  if (readGlobals(command).json) return printJson(shell, { name: flags.name, digest })
  print(shell, `${flags.name} ${digest}`)
}

import type { Command } from 'commander'
import type { calibrateLocalTask } from '../src/trials/local-engine.ts'
import { buildEngineOptions, type EngineFlags, rethrowForExitCode, stopOnSignals } from './engine.ts'
import { collect } from './flag-values.ts'
import { startHeartbeat } from './heartbeat.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, openLog, readSettings } from './operate-config.ts'
import { requireFolder } from './paths.ts'
import { readGlobals } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printFacts, printTable } from './table.ts'

type CalibrateTaskResult = Awaited<ReturnType<typeof calibrateLocalTask>>

/** Adds `assay calibrate`, which needs no server, like `assay trial`. */
export function addCalibrateCommand(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('calibrate'), '--json')
      .description('Find the strictest verify mode of a task, and the cheats that its tests let pass')
      .argument('<task-folder>', "Task in Harbor's format")
      .option('--sandbox <name>', 'Sandbox: auto, docker, kubernetes, local, local-runc or local-bwrap', 'auto')
      .option('--env <name=value>', 'Variable that the task requires; repeatable', collect, [])
      .option('--verbose', 'Show each trial and the build output')
      .option(...DATA)
      .action((folder: string, flags: EngineFlags, command: Command) => calibrate(shell, folder, flags, command)),
    'assay calibrate ./my-task',
  )
}

async function calibrate(shell: Shell, taskFolder: string, flags: EngineFlags, command: Command): Promise<void> {
  await requireFolder(taskFolder, 'the folder of a task')
  const config = await readSettings(shell, flags)
  const log = await openLog(shell, config, 'warn')
  const engine = await import('../src/trials/local-engine.ts')
  using stop = stopOnSignals()
  let trial: string | undefined
  const heartbeat = startHeartbeat(shell, () => trial && `Calibrating: ${trial}`)
  const printProgress = (line: string) => {
    if (flags.verbose) note(shell, line)
  }
  const noteTrial = (line: string) => {
    trial = line
    printProgress(line)
  }
  const calibration = await engine
    .calibrateLocalTask({
      taskFolder,
      ...buildEngineOptions(shell, config, flags),
      signal: stop.signal,
      onTrial: noteTrial,
      onLog: printProgress,
      log,
    })
    .catch(rethrowForExitCode(stop.signal))
    .finally(heartbeat.stop)
  if (readGlobals(command).json) printJson(shell, calibration)
  else printCalibration(shell, calibration)
  if (calibration.kind === 'unfit') throw new Error(calibration.reason)
}

const formatOracleTimes = (attempt: CalibrateTaskResult['attempts'][number] | undefined): string => {
  const { agent = 0, verify = 0 } = attempt?.oracle.timings ?? {}
  return `agent ${agent.toFixed(2)} s, verifier ${verify.toFixed(2)} s`
}

const OUTCOME_NAMES = { won: 'won', lost: 'lost', errored: 'no reward', does_not_apply: 'does not apply' } as const

const WEAK_HINT =
  'An agent that does the same passes without doing the work. A grader isolates the tests from the code they run and stops most cheats: docs/verifier-strength.md.'

function printCalibration(shell: Shell, calibration: CalibrateTaskResult): void {
  if (calibration.kind === 'unfit') return
  const { task, mode, strength, weakness, agentNetwork, verifierNetwork, attempts, winners, cheats } = calibration
  printFacts(shell, [
    ['task', task.name],
    ['verify mode', mode],
    ['strength', winners.length === 0 ? strength : `${strength}: ${winners.join(', ')} won`],
    ...(weakness === null ? [] : [['weakness in the files', weakness] as const]),
    ['agent network', agentNetwork],
    ['verifier network', verifierNetwork],
    ['oracle', formatOracleTimes(attempts.at(-1))],
  ])
  print(shell, '')
  printTable(shell, cheats, [
    ['CHEAT', ({ id }) => id],
    ['OUTCOME', ({ outcome }) => OUTCOME_NAMES[outcome]],
    ['DESCRIPTION', ({ what }) => what],
  ])
  if (winners.length > 0) note(shell, WEAK_HINT)
}

import { Command } from 'commander'
import about from '../package.json' with { type: 'json' }
import { withConfigFile } from './config-file.ts'
import { EXIT_CODES, report } from './failure.ts'
import { type Heartbeat, startHeartbeat } from './heartbeat.ts'
import { withGlobals } from './help.ts'
import { DEFAULT_URL } from './service.ts'
import { type Shell, styled } from './shell.ts'

/** Runs the command line and returns the exit code. */
export async function run(args: string[], processShell: Shell): Promise<number> {
  let calledCommand: Command | undefined
  let heartbeat: Heartbeat | undefined
  let shell = processShell
  try {
    shell = withConfigFile(processShell)
    const addCommands = await loadCommands(args)
    const assay = buildProgram(shell, addCommands, args.includes('--json')).hook('preAction', (_, command) => {
      calledCommand = command
      heartbeat = startCommandHeartbeat(shell, command)
    })
    await assay.parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    return report(error, shell, { command: calledCommand, isJson: args.includes('--json') })
  } finally {
    heartbeat?.stop()
  }
}

/** Commands that run until they are stopped. */
const SERVER_COMMANDS = new Set(['api', 'gateway', 'mcp', 'serve', 'work'])

/** Prints from time to time that a command is still running, unless the command prints its own progress. */
function startCommandHeartbeat(shell: Shell, command: Command): Heartbeat | undefined {
  if (SERVER_COMMANDS.has(command.name())) return undefined
  const startedAt = performance.now()
  const isSubcommand = command.parent?.parent !== undefined && command.parent.parent !== null
  const title = ['assay', ...(isSubcommand ? [command.parent?.name()] : []), command.name()].join(' ')
  return startHeartbeat(shell, () => `${title}: ${Math.round((performance.now() - startedAt) / 1000)} s so far`)
}

type AddCommands = (assay: Command, shell: Shell) => void

const loadBackup = async () => (await import('./backup.ts')).addBackupCommands
const loadComparisons = async () => (await import('./comparisons.ts')).addComparisonCommands
const loadServe = async () => (await import('./serve.ts')).addServeCommands

/**
 * Commands that can be loaded without the others, so that they start faster. The rest, such as `keys`, are declared in more
 * than one file.
 */
export const STANDALONE_COMMANDS: Record<string, () => Promise<AddCommands>> = {
  api: loadServe,
  backup: loadBackup,
  batches: async () => (await import('./batches.ts')).addBatchesCommands,
  benchmarks: async () => (await import('./benchmarks.ts')).addBenchmarksCommands,
  calibrate: async () => (await import('./calibrate.ts')).addCalibrateCommand,
  check: async () => (await import('./check.ts')).addCheckCommand,
  compare: loadComparisons,
  comparisons: loadComparisons,
  config: async () => (await import('./operate-settings.ts')).addConfigCommands,
  configurations: async () => (await import('./configurations.ts')).addConfigurationsCommands,
  demo: async () => (await import('./demo.ts')).addDemoCommand,
  doctor: async () => (await import('./doctor.ts')).addDoctorCommand,
  gateway: loadServe,
  harnesses: async () => (await import('./harnesses.ts')).addHarnessesCommands,
  import: async () => (await import('./import.ts')).addImportCommands,
  init: async () => (await import('./init.ts')).addInitCommand,
  mcp: async () => (await import('./mcp.ts')).addMcpCommand,
  models: async () => (await import('./models.ts')).addModelsCommands,
  'move-database': loadBackup,
  open: async () => (await import('./open.ts')).addOpenCommand,
  orgs: async () => (await import('./orgs.ts')).addOrgsCommands,
  prune: async () => (await import('./operate-prune.ts')).addPruneCommand,
  releases: async () => (await import('./releases.ts')).addReleasesCommands,
  repos: async () => (await import('./repos.ts')).addReposCommands,
  restore: loadBackup,
  run: async () => (await import('./run.ts')).addRunCommand,
  scan: async () => (await import('./scan.ts')).addScanCommand,
  serve: loadServe,
  setup: async () => (await import('./setup.ts')).addSetupCommand,
  trial: async () => (await import('./trial.ts')).addTrialCommands,
  trials: async () => (await import('./trials.ts')).addTrialsCommands,
  webhooks: async () => (await import('./webhooks.ts')).addWebhooksCommands,
  work: loadServe,
}

/**
 * Loads the declaration of a standalone command if the first argument names one, of none if it asks for the version, and
 * otherwise of all commands.
 */
async function loadCommands([first = '']: string[]): Promise<AddCommands> {
  if (first === '--version' || first === '-V') return () => {}
  const load = Object.hasOwn(STANDALONE_COMMANDS, first) ? STANDALONE_COMMANDS[first] : undefined
  return load ? load() : (await import('./all-commands.ts')).addAllCommands
}

/** Declares the global options and the commands. Most code of a command is loaded when the command is called. */
function buildProgram(shell: Shell, addCommands: AddCommands, isJson: boolean): Command {
  const assay = withGlobals(new Command('assay'), '--url', '--org', '--json')
    .description(about.description)
    .version(about.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'Print help')
    .helpCommand('help [command]', 'Print help of a command')
    .option('--url <url>', `URL of the service (ASSAY_URL, ${DEFAULT_URL})`)
    .option('--org <login>', "Workspace (default: the key's)")
    .option('--json', 'Print JSON as returned by the API')
    .addHelpText('after', HELP_FOOTER)
    .configureOutput({
      writeOut: (text) => shell.output.write(text),
      writeErr: (text) => shell.errors.write(text),
      // Errors are reported as JSON at the end if --json is set.
      outputError: (text, write) =>
        isJson ? undefined : write(text.replace(/^error:/, styled(shell.errors, 'red', 'error:'))),
    })
    .exitOverride()

  addCommands(assay, shell)
  return assay
}

const HELP_FOOTER = `
The key comes from ASSAY_KEY, for \`orgs create\` and \`orgs verify\` from ASSAY_OPERATOR_KEY; there is no flag for it.
${EXIT_CODES}

Examples:
  $ assay serve
  $ ASSAY_KEY=assay_… assay keys list
  $ assay doctor`

import { Command } from 'commander'
import about from '../package.json' with { type: 'json' }
import { withConfigFile } from './config-file.ts'
import { EXIT_CODES, report } from './failure.ts'
import { type Heartbeat, startHeartbeat } from './heartbeat.ts'
import { withGlobals } from './help.ts'
import { DEFAULT_URL } from './service.ts'
import { type Shell, styled } from './shell.ts'

/** Runs the command line and returns the exit code. */
export async function run(args: string[], original: Shell): Promise<number> {
  let called: Command | undefined
  let heartbeat: Heartbeat | undefined
  let shell = original
  try {
    shell = withConfigFile(original)
    const addCommands = await loadCommands(args)
    const assay = buildProgram(shell, addCommands, args.includes('--json')).hook('preAction', (_, command) => {
      called = command
      heartbeat = startCommandHeartbeat(shell, command)
    })
    await assay.parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    return report(error, shell, { command: called, isJson: args.includes('--json') })
  } finally {
    heartbeat?.stop()
  }
}

/** Commands that run until they are stopped. */
const SERVERS = new Set(['api', 'gateway', 'mcp', 'serve', 'work'])

/** Reports that a command is still running. Commands that know more about their progress print that instead. */
function startCommandHeartbeat(shell: Shell, command: Command): Heartbeat | undefined {
  if (SERVERS.has(command.name())) return undefined
  const startedAt = performance.now()
  const names = [command.parent?.parent ? command.parent.name() : '', command.name()]
  const title = ['assay', ...names.filter((name) => name !== '')].join(' ')
  return startHeartbeat(shell, () => `${title}: ${Math.round((performance.now() - startedAt) / 1000)} s so far`)
}

type AddCommands = (assay: Command, shell: Shell) => void

/** Commands that do not share code with others. They are loaded alone, which makes them start faster. */
const STANDALONE: Record<string, () => Promise<AddCommands>> = {
  calibrate: async () => (await import('./calibrate.ts')).addCalibrateCommand,
  check: async () => (await import('./check.ts')).addCheckCommand,
  demo: async () => (await import('./demo.ts')).addDemoCommand,
  init: async () => (await import('./init.ts')).addInitCommand,
  mcp: async () => (await import('./mcp.ts')).addMcpCommand,
  scan: async () => (await import('./scan.ts')).addScanCommand,
  setup: async () => (await import('./setup.ts')).addSetupCommand,
  trial: async () => (await import('./trial.ts')).addTrialCommands,
}

/** Loads the declaration of the called command, or of all commands if the first argument does not name a standalone one. */
async function loadCommands([first = '']: string[]): Promise<AddCommands> {
  const load = Object.hasOwn(STANDALONE, first) ? STANDALONE[first] : undefined
  return load ? load() : (await import('./all-commands.ts')).addAllCommands
}

/** Declares the options of all commands, and the commands. The code of commands is loaded when they are called. */
function buildProgram(shell: Shell, addCommands: AddCommands, isJson: boolean): Command {
  const assay = withGlobals(new Command('assay'), '--url', '--org', '--json')
    .description(about.description)
    .version(about.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'Print help')
    .helpCommand('help [command]', 'Print help of a command')
    .option('--url <url>', `URL of the service (ASSAY_URL, ${DEFAULT_URL})`)
    .option('--org <login>', "Workspace (default: the key's)")
    .option('--json', 'Print JSON as returned by the API')
    .addHelpText('after', AFTER)
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

const AFTER = `
The key comes from ASSAY_KEY, for \`orgs create\` and \`orgs verify\` from ASSAY_OPERATOR_KEY; there is no flag for it.
${EXIT_CODES}

Examples:
  $ assay serve
  $ ASSAY_KEY=assay_… assay keys list
  $ assay doctor`

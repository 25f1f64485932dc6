import { Command } from 'commander'
import about from '../package.json' with { type: 'json' }
import { addAuditCommands } from './audit.ts'
import { addBatchesCommands } from './batches.ts'
import { addBenchmarksCommands } from './benchmarks.ts'
import { addCalibrateCommand } from './calibrate.ts'
import { addCheckCommand } from './check.ts'
import { addComparisonCommands } from './comparisons.ts'
import { addCredentialsCommands } from './credentials.ts'
import { addDoctorCommand } from './doctor.ts'
import { EXIT_CODES, report } from './failure.ts'
import { addHarnessesCommands } from './harnesses.ts'
import { withGlobals } from './help.ts'
import { addKeysCommands } from './keys.ts'
import { addModelsCommands } from './models.ts'
import { addOperateCommands } from './operate.ts'
import { addOrgsCommands } from './orgs.ts'
import { addReleasesCommands } from './releases.ts'
import { addReposCommands } from './repos.ts'
import { addScanCommand } from './scan.ts'
import { addServeCommands } from './serve.ts'
import { DEFAULT_URL } from './service.ts'
import { type Shell, styled } from './shell.ts'
import { addTrialCommands } from './trial.ts'
import { addWebhooksCommands } from './webhooks.ts'

/** Runs the command line and returns the exit code. */
export async function run(args: string[], shell: Shell): Promise<number> {
  let called: Command | undefined
  try {
    const assay = program(shell).hook('preAction', (_, command) => {
      called = command
    })
    await assay.parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    return report(error, shell, called)
  }
}

/** Declares all commands. Their code is loaded on use, so that `--help` is fast. */
function program(shell: Shell): Command {
  const assay = withGlobals(new Command('assay'), '--url', '--org', '--json')
    .description(about.description)
    .version(about.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'Print help')
    .helpCommand(false)
    .option('--url <url>', `URL of the service (ASSAY_URL, ${DEFAULT_URL})`)
    .option('--org <login>', "Workspace (default: the key's)")
    .option('--json', 'Print JSON as returned by the API')
    .addHelpText('after', AFTER)
    .configureOutput({
      writeOut: (text) => shell.output.write(text),
      writeErr: (text) => shell.errors.write(text),
      outputError: (text, write) => write(text.replace(/^error:/, styled(shell.errors, 'red', 'error:'))),
    })
    .exitOverride()

  assay.commandsGroup('Run the service:')
  addServeCommands(assay, shell)
  assay.commandsGroup('Use the service:')
  addOrgsCommands(assay, shell)
  const keys = addKeysCommands(assay, shell)
  const credentials = addCredentialsCommands(assay, shell)
  addModelsCommands(assay, shell)
  addBenchmarksCommands(assay, shell)
  addReposCommands(assay, shell)
  addBatchesCommands(assay, shell)
  addComparisonCommands(assay, shell)
  addReleasesCommands(assay, shell)
  addWebhooksCommands(assay, shell)
  const audit = addAuditCommands(assay, shell)
  assay.commandsGroup('Work on tasks:')
  addTrialCommands(assay, shell)
  addCalibrateCommand(assay, shell)
  addCheckCommand(assay, shell)
  addScanCommand(assay, shell)
  addHarnessesCommands(assay, shell)
  assay.commandsGroup('Look after it:')
  addOperateCommands({ assay, keys, credentials, audit }, shell)
  addDoctorCommand(assay, shell)
  return assay
}

const AFTER = `
The key comes from ASSAY_KEY, for \`orgs create\` and \`orgs verify\` from ASSAY_OPERATOR_KEY; there is no flag for it.
${EXIT_CODES}

Examples:
  $ assay serve
  $ ASSAY_KEY=assay_… assay keys list
  $ assay doctor`

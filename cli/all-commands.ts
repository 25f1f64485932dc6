import type { Command } from 'commander'
import { addAuditCommands } from './audit.ts'
import { addBackupCommands } from './backup.ts'
import { addBatchesCommands } from './batches.ts'
import { addBenchmarksCommands } from './benchmarks.ts'
import { addCalibrateCommand } from './calibrate.ts'
import { addCheckCommand } from './check.ts'
import { addComparisonCommands } from './comparisons.ts'
import { addCompletionCommand } from './completion.ts'
import { addConfigurationsCommands } from './configurations.ts'
import { addCredentialsCommands } from './credentials.ts'
import { addDemoCommand } from './demo.ts'
import { addDoctorCommand } from './doctor.ts'
import { addHarnessesCommands } from './harnesses.ts'
import { addImportCommands } from './import.ts'
import { addInitCommand } from './init.ts'
import { addKeysCommands } from './keys.ts'
import { addMcpCommand } from './mcp.ts'
import { addModelsCommands } from './models.ts'
import { addOpenCommand } from './open.ts'
import { addOperateCommands } from './operate.ts'
import { addPruneCommand } from './operate-prune.ts'
import { addConfigCommands } from './operate-settings.ts'
import { addOrgsCommands } from './orgs.ts'
import { addReleasesCommands } from './releases.ts'
import { addReposCommands } from './repos.ts'
import { addRunCommand } from './run.ts'
import { addScanCommand } from './scan.ts'
import { addServeCommands } from './serve.ts'
import { addSetupCommand } from './setup.ts'
import type { Shell } from './shell.ts'
import { addTrialCommands } from './trial.ts'
import { addTrialsCommands } from './trials.ts'
import { addWebhooksCommands } from './webhooks.ts'

/** Declares all commands, in the order of the help text. */
export function addAllCommands(assay: Command, shell: Shell): void {
  assay.commandsGroup('Start here:')
  addRunCommand(assay, shell)
  assay.commandsGroup('Run the service:')
  addDemoCommand(assay, shell)
  addServeCommands(assay, shell)
  assay.commandsGroup('Use the service:')
  addOrgsCommands(assay, shell)
  const keys = addKeysCommands(assay, shell)
  const credentials = addCredentialsCommands(assay, shell)
  addModelsCommands(assay, shell)
  addBenchmarksCommands(assay, shell)
  addReposCommands(assay, shell)
  addBatchesCommands(assay, shell)
  addConfigurationsCommands(assay, shell)
  addComparisonCommands(assay, shell)
  addTrialsCommands(assay, shell)
  addReleasesCommands(assay, shell)
  addWebhooksCommands(assay, shell)
  addOpenCommand(assay, shell)
  addMcpCommand(assay, shell)
  const audit = addAuditCommands(assay, shell)
  assay.commandsGroup('Work on tasks:')
  addTrialCommands(assay, shell)
  addCalibrateCommand(assay, shell)
  addInitCommand(assay, shell)
  addImportCommands(assay, shell)
  addCheckCommand(assay, shell)
  addScanCommand(assay, shell)
  addHarnessesCommands(assay, shell)
  assay.commandsGroup('Operate the service:')
  addOperateCommands({ assay, keys, credentials, audit }, shell)
  addBackupCommands(assay, shell)
  addPruneCommand(assay, shell)
  addConfigCommands(assay, shell)
  addDoctorCommand(assay, shell)
  addSetupCommand(assay, shell)
  addCompletionCommand(assay, shell)
}

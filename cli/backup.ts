import type { Command } from 'commander'
import type { BackupSummary } from '../src/operate/backup.ts'
import { WrongUse } from './failure.ts'
import { startHeartbeat } from './heartbeat.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, openLog, readSettings } from './operate-config.ts'
import { readGlobals } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'

/** Adds commands that copy all data of a service. They need no key. Only `backup` may run while the service runs. */
export function addBackupCommands(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('backup'), '--json')
      .description('Write the database and the blobs to a new folder; the service can keep running')
      .argument('[folder]', 'New folder (default: assay-backup-<time>)')
      .option(...DATA)
      .action((folder: string | undefined, flags: Flags, command: Command) => backUp(shell, folder, flags, command)),
    'assay backup /backups/assay-monday --data /var/lib/assay',
  )
  withExample(
    withGlobals(assay.command('restore'), '--json')
      .description('Restore a backup into an empty data folder or database')
      .argument('<folder>', 'Folder that assay backup wrote')
      .option(...DATA)
      .action((folder: string, flags: Flags, command: Command) => restore(shell, folder, flags, command)),
    'assay restore /backups/assay-monday --data /var/lib/assay',
  )
  withExample(
    withGlobals(assay.command('move-database'), '--json')
      .description('Copy the database to another, empty one while no process of the service runs')
      .argument('<target>', 'postgres://… or "embedded" for the one in the data folder')
      .option(...DATA)
      .action((target: string, flags: Flags, command: Command) => moveDatabase(shell, target, flags, command)),
    'assay move-database postgres://assay@db.example.org/assay --data /var/lib/assay',
  )
}

async function backUp(shell: Shell, folder: string | undefined, flags: Flags, command: Command): Promise<void> {
  const config = await readSettings(shell, flags)
  const { backUp: run } = await import('../src/operate/backup.ts')
  const name = folder ?? `assay-backup-${new Date().toISOString().replaceAll(':', '-').slice(0, 19)}Z`
  const summary = await withProgress(shell, async (onProgress) =>
    run(config, await openLog(shell, config, 'warn'), { folder: name, onProgress }),
  )
  if (readGlobals(command).json) return printJson(shell, summary)
  print(shell, `${summary.folder}: ${describeSummary(summary)}`)
  if (config.credentialStorage && config.secretKey === undefined)
    note(shell, `The master key is not in the backup. Keep a copy of ${config.dataFolder}/secret.key in another place.`)
}

async function restore(shell: Shell, folder: string, flags: Flags, command: Command): Promise<void> {
  const config = await readSettings(shell, flags)
  const { restore: run } = await import('../src/operate/restore.ts')
  const summary = await withProgress(shell, async (onProgress) =>
    run(config, await openLog(shell, config, 'warn'), { folder, onProgress }),
  )
  if (readGlobals(command).json) return printJson(shell, summary)
  print(shell, `Restored ${describeSummary(summary)}.`)
}

async function moveDatabase(shell: Shell, target: string, flags: Flags, command: Command): Promise<void> {
  const from = await readSettings(shell, flags)
  const to = { ...from, databaseUrl: parseTarget(target) }
  if (from.databaseUrl === to.databaseUrl)
    throw new WrongUse('The target is the database that is in use. Name another one.')
  const { moveDatabase: run } = await import('../src/operate/move-database.ts')
  const log = await openLog(shell, from, 'warn')
  const summary = await withProgress(shell, (onProgress) => run({ from, to, log }, onProgress))
  if (readGlobals(command).json) return printJson(shell, summary)
  print(shell, `Copied ${summary.rows} rows in ${summary.tables} tables. The old database is unchanged.`)
  note(
    shell,
    to.databaseUrl
      ? 'Start the service with DATABASE_URL set to the target.'
      : 'Start the service without DATABASE_URL.',
  )
}

/** Returns undefined for the embedded database. */
function parseTarget(target: string): string | undefined {
  if (target === 'embedded') return undefined
  if (/^postgres(ql)?:\/\//.test(target) && URL.canParse(target)) return target
  throw new WrongUse('The target must be a postgres:// address or "embedded".')
}

/** Runs work, and prints its current step from time to time if there is no terminal. */
async function withProgress<Result>(
  shell: Shell,
  work: (onProgress: (step: string) => void) => Promise<Result>,
): Promise<Result> {
  let step = 'starting'
  const heartbeat = startHeartbeat(shell, () => `still running: ${step}`)
  try {
    return await work((next) => {
      step = next
    })
  } finally {
    heartbeat.stop()
  }
}

const describeSummary = ({ tables, rows, blobs, bytes }: BackupSummary): string =>
  `${rows} rows in ${tables} tables and ${blobs} blobs, ${(bytes / 1e6).toFixed(1)} MB`

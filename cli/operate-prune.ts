import type { Command } from 'commander'
import { WrongUse } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, openLog, readSettings } from './operate-config.ts'
import { formatBytes } from './progress.ts'
import { readGlobals } from './service.ts'
import { note, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

type PruneFlags = Flags & { olderThan?: string; dryRun?: boolean }

/** Adds `assay prune`, which deletes old files while the service can keep running. */
export function addPruneCommand(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('prune'), '--json')
      .description('Remove old files of trials and unused caches; results stay, and the service can keep running')
      .option('--older-than <days>', 'Delete what is older, such as 30d (ASSAY_ARTIFACT_DAYS, ASSAY_CACHE_DAYS)')
      .option('--dry-run', 'Print what would be deleted')
      .option(...DATA)
      .action((flags: PruneFlags, command: Command) => runPrune(shell, flags, command)),
    'assay prune --dry-run',
    'assay prune --older-than 14d --data /var/lib/assay',
  )
}

async function runPrune(shell: Shell, flags: PruneFlags, command: Command): Promise<void> {
  const days = parseDays(flags.olderThan)
  const isDryRun = flags.dryRun ?? false
  const config = await readSettings(shell, flags)
  const { prune } = await import('../src/operate/prune.ts')
  const counts = await prune(config, await openLog(shell, config, 'warn'), { days, isDryRun })
  if (readGlobals(command).json) return printJson(shell, { dryRun: isDryRun, pruned: counts })
  printTable(shell, counts, [
    ['KIND', ({ kind }) => kind],
    ['COUNT', ({ count }) => String(count)],
    ['SIZE', ({ bytes }) => (bytes === null ? '-' : formatBytes(bytes))],
  ])
  note(shell, isDryRun ? 'Nothing was deleted.' : 'Deleted. Results, tasks and releases are unchanged.')
}

function parseDays(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const [, days] = /^([1-9]\d{0,4})d?$/.exec(text) ?? []
  if (days === undefined) throw new WrongUse('--older-than must be a number of days, such as 30d.')
  return Number(days)
}

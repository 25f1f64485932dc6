import type { Command } from 'commander'
import type { TrialTableRow } from './export/trial-rows.ts'
import { WrongUse } from './failure.ts'
import { parseCount } from './flag-values.ts'
import { withExample, withGlobals } from './help.ts'
import { requireFolder, writeNewPath } from './paths.ts'
import { readGlobals } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatCount, printTable } from './table.ts'

type HarborFlags = { sqlite?: string; parquet?: string }
type SweFlags = { limit?: string }

/** Adds commands that read results and tasks of other tools. They need no server, sandbox or key. */
export function addImportCommands(assay: Command, shell: Shell): void {
  const imports = assay.command('import').description('Read results and tasks of other tools').helpCommand(false)
  withExample(
    withGlobals(imports.command('harbor-job'), '--json')
      .description('Read a job folder of Harbor and print its results by setting')
      .argument('<folder>', 'Job folder, such as jobs/2026-11-01__12-00-00')
      .option('--sqlite <file>', 'Write all trials as a SQLite database')
      .option('--parquet <file>', 'Write all trials as a Parquet file')
      .action((folder: string, flags: HarborFlags, command: Command) =>
        importHarborJob(shell, folder, { ...flags, json: readGlobals(command).json ?? false }),
      ),
    'assay import harbor-job jobs/2026-11-01__12-00-00',
    'assay import harbor-job jobs/2026-11-01__12-00-00 --sqlite trials.db',
  )
  withExample(
    withGlobals(imports.command('swe-bench'), '--json')
      .description('Write the rows of SWE-bench or SWE-rebench (JSONL) as a folder of tasks')
      .argument('<file>', 'Rows, one JSON object per line')
      .argument('<folder>', 'New folder for the tasks')
      .option('--limit <number>', 'Only the first rows')
      .action((file: string, folder: string, flags: SweFlags, command: Command) =>
        importSweRows(shell, { file, folder, flags, json: readGlobals(command).json ?? false }),
      ),
    'assay import swe-bench verified.jsonl registry/swe-bench/verified --limit 50',
  )
}

async function importHarborJob(shell: Shell, folder: string, flags: HarborFlags & { json: boolean }): Promise<void> {
  const { readHarborJob } = await import('./import/harbor-job.ts')
  await requireFolder(folder, 'a job folder of Harbor')
  const job = await readHarborJob(folder)
  const { writeParquet, writeSqlite } = await import('./export/trial-tables.ts')
  if (flags.sqlite !== undefined) await writeNewPath(flags.sqlite, (path) => writeSqlite(path, job.trials))
  if (flags.parquet !== undefined) await writeNewPath(flags.parquet, (path) => writeParquet(path, job.trials))
  const settings = summariseSettings(job.trials)
  if (flags.json) return printJson(shell, { ...job, settings })
  printTable(shell, settings, [
    ['SETTING', ({ settingId }) => settingId],
    ['TASKS', ({ tasks }) => String(tasks)],
    ['PASSED', ({ passed }) => String(passed)],
    ['ACCURACY', ({ accuracy }) => (accuracy === null ? '-' : `${accuracy.toFixed(1)} %`)],
    ['UNSCORED', ({ unscored }) => String(unscored)],
    ['COST', ({ costUsd }) => (costUsd === null ? '-' : `$${costUsd.toFixed(2)}`)],
  ])
  if (job.unfinished.length > 0)
    note(shell, `${formatCount(job.unfinished.length, 'trial')} without a result left out.`)
}

/** Computes the accuracy of each setting from the first scored trial of each task, as a comparison does. */
function summariseSettings(trials: readonly TrialTableRow[]) {
  return [...Map.groupBy(trials, ({ setting_id: id }) => id ?? '')].map(([settingId, settingTrials]) => {
    const scored = settingTrials.filter(({ passed }) => passed !== null)
    // Later entries of a map replace earlier ones, so the list is reversed to keep the first trial of each task.
    const firstByTask = new Map(scored.toReversed().map((trial) => [trial.task, trial]))
    const passed = [...firstByTask.values()].filter((trial) => trial.passed).length
    const costs = settingTrials.flatMap(({ cost_usd: cost }) => cost ?? [])
    return {
      settingId,
      tasks: firstByTask.size,
      passed,
      accuracy: firstByTask.size === 0 ? null : (100 * passed) / firstByTask.size,
      unscored: settingTrials.length - scored.length,
      costUsd: costs.length === 0 ? null : costs.reduce((sum, cost) => sum + cost, 0),
    }
  })
}

type SweImport = { file: string; folder: string; flags: SweFlags; json: boolean }

async function importSweRows(shell: Shell, { file, folder, flags, json }: SweImport): Promise<void> {
  const limit = flags.limit === undefined ? Number.POSITIVE_INFINITY : parseCount(flags.limit, '--limit')
  const { readSweRows } = await import('./import/swe-rows.ts')
  const { writeSweTask } = await import('./import/swe-task.ts')
  const names = new Set<string>()
  const path = await writeNewPath(folder, async (temporaryPath) => {
    for await (const instance of readSweRows(file)) {
      const name = instance.id.toLowerCase()
      if (names.has(name)) throw new WrongUse(`${file} has two rows with the id ${instance.id}.`)
      await writeSweTask(`${temporaryPath}/${name}`, instance)
      names.add(name)
      if (names.size >= limit) break
    }
    if (names.size === 0) throw new WrongUse(`${file} has no rows.`)
  })
  if (json) return printJson(shell, { path, tasks: [...names] })
  note(shell, `Wrote ${formatCount(names.size, 'task')}. To check them: assay check ${folder}`)
  print(shell, path)
}

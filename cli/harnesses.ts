import type { Command } from 'commander'
import { Canceled } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, readSettings } from './operate-config.ts'
import { progressBar } from './progress.ts'
import { globalsOf } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'
import { refused, stopOnSignals } from './trial.ts'

/** The programs that work on tasks: no server, no database, no key. */
export function addHarnessesCommands(assay: Command, shell: Shell): void {
  const harnesses = assay.command('harnesses').description('The programs that can work on tasks')
  withExample(
    withGlobals(harnesses.command('list'), '--json')
      .description('List them, with their versions and whether they are installed on this machine')
      .option(...DATA)
      .action((flags: Flags, command: Command) => list(shell, flags, command)),
    'assay harnesses list',
  )
  withExample(
    withGlobals(harnesses.command('install'))
      .description('Install one now, with npm, as the first trial would')
      .argument('<id>', 'as `assay harnesses list` shows it')
      .option(...DATA)
      .action((id: string, flags: Flags) => install(shell, id, flags)),
    'assay harnesses install pi',
  )
}

async function list(shell: Shell, flags: Flags, command: Command): Promise<void> {
  const { dataFolder } = await readSettings(shell, flags)
  const { listHarnesses } = await import('../src/trials/engine.ts')
  const rows = await listHarnesses(dataFolder)
  if (globalsOf(command).json) return printJson(shell, rows)
  printTable(shell, rows, [
    ['ID', ({ id }) => id],
    ['NAME', ({ name }) => name],
    ['VERSION', ({ version }) => version],
    ['INSTALLED', ({ installed }) => (installed === null ? 'built in' : installed ? 'yes' : 'no')],
    ['PROTOCOLS', ({ protocols }) => protocols.join(', ')],
  ])
}

async function install(shell: Shell, id: string, flags: Flags): Promise<void> {
  const { dataFolder } = await readSettings(shell, flags)
  const { installHarness } = await import('../src/trials/engine.ts')
  using stop = stopOnSignals()
  const progress = progressBar(shell)
  const onProgress = (name: string, done: number, total: number): void => progress.show(done, total, name)
  const folders = await installHarness(id, { dataFolder, signal: stop.signal, onProgress })
    .finally(() => progress.end())
    .catch((error: unknown) => {
      throw stop.signal.aborted ? new Canceled() : refused(error)
    })
  if (folders.length === 0) note(shell, `${id} needs no installation.`)
  for (const folder of folders) print(shell, folder)
}

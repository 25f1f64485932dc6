import type { Command } from 'commander'
import { stopOnSignals, told } from './engine.ts'
import { WrongUse } from './failure.ts'
import { addOwnHarnessesCommands, isOwn, printOwn, showOwn } from './harnesses-own.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, readSettings } from './operate-config.ts'
import { progressBar } from './progress.ts'
import { globalsOf } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

/** The programs that work on tasks: without a server, but for those of a workspace. */
export function addHarnessesCommands(assay: Command, shell: Shell): void {
  const harnesses = assay.command('harnesses').description('The programs that can work on tasks')
  withExample(
    withGlobals(harnesses.command('list'), '--url', '--org', '--json')
      .description('List them, with their versions and whether they are installed on this machine')
      .option('--own', 'those that your workspace has described, each version, from its server')
      .option(...DATA)
      .action((flags: ListFlags, command: Command) =>
        flags.own ? printOwn(shell, command) : list(shell, flags, command),
      ),
    'assay harnesses list',
    'assay harnesses list --own',
  )
  withExample(
    withGlobals(harnesses.command('show'), '--url', '--org')
      .description('Show one as JSON: of your own, the newest description')
      .argument('<id>', 'as `assay harnesses list` shows it')
      .option(...DATA)
      .action((id: string, flags: Flags, command: Command) =>
        isOwn(id) ? showOwn(shell, command, id) : show(shell, id, flags),
      ),
    'assay harnesses show custom/house-agent',
  )
  addOwnHarnessesCommands(harnesses, shell)
  withExample(
    withGlobals(harnesses.command('install'))
      .description('Install one now, with npm, as the first trial would')
      .argument('<id>', 'as `assay harnesses list` shows it')
      .option(...DATA)
      .action((id: string, flags: Flags) => install(shell, id, flags)),
    'assay harnesses install pi',
  )
}

type ListFlags = Flags & { own?: boolean }

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

async function show(shell: Shell, id: string, flags: Flags): Promise<void> {
  const { dataFolder } = await readSettings(shell, flags)
  const { listHarnesses } = await import('../src/trials/engine.ts')
  const all = await listHarnesses(dataFolder)
  const found = all.find((harness) => harness.id === id)
  if (!found) throw new WrongUse(`There is no harness ${id}. Known: ${all.map((known) => known.id).join(', ')}.`)
  printJson(shell, found)
}

async function install(shell: Shell, id: string, flags: Flags): Promise<void> {
  const { dataFolder } = await readSettings(shell, flags)
  const { installHarness } = await import('../src/trials/engine.ts')
  using stop = stopOnSignals()
  const progress = progressBar(shell)
  const onProgress = (name: string, done: number, total: number): void => progress.show(done, total, name)
  const folders = await installHarness(id, { dataFolder, signal: stop.signal, onProgress })
    .finally(() => progress.end())
    .catch(told(stop.signal))
  if (folders.length === 0) note(shell, `${id} needs no installation.`)
  for (const folder of folders) print(shell, folder)
}

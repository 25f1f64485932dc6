import type { Command } from 'commander'
import { createDataFolder } from '../src/platform/data-folder.ts'
import {
  addCustomHarnessesCommands,
  isCustomHarness,
  printCustomHarnesses,
  showCustomHarness,
} from './custom-harnesses.ts'
import { rethrowForExitCode, stopOnSignals } from './engine.ts'
import { WrongUse } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { DATA, type Flags, readSettings } from './operate-config.ts'
import { createProgressBar } from './progress.ts'
import { readGlobals } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

/** Adds the commands for harnesses. Only commands for custom harnesses need a server. */
export function addHarnessesCommands(assay: Command, shell: Shell): void {
  const harnesses = assay.command('harnesses').description('Manage the programs that work on tasks')
  withExample(
    withGlobals(harnesses.command('list'), '--url', '--org', '--json')
      .description('List harnesses with their versions and whether they are installed')
      .option('--own', 'List the custom harnesses of the workspace, every version')
      .option(...DATA)
      .action((flags: ListHarnessFlags, command: Command) =>
        flags.own ? printCustomHarnesses(shell, command) : list(shell, flags, command),
      ),
    'assay harnesses list',
    'assay harnesses list --own',
  )
  withExample(
    withGlobals(harnesses.command('show'), '--url', '--org', '--json')
      .description('Show a harness as JSON (the newest version of a custom harness)')
      .argument('<id>', 'Id from `assay harnesses list`')
      .option(...DATA)
      .action((id: string, flags: Flags, command: Command) =>
        isCustomHarness(id) ? showCustomHarness(shell, command, id) : show(shell, id, flags),
      ),
    'assay harnesses show custom/house-agent',
  )
  addCustomHarnessesCommands(harnesses, shell)
  withExample(
    withGlobals(harnesses.command('install'), '--json')
      .description('Install a harness with npm, as its first trial would')
      .argument('<id>', 'Id from `assay harnesses list`')
      .option(...DATA)
      .action((id: string, flags: Flags, command: Command) => install(shell, id, flags, command)),
    'assay harnesses install pi',
  )
}

type ListHarnessFlags = Flags & { own?: boolean }

async function list(shell: Shell, flags: Flags, command: Command): Promise<void> {
  const { dataFolder } = await readSettings(shell, flags)
  const { listHarnesses } = await import('../src/trials/local-engine.ts')
  const rows = await listHarnesses(dataFolder)
  if (readGlobals(command).json) return printJson(shell, rows)
  printTable(shell, rows, [
    ['ID', ({ id }) => id],
    ['NAME', ({ name }) => name],
    ['VERSION', ({ version }) => version],
    ['INSTALLED', ({ installed }) => formatInstalled(installed)],
    ['PROTOCOLS', ({ protocols }) => protocols.join(', ')],
  ])
}

function formatInstalled(installed: boolean | null): string {
  if (installed === null) return 'built in'
  return installed ? 'yes' : 'no'
}

async function show(shell: Shell, id: string, flags: Flags): Promise<void> {
  const { dataFolder } = await readSettings(shell, flags)
  const { listHarnesses } = await import('../src/trials/local-engine.ts')
  const harnesses = await listHarnesses(dataFolder)
  const harness = harnesses.find((each) => each.id === id)
  if (!harness) throw new WrongUse(`Unknown harness ${id}. Available: ${harnesses.map((each) => each.id).join(', ')}.`)
  printJson(shell, harness)
}

async function install(shell: Shell, id: string, flags: Flags, command: Command): Promise<void> {
  const { dataFolder } = await readSettings(shell, flags)
  const { installHarness } = await import('../src/trials/local-engine.ts')
  using stop = stopOnSignals()
  const progress = createProgressBar(shell)
  const onProgress = (name: string, done: number, total: number): void =>
    progress.show(done, total, `packages of ${name}`)
  createDataFolder(dataFolder)
  const folders = await installHarness(id, { dataFolder, signal: stop.signal, onProgress })
    .finally(() => progress.end())
    .catch(rethrowForExitCode(stop.signal))
  if (readGlobals(command).json) return printJson(shell, { id, folders })
  if (folders.length === 0) note(shell, `${id} needs no installation.`)
  for (const folder of folders) print(shell, folder)
}

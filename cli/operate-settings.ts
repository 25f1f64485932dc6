import { text as readText } from 'node:stream/consumers'
import type { Command } from 'commander'
import { suggestName } from '../src/platform/suggestion.ts'
import { readConfigFile, resolveConfigPath, writeConfigFile } from './config-file.ts'
import { WrongUse } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { buildEnvironment, DATA, type Flags } from './operate-config.ts'
import { DEFAULT_URL, readGlobals } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

type SettingSource = 'flag' | 'environment' | 'file' | 'default'
type EffectiveSetting = { name: string; value: string | null; source: SettingSource }

/** Settings of the command line as a client, with their defaults. The service does not use them. */
const CLIENT_SETTINGS: Record<string, string | undefined> = { ASSAY_URL: DEFAULT_URL, ASSAY_KEY: undefined }

/** Adds commands that show settings and change those of the file. */
export function addConfigCommands(assay: Command, shell: Shell): void {
  const config = assay.command('config').description('Show and change settings').helpCommand(false)
  withExample(
    withGlobals(config.command('list'), '--url', '--json')
      .description('List the settings in effect and where each comes from; secrets are masked')
      .option(...DATA)
      .action((flags: Flags, command: Command) => list(shell, flags, command)),
    'assay config list',
  )
  withExample(
    withGlobals(config.command('set'), '--json')
      .description('Write a setting to the file; a secret is read from standard input')
      .argument('<name>', 'Name of the setting, such as ASSAY_URL')
      .argument('[value]', 'Its value')
      .action((name: string, value: string | undefined, _: object, command: Command) =>
        setSetting(shell, name, value, command),
      ),
    'assay config set ASSAY_URL https://assay.example.org',
    'assay config set ASSAY_KEY < key.txt',
  )
  withExample(
    withGlobals(config.command('unset'), '--json')
      .description('Remove a setting from the file')
      .argument('<name>', 'Name of the setting')
      .action((name: string, _: object, command: Command) => unsetSetting(shell, name, command)),
    'assay config unset ASSAY_URL',
  )
  withExample(
    withGlobals(config.command('path'), '--json')
      .description('Print the path of the file (ASSAY_CONFIG, ~/.config/assay/config.env)')
      .action((_: object, command: Command) => {
        const path = resolveConfigPath(shell)
        if (readGlobals(command).json) printJson(shell, { path })
        else print(shell, path)
      }),
    'assay config path',
  )
}

async function list(shell: Shell, flags: Flags, command: Command): Promise<void> {
  const { settingNames, findDefaultSetting } = await import('../src/config.ts')
  const { url, json } = readGlobals(command)
  const file = readConfigFile(shell)
  const serviceFlags = buildEnvironment({ ...shell, env: {} }, flags)
  const fromFlags: Record<string, string | undefined> = { ...serviceFlags, ASSAY_URL: url }
  const settings = [...Object.keys(CLIENT_SETTINGS), ...settingNames].map((name): EffectiveSetting => {
    const value = fromFlags[name] ?? (shell.env[name] || undefined)
    if (value === undefined) {
      const defaultValue = CLIENT_SETTINGS[name] ?? findDefaultSetting(name) ?? null
      return { name, value: defaultValue, source: 'default' }
    }
    return { name, value: maskSecret(name, value), source: findSource(name, { fromFlags, file, value }) }
  })
  if (json) return printJson(shell, { path: resolveConfigPath(shell), settings })
  printTable(shell, settings, [
    ['SETTING', ({ name }) => name],
    ['VALUE', ({ value }) => value ?? '-'],
    ['SOURCE', ({ source }) => source],
  ])
  note(shell, `The file is ${resolveConfigPath(shell)}.`)
}

type SettingOrigin = {
  fromFlags: Record<string, string | undefined>
  file: Record<string, string | undefined>
  value: string
}

/** Finds where a value comes from. A variable with the same value as the file counts as the file. */
function findSource(name: string, { fromFlags, file, value }: SettingOrigin): SettingSource {
  if (fromFlags[name] !== undefined) return 'flag'
  return file[name] === value ? 'file' : 'environment'
}

const isSecret = (name: string): boolean => /_KEY$|TOKEN$|_HEADERS$/.test(name) && name !== 'ASSAY_HARBOR_PUBLIC_KEY'

/** Masks a secret except its last four characters, and passwords in URLs. */
function maskSecret(name: string, value: string): string {
  if (isSecret(name)) return value.length > 12 ? `…${value.slice(-4)}` : '…'
  return value.replaceAll(/(:\/\/[^:@/]*):[^@/]*@/g, '$1:…@')
}

async function requireKnownSetting(name: string): Promise<void> {
  const { settingNames } = await import('../src/config.ts')
  const known = [...Object.keys(CLIENT_SETTINGS), ...settingNames]
  if (known.includes(name) || /^ASSAY_GATEWAY_UPSTREAM_\w+$/.test(name)) return
  throw new WrongUse(`Unknown setting ${name}.${suggestName(name, known)} List them with \`assay config list\`.`)
}

async function setSetting(shell: Shell, name: string, given: string | undefined, command: Command): Promise<void> {
  await requireKnownSetting(name)
  if (isSecret(name) && given !== undefined)
    throw new WrongUse(`${name} is a secret. Give it on standard input: arguments are visible in the process list.`)
  if (!isSecret(name) && given === undefined) throw new WrongUse('Give the value after the name.')
  const value = given ?? (await readText(shell.input())).trim()
  if (value === '') throw new WrongUse(`The value is empty. To remove the setting: assay config unset ${name}`)
  const { findSettingProblem } = await import('../src/config.ts')
  const problem = findSettingProblem(name, value)
  if (problem !== undefined) throw new WrongUse(problem)
  await writeConfigFile(shell, { ...readConfigFile(shell), [name]: value })
  printChange(shell, command, { name, value: maskSecret(name, value), path: resolveConfigPath(shell) })
}

async function unsetSetting(shell: Shell, name: string, command: Command): Promise<void> {
  const { [name]: removed, ...rest } = readConfigFile(shell)
  if (removed === undefined) throw new WrongUse(`${name} is not in ${resolveConfigPath(shell)}.`)
  await writeConfigFile(shell, rest)
  printChange(shell, command, { name, value: null, path: resolveConfigPath(shell) })
}

function printChange(
  shell: Shell,
  command: Command,
  change: { name: string; value: string | null; path: string },
): void {
  if (readGlobals(command).json) printJson(shell, change)
  else note(shell, `${change.value === null ? 'Removed' : 'Set'} ${change.name} in ${change.path}.`)
}

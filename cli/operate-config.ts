import type { Config, ConfigEnvironment } from '../src/config.ts'
import { adoptDataFolder, ForeignDataFolder, requireOwnDataFolder } from '../src/platform/data-folder.ts'
import type { Log } from '../src/platform/log.ts'
import { printable } from '../src/platform/terminal-text.ts'
import { WrongUse } from './failure.ts'
import type { Shell } from './shell.ts'

/** Flags that override settings of the environment. */
export type Flags = {
  data?: string
  port?: string
  workPort?: string
  host?: string
  gatewayPort?: string
  gatewayHost?: string
}

export const DATA = ['--data <folder>', 'Data folder (ASSAY_DATA, ./.assay)'] as const

/** Returns the environment with the settings that flags set. Flags take precedence over variables. */
export function buildEnvironment(shell: Shell, flags: Flags): ConfigEnvironment {
  const settingsOfFlags: ConfigEnvironment = {
    ASSAY_DATA: flags.data,
    ASSAY_PORT: flags.port,
    ASSAY_WORK_PORT: flags.workPort,
    ASSAY_HOST: flags.host,
    ASSAY_GATEWAY_PORT: flags.gatewayPort,
    ASSAY_GATEWAY_HOST: flags.gatewayHost,
  }
  const setFlags = Object.entries(settingsOfFlags).filter(([, value]) => value !== undefined)
  return { ...shell.env, ...Object.fromEntries(setFlags) }
}

/** Reads the settings and checks that the data folder may be used. Reports mistakes as wrong use. */
export async function readSettings(shell: Shell, flags: Flags): Promise<Config> {
  const { ConfigError, readConfig } = await import('../src/config.ts')
  const environment = buildEnvironment(shell, flags)
  try {
    const config = readConfig(environment)
    if (environment.ASSAY_DATA) adoptDataFolder(config.dataFolder)
    else requireOwnDataFolder(config.dataFolder)
    return config
  } catch (error) {
    throw error instanceof ConfigError || error instanceof ForeignDataFolder ? new WrongUse(error.message) : error
  }
}

/** Reads the hosts that builds may reach. Loads the settings only if ASSAY_BUILD_HOSTS is set, because loading takes time. */
export async function readBuildHosts({ env }: Shell): Promise<Config['buildHosts']> {
  if (!env.ASSAY_BUILD_HOSTS) return []
  const { ConfigError, readBuildHosts: read } = await import('../src/config.ts')
  try {
    return read(env)
  } catch (error) {
    throw error instanceof ConfigError ? new WrongUse(error.message) : error
  }
}

/** Opens the log: readable lines on a terminal, otherwise JSON lines. ASSAY_LOG takes precedence over `defaultLevel`. */
export async function openLog(shell: Shell, config: Config, defaultLevel: Config['logLevel']): Promise<Log> {
  const { createLog } = await import('../src/platform/log.ts')
  const level = shell.env.ASSAY_LOG ? config.logLevel : defaultLevel
  return shell.errors.isTTY
    ? createLog(
        level,
        createLogPrinter((line) => shell.errors.write(line)),
      )
    : createLog(level)
}

/** Fields of a log entry that are not printed as `name=value`. */
const FIXED_FIELDS = ['level', 'time', 'msg', 'error']

/** Returns a function that prints JSON log lines in readable form. A line that repeats the previous one is left out. */
export function createLogPrinter(write: (line: string) => void): (json: string) => void {
  let previousLine = ''
  return (json) => {
    const line = formatLine(json)
    if (line !== previousLine) write(`${line}\n`)
    previousLine = line
  }
}

function formatLine(json: string): string {
  const entry: Record<string, unknown> = JSON.parse(json)
  const facts = Object.entries(entry).filter(([name]) => !FIXED_FIELDS.includes(name))
  const error = findMessage(entry.error)
  const parts = [`${entry.level}:`, entry.msg, ...facts.map(([name, value]) => `${name}=${toText(value)}`)]
  return printable(`${parts.join(' ')}${error ? `: ${error}` : ''}`)
}

const toText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** Returns the message of an error, or its code: some errors of Node have no message. */
function findMessage(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return error === undefined ? undefined : String(error)
  const message = 'message' in error && error.message ? String(error.message) : ''
  return message || ('code' in error ? String(error.code) : undefined)
}

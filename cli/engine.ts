import { join } from 'node:path'
import { createDataFolder } from '../src/platform/data-folder.ts'
import { UnknownName } from '../src/platform/errors.ts'
import { Canceled, WrongUse } from './failure.ts'
import type { Flags, readSettings } from './operate-config.ts'
import { note, type Shell } from './shell.ts'

export const TIMEOUT_MULTIPLIER = [
  '--timeout-multiplier <factor>',
  "Multiply the tasks' time limits, for slow machines; part of the setting",
] as const

export type EngineFlags = Flags & { sandbox: string; env: string[]; verbose?: boolean; timeoutMultiplier?: string }

type EngineSettings = Awaited<ReturnType<typeof readSettings>>

/** Builds the options of the trial engine from flags and settings, and creates the data folder. */
export const buildEngineOptions = (shell: Shell, settings: EngineSettings, flags: EngineFlags) => {
  createDataFolder(settings.dataFolder)
  return {
    sandbox: flags.sandbox,
    dockerHost: settings.dockerHost,
    kubernetesSettings: settings.kubernetesSettings,
    onSelected: createSandboxReporter(shell, flags),
    variables: Object.fromEntries(flags.env.map(parseVariable)),
    dataFolder: settings.dataFolder,
    timeoutMultiplier: parseTimeoutMultiplier(flags.timeoutMultiplier),
    allowHostBase: settings.allowHostBase,
    buildHosts: settings.buildHosts,
    outputFolder: join(settings.dataFolder, 'trials'),
  }
}

const MULTIPLIER_MIN = 0.1
const MULTIPLIER_MAX = 100

export function parseTimeoutMultiplier(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const value = Number(text)
  if (text.trim() !== '' && value >= MULTIPLIER_MIN && value <= MULTIPLIER_MAX) return value
  throw new WrongUse(`--timeout-multiplier must be a number from ${MULTIPLIER_MIN} to ${MULTIPLIER_MAX}.`)
}

/** Returns a function that prints the selected sandbox, and with --verbose why others were not selected. */
const createSandboxReporter =
  (shell: Shell, { verbose }: EngineFlags) =>
  (description: string): void =>
    note(shell, ...description.split('\n').slice(0, verbose ? undefined : 1))

function parseVariable(text: string): [string, string] {
  const separator = text.indexOf('=')
  if (separator < 1) throw new WrongUse('--env must have the form NAME=VALUE.')
  return [text.slice(0, separator), text.slice(separator + 1)]
}

/** Aborts on the first signal, so that the work cleans up. A second signal ends the process immediately. */
export function stopOnSignals(): Disposable & { signal: AbortSignal } {
  const abort = new AbortController()
  const stop = () => abort.abort()
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
  return {
    signal: abort.signal,
    [Symbol.dispose]() {
      process.off('SIGINT', stop)
      process.off('SIGTERM', stop)
    },
  }
}

/** Returns a function that rethrows an error of the engine as canceled or wrong use, which have their own exit codes. */
export const rethrowForExitCode =
  (signal?: AbortSignal) =>
  (error: unknown): never => {
    if (signal?.aborted) throw new Canceled()
    throw error instanceof UnknownName ? new WrongUse(error.message) : error
  }

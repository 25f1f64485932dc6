import { join } from 'node:path'
import { Canceled, WrongUse } from './failure.ts'
import type { Flags, readSettings } from './operate-config.ts'
import { note, type Shell } from './shell.ts'

// What commands share that run the engine by itself, without a server.

export type EngineFlags = Flags & { sandbox: string; env: string[]; verbose?: boolean }

type Settings = Awaited<ReturnType<typeof readSettings>>

/** Where a task is run, and with what. */
export const engineWish = (shell: Shell, settings: Settings, flags: EngineFlags) => ({
  sandbox: flags.sandbox,
  dockerHost: settings.dockerHost,
  onSelected: onSelected(shell, flags),
  variables: Object.fromEntries(flags.env.map(pair)),
  dataFolder: settings.dataFolder,
  allowHostBase: settings.allowHostBase,
  buildHosts: settings.buildHosts,
  outputFolder: join(settings.dataFolder, 'trials'),
})

/** Which sandbox it is. Why it is none of the others is for those who ask. */
const onSelected =
  (shell: Shell, { verbose }: EngineFlags) =>
  (chosen: string): void =>
    note(shell, ...chosen.split('\n').slice(0, verbose ? undefined : 1))

function pair(text: string): [string, string] {
  const at = text.indexOf('=')
  if (at < 1) throw new WrongUse('--env takes NAME=VALUE.')
  return [text.slice(0, at), text.slice(at + 1)]
}

/** Of an option that may be repeated. */
export const collect = (value: string, before: string[]): string[] => [...before, value]

/** Ctrl-C ends the work and takes away what it made. A second one ends this process at once. */
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

/** How it ended, for whoever called: stopped by hand, or what the caller can mend in one sentence. A bug keeps its stack. */
export const told =
  (signal?: AbortSignal) =>
  (error: unknown): never => {
    throw signal?.aborted ? new Canceled() : mendable(error)
  }

function mendable(error: unknown): unknown {
  const known = [
    'UnknownName',
    'TaskUnfit',
    'TaskInvalid',
    'VariableMissing',
    'SandboxUnsupported',
    'SandboxUnavailable',
    'ModelUnfit',
    'HarnessUnfit',
  ]
  if (!(error instanceof Error) || !known.includes(error.name)) return error
  return error.name === 'UnknownName' ? new WrongUse(error.message) : new Error(error.message)
}

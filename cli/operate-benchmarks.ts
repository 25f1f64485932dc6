import type { Command } from 'commander'
import type { LocalBenchmarks } from '../src/operate/benchmarks.ts'
import { type Flags, openLog, readSettings } from './operate-config.ts'
import { readGlobals } from './service.ts'
import type { Shell } from './shell.ts'

/** Runs benchmark operations on a data folder, without a service or a key. */
export async function withDataFolder<T>(
  shell: Shell,
  command: Command,
  flags: Flags,
  work: (benchmarks: LocalBenchmarks) => Promise<T>,
): Promise<T> {
  const { org = 'local' } = readGlobals(command)
  const config = await readSettings(shell, flags)
  const log = await openLog(shell, config, 'warn')
  const { withBenchmarks } = await import('../src/operate/benchmarks.ts')
  const abort = new AbortController()
  process.once('SIGINT', () => abort.abort())
  return withBenchmarks(config, log, { org, signal: abort.signal }, work)
}

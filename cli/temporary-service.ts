import type { Config } from '../src/config.ts'
import { type Flags, openLog, readSettings } from './operate-config.ts'
import { DEFAULT_URL, type Service } from './service.ts'
import { note, type Shell } from './shell.ts'

type TemporaryService = AsyncDisposable & { service: Service; dataFolder: string }

const HOUR_MS = 3600 * 1000
/** Lifetime of the key: longer than a command with a temporary service runs. */
const KEY_TTL_MS = 7 * 24 * HOUR_MS

/**
 * Starts a service on the data folder for one command, with a key that is revoked at the end. If another service runs on
 * the folder, both share its database, and each may run the trials.
 */
export async function openTemporaryService(shell: Shell, flags: Flags, isJson: boolean): Promise<TemporaryService> {
  const config = await readSettings(shell, flags)
  const log = await openLog(shell, config, 'error')
  const { start } = await import('../src/main.ts')
  await using cleanup = new AsyncDisposableStack()
  note(shell, `Starting a service on ${config.dataFolder}.`)
  const running = await start('serve', { ...config, host: '127.0.0.1', port: 0, baseUrl: undefined }, log)
  cleanup.defer(running.stop)
  if (running.newKey) note(shell, 'The admin key of the workspace local, shown only once:', `  ${running.newKey}`)
  const key = await createTemporaryKey(config, log)
  cleanup.defer(key.revoke)
  const service = { url: running.url ?? DEFAULT_URL, key: key.key, org: 'local', json: isJson }
  const opened = cleanup.move()
  return { service, dataFolder: config.dataFolder, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

async function createTemporaryKey(config: Config, log: Awaited<ReturnType<typeof openLog>>) {
  const { createLocalKey, revokeLocalKey } = await import('../src/operate/operate.ts')
  const expiresAt = new Date(Date.now() + KEY_TTL_MS).toISOString()
  const { id, key } = await createLocalKey(config, log, { name: 'assay run', expiresAt })
  return { key, revoke: () => revokeLocalKey(config, log, id) }
}

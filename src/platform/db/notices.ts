import pg from 'pg'
import { backoffMs } from '../jobs/backoff.ts'
import { createBell } from '../jobs/bell.ts'

const RECONNECT_MS_MAX = 10_000

/** Which notices, and by which name the database sees who listens. */
type Channel = { url: string; channel: string; application: string }

type Listener = {
  /** From now on every notice is heard; there may have been some before. */
  joined(): void
  heard(notice: string): void
  /** From now on nothing is heard, until it is joined again. With the reason, where there is one. */
  lost(error: unknown): void
}

/** Hears notices on a connection of its own and comes back by itself. */
export function listenTo(channel: Channel, listener: Listener): { close(): Promise<void> } {
  const closing = new AbortController()
  const ended = keepListening(channel, listener, closing.signal)
  return {
    async close() {
      closing.abort()
      await ended
    },
  }
}

async function keepListening(channel: Channel, listener: Listener, closing: AbortSignal): Promise<void> {
  const bell = createBell()
  closing.addEventListener('abort', bell.ring)
  for (let failures = 0; !closing.aborted; failures += 1) {
    const joined = () => {
      failures = 0
      listener.joined()
    }
    const error = await listenOnce(channel, { ...listener, joined }, closing).catch((thrown: unknown) => thrown)
    listener.lost(error)
    if (!closing.aborted) await bell.wait(Math.min(backoffMs(failures + 1, Math.random()), RECONNECT_MS_MAX))
  }
}

/** Ends when the connection does. */
async function listenOnce({ url, channel, application }: Channel, listener: Listener, closing: AbortSignal) {
  const client = new pg.Client({
    connectionString: url,
    application_name: application,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  })
  const { promise: lost, resolve, reject } = Promise.withResolvers<void>()
  // When connecting fails, nobody waits for the loss.
  lost.catch(() => {})
  client.on('error', reject)
  client.on('end', resolve)
  client.on('notification', (message) => listener.heard(message.payload ?? ''))
  const hangUp = () => resolve()
  closing.addEventListener('abort', hangUp)
  try {
    await client.connect()
    await client.query(`listen ${client.escapeIdentifier(channel)}`)
    listener.joined()
    await lost
  } finally {
    closing.removeEventListener('abort', hangUp)
    await client.end().catch(() => {})
  }
}

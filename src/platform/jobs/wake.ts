import pg from 'pg'
import { backoffMs } from './backoff.ts'
import { createBell } from './bell.ts'
import type { Outage } from './outage.ts'
import { LISTEN } from './sql.ts'

const RECONNECT_MS_MAX = 10_000

type Hear = (notice: string) => void
type Wake = { close(): Promise<void> }

/** Hears notices on a connection of its own and comes back by itself. `missed`: there may have been some before. */
export function listen(url: string, hear: Hear, outage: Outage): Wake {
  const closing = new AbortController()
  const ended = keepListening(url, hear, { outage, closing: closing.signal })
  return {
    async close() {
      closing.abort()
      await ended
    },
  }
}

type Line = { outage: Outage; closing: AbortSignal }

async function keepListening(url: string, hear: Hear, { outage, closing }: Line): Promise<void> {
  const bell = createBell()
  closing.addEventListener('abort', bell.ring)
  for (let failures = 0; !closing.aborted; failures += 1) {
    try {
      await listenOnce(url, closing, (notice) => {
        failures = 0
        outage.worked('listen')
        hear(notice)
      })
    } catch (error) {
      outage.failed('listen', error)
    }
    if (!closing.aborted) await bell.wait(Math.min(backoffMs(failures + 1, Math.random()), RECONNECT_MS_MAX))
  }
}

/** Ends when the connection does. */
async function listenOnce(url: string, closing: AbortSignal, hear: Hear): Promise<void> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'assay-jobs',
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  })
  const { promise: lost, resolve, reject } = Promise.withResolvers<void>()
  // When connecting fails, nobody waits for the loss.
  lost.catch(() => {})
  client.on('error', reject)
  client.on('end', resolve)
  client.on('notification', (message) => hear(message.payload ?? ''))
  const hangUp = () => resolve()
  closing.addEventListener('abort', hangUp)
  try {
    await client.connect()
    await client.query(LISTEN)
    hear('missed')
    await lost
  } finally {
    closing.removeEventListener('abort', hangUp)
    await client.end().catch(() => {})
  }
}

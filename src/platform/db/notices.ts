import pg from 'pg'
import { backoffMs } from '../retry-delay.ts'

const RECONNECT_MS_MAX = 10_000

type NoticeChannel = { url: string; channel: string; applicationName: string }

type NoticeListener = {
  /** Called on every (re)connect. Notifications sent before it may have been missed. */
  onConnect(): void
  onNotice(notice: string): void
  /** Called when the connection is lost, with the error if there is one. Nothing arrives until `onConnect`. */
  onDisconnect(error: unknown): void
}

/** Listens for PostgreSQL notifications on a connection of its own and reconnects by itself. */
export function listenTo(channel: NoticeChannel, listener: NoticeListener): { close(): Promise<void> } {
  const closing = new AbortController()
  const ended = listenUntilClosed(channel, listener, closing.signal)
  return {
    async close() {
      closing.abort()
      await ended
    },
  }
}

async function listenUntilClosed(
  channel: NoticeChannel,
  listener: NoticeListener,
  closing: AbortSignal,
): Promise<void> {
  const wakeSignal = createWakeSignal()
  closing.addEventListener('abort', wakeSignal.notify)
  for (let failures = 0; !closing.aborted; failures += 1) {
    const onConnect = () => {
      failures = 0
      listener.onConnect()
    }
    const error = await listenOnce(channel, { ...listener, onConnect }, closing).catch((thrown: unknown) => thrown)
    listener.onDisconnect(error)
    if (!closing.aborted) await wakeSignal.wait(Math.min(backoffMs(failures + 1, Math.random()), RECONNECT_MS_MAX))
  }
}

/** Returns when the connection ends. */
async function listenOnce(
  { url, channel, applicationName }: NoticeChannel,
  listener: NoticeListener,
  closing: AbortSignal,
): Promise<void> {
  const client = new pg.Client({
    connectionString: url,
    application_name: applicationName,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  })
  const { promise: disconnected, resolve, reject } = Promise.withResolvers<void>()
  // Avoids an unhandled rejection when connecting fails.
  disconnected.catch(() => {})
  client.on('error', reject)
  client.on('end', resolve)
  client.on('notification', (message) => listener.onNotice(message.payload ?? ''))
  const disconnect = () => resolve()
  closing.addEventListener('abort', disconnect)
  try {
    await client.connect()
    await client.query(`listen ${client.escapeIdentifier(channel)}`)
    listener.onConnect()
    await disconnected
  } finally {
    closing.removeEventListener('abort', disconnect)
    await client.end().catch(() => {})
  }
}

export type WakeSignal = ReturnType<typeof createWakeSignal>

/** Wakes one waiting loop. A notification without a waiter is remembered for the next `wait`, so none is lost. */
export function createWakeSignal() {
  let isNotified = false
  let wake = () => {}
  return {
    notify(): void {
      isNotified = true
      wake()
    },
    /** Returns after the next notification, or after `timeoutMs`. */
    async wait(timeoutMs: number): Promise<void> {
      if (!isNotified) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, timeoutMs)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
      isNotified = false
    },
  }
}

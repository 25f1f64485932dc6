import type { ServerEvent } from './endpoint.ts'

const HEARTBEAT_MS = 15_000
const encoder = new TextEncoder()

/** Builds the body of a `text/event-stream` response. Sends heartbeats, so that proxies keep the connection open. */
export function eventStream(
  events: AsyncIterable<ServerEvent>,
  heartbeatMs = HEARTBEAT_MS,
): ReadableStream<Uint8Array> {
  const source = events[Symbol.asyncIterator]()
  let beat: NodeJS.Timeout | undefined
  return new ReadableStream({
    start(controller) {
      beat = setInterval(() => controller.enqueue(encoder.encode(': still here\n\n')), heartbeatMs)
    },
    async pull(controller) {
      try {
        const { done, value } = await source.next()
        if (!done) return controller.enqueue(encoder.encode(formatEvent(value)))
        clearInterval(beat)
        controller.close()
      } catch (error) {
        clearInterval(beat)
        controller.error(error)
      }
    },
    cancel() {
      clearInterval(beat)
      void source.return?.() // takes effect at its next event
    },
  })
}

/** JSON contains no line breaks, so each event is one line of data. */
const formatEvent = ({ id, event, data }: ServerEvent): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

/**
 * Runs work that reports progress and yields `progress` events as fast as the reader consumes them, then the event that
 * the work returned. A slow reader gets only the newest progress.
 */
export async function* progressEvents(
  work: (onProgress: (data: unknown) => void) => Promise<ServerEvent>,
): AsyncGenerator<ServerEvent> {
  let latest: { data: unknown } | undefined
  let changed = Promise.withResolvers<void>()
  let last: ServerEvent | undefined
  const onProgress = (data: unknown): void => {
    latest = { data }
    changed.resolve()
  }
  const ending = work(onProgress).then((event) => {
    last = event
    changed.resolve()
  })
  ending.catch(changed.reject)
  while (last === undefined) {
    await changed.promise
    changed = Promise.withResolvers()
    if (latest) yield { event: 'progress', data: latest.data }
    latest = undefined
  }
  yield last
}

import type { ServerEvent } from './endpoint.ts'

const HEARTBEAT_MS = 15_000
const encoder = new TextEncoder()

/** A body for `text/event-stream`. Silence is filled, so that proxies keep the line open. */
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
        if (!done) return controller.enqueue(encoder.encode(textOf(value)))
        clearInterval(beat)
        controller.close()
      } catch (error) {
        clearInterval(beat)
        controller.error(error)
      }
    },
    cancel() {
      clearInterval(beat)
      void source.return?.() // at its next event: it may be waiting for one
    },
  })
}

/** JSON has no line breaks of its own, so each event is one line of data. */
const textOf = ({ id, event, data }: ServerEvent): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

/**
 * Work that tells how far it is, as events: `progress`, as often as the reader keeps up, and at the end what the work
 * returned. Only the newest progress is kept for a slow reader.
 */
export async function* progressEvents(
  work: (onProgress: (data: unknown) => void) => Promise<ServerEvent>,
): AsyncGenerator<ServerEvent> {
  let latest: { data: unknown } | undefined
  let news = Promise.withResolvers<void>()
  let last: ServerEvent | undefined
  const tell = (data: unknown): void => {
    latest = { data }
    news.resolve()
  }
  const ending = work(tell).then((event) => {
    last = event
    news.resolve()
  })
  ending.catch(news.reject)
  while (last === undefined) {
    await news.promise
    news = Promise.withResolvers()
    if (latest) yield { event: 'progress', data: latest.data }
    latest = undefined
  }
  yield last
}

/** A server-sent event. `data` is parsed JSON. */
export type ServerSentEvent = { event: string; data: unknown; id: string | undefined }

/** Maximum length of an event, so that an endless one does not take all memory. */
const EVENT_LENGTH_MAX = 16 * 1024 * 1024

/**
 * Yields the events of a response as they arrive, until it ends or the connection is lost. Comments, which keep the
 * connection open, are skipped.
 */
export async function* readServerSentEvents(
  { body }: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<ServerSentEvent> {
  if (!body) return
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const blocks = `${rest}${read.value}`.split(/\r?\n\r?\n/)
      rest = requireShort(blocks.pop() ?? '')
      for (const block of blocks) yield* parseBlock(block)
    }
  } catch (error) {
    // Fetch reports a lost connection as a TypeError.
    if (!signal?.aborted && !(error instanceof TypeError)) throw error
  } finally {
    await reader.cancel().catch(() => {})
  }
}

function requireShort(text: string): string {
  if (text.length <= EVENT_LENGTH_MAX) return text
  throw new Error('The service sent an event that is too large.')
}

function* parseBlock(block: string): Generator<ServerSentEvent> {
  const lines = block.split(/\r?\n/)
  const field = (name: string): string[] =>
    lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, ''))
  const data = field('data')
  if (data.length === 0) return
  yield { event: field('event').at(-1) ?? 'message', data: JSON.parse(data.join('\n')), id: field('id').at(-1) }
}

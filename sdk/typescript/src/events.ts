/** A server-sent event. `data` is parsed JSON. */
export type ServerSentEvent = { event: string; data: unknown; id: string | undefined }

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
      rest = blocks.pop() ?? ''
      for (const block of blocks) yield* parseBlock(block)
    }
  } catch (error) {
    // Fetch reports a lost connection as a TypeError.
    if (!signal?.aborted && !(error instanceof TypeError)) throw error
  } finally {
    await reader.cancel().catch(() => {})
  }
}

function* parseBlock(block: string): Generator<ServerSentEvent> {
  const lines = block.split(/\r?\n/)
  const field = (name: string): string[] =>
    lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, ''))
  const data = field('data')
  if (data.length === 0) return
  yield { event: field('event').at(-1) ?? 'message', data: JSON.parse(data.join('\n')), id: field('id').at(-1) }
}

/** Server-sent events as they arrive. Comments, which only keep the line open, are passed over. */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<{ event: string; data: string; id: string | undefined }> {
  let text = ''
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    text += chunk
    const blocks = text.split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const fields = new Map(block.split('\n').map(field))
      const data = fields.get('data')
      if (data !== undefined) yield { event: fields.get('event') ?? 'message', data, id: fields.get('id') }
    }
  }
}

function field(line: string): [string, string] {
  const at = line.indexOf(':')
  return at === -1 ? [line, ''] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, '')]
}

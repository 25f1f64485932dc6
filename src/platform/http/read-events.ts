import { EventSourceParserStream } from 'eventsource-parser/stream'

type RawEvent = { event: string; data: string; id: string | undefined }

/** Yields server-sent events as they arrive. Comments, which only keep the connection open, are skipped. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<RawEvent> {
  const events = body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())
  for await (const { event = 'message', data, id } of events) yield { event, data, id }
}

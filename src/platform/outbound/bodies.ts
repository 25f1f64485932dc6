import { ReadableStream } from 'node:stream/web'

export type SentBody = Uint8Array<ArrayBuffer> | AsyncIterable<Uint8Array> | undefined

/**
 * Encodes a body as bytes where possible: bytes can be sent again after a redirect, and undici does not know Node's own
 * FormData. The content type is the one that the body implies, such as the boundary of a form.
 */
export async function encodeBody(
  body: RequestInit['body'],
): Promise<{ content: SentBody; contentType: string | undefined }> {
  if (body === undefined || body === null) return { content: undefined, contentType: undefined }
  if (isStream(body)) return { content: body, contentType: undefined }
  const encoded = new Response(body)
  const content = new Uint8Array(await encoded.arrayBuffer())
  return { content, contentType: encoded.headers.get('content-type') ?? undefined }
}

export function isStream(body: unknown): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body
}

type BodyLimits = {
  bytesMax: number
  tooLarge: () => Error
  /** Converts a connection error. */
  explain: (error: unknown) => unknown
  onEnd: () => void
}

/** Limits the decompressed size, so that a small body that unpacks to gigabytes is stopped too. */
export function limitBody(body: ReadableStream<Uint8Array>, limits: BodyLimits): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let bytes = 0
  const next = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    const { done, value } = await reader.read()
    if (done) return end(controller)
    bytes += value.byteLength
    if (bytes > limits.bytesMax) throw limits.tooLarge()
    controller.enqueue(value)
  }
  const end = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    limits.onEnd()
    controller.close()
  }
  const stop = async (reason: unknown) => {
    limits.onEnd()
    await reader.cancel(reason).catch(() => undefined) // the reader may have failed already
  }
  return new ReadableStream<Uint8Array>(
    {
      pull: (controller) =>
        next(controller).catch(async (error: unknown) => {
          await stop(error)
          throw limits.explain(error)
        }),
      cancel: stop,
    },
    { highWaterMark: 0 },
  )
}

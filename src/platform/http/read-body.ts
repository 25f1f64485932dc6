import { Problem, requestTimeout } from '../problem.ts'

/** Maximum time for a whole body, or for the wait between two chunks of it. */
export type BodyDeadline = { ms: number; per: 'body' | 'chunk' }

/** Yields the chunks of a request's body. Throws 408 at the deadline, so that a stalled client holds nothing for long. */
export async function* readBody(body: Request['body'], { ms, per }: BodyDeadline): AsyncGenerator<Uint8Array> {
  if (!body) return
  const reader = body.getReader()
  const late = Promise.withResolvers<never>()
  late.promise.catch(() => {})
  const timer = setTimeout(() => late.reject(timedOut(ms)), ms)
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), late.promise])
      if (done) return
      if (per === 'chunk') timer.refresh()
      yield value
    }
  } finally {
    clearTimeout(timer)
    reader.cancel().catch(() => {})
  }
}

const timedOut = (ms: number): Problem =>
  new Problem(requestTimeout, `The request body did not arrive within ${ms / 1000} s.`, {
    headers: { connection: 'close' },
  })

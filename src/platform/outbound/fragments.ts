import type { Dispatcher } from 'undici'

/** Maximum number of responses such as 103 (Early Hints) before the real one. */
const INFORMATIONAL_MAX = 20
/** Number of small chunks that a response may always have. */
const CHUNKS_FREE = 1_000
/** Beyond them, chunks must have this size on average. */
const CHUNK_BYTES_MIN = 16

/**
 * Ends responses that consist of unusually many parts. Each part costs processor time on the event loop, however few
 * bytes it has, so a limit of bytes does not stop a server that sends a million of them per second.
 */
export const limitFragments: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
  dispatch(options, limitHandler(handler))

/** Counts the parts of one response. Both methods return false once there are unusually many. */
export function createFragmentCounter() {
  let informational = 0
  let chunksLeft = CHUNKS_FREE
  return {
    countInformational(): boolean {
      informational += 1
      return informational <= INFORMATIONAL_MAX
    },
    countChunk({ length }: Uint8Array): boolean {
      chunksLeft += length / CHUNK_BYTES_MIN - 1
      return chunksLeft >= 0
    },
  }
}

function limitHandler(handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler {
  const counter = createFragmentCounter()
  return {
    onRequestStart: (...args) => handler.onRequestStart?.(...args),
    onRequestUpgrade: (...args) => handler.onRequestUpgrade?.(...args),
    onBodySent: (...args) => handler.onBodySent?.(...args),
    onRequestSent: () => handler.onRequestSent?.(),
    onResponseStarted: () => handler.onResponseStarted?.(),
    onResponseStart: (controller, status, ...rest) => {
      if (status < 200 && !counter.countInformational()) return controller.abort(new TooManyFragments())
      return handler.onResponseStart?.(controller, status, ...rest)
    },
    onResponseData: (controller, chunk) => {
      if (!counter.countChunk(chunk)) return controller.abort(new TooManyFragments())
      return handler.onResponseData?.(controller, chunk)
    },
    onResponseEnd: (...args) => handler.onResponseEnd?.(...args),
    onResponseError: (...args) => handler.onResponseError?.(...args),
  }
}

export class TooManyFragments extends Error {
  override name = 'TooManyFragments'
  readonly code = 'TOO_MANY_FRAGMENTS'

  constructor() {
    super('The server sent its response in too many parts.')
  }
}

import { useEffect, useEffectEvent, useState } from 'react'
import { type Api, type ApiInput, type EventEndpoint, isRetryable } from './api.ts'
import { useApi } from './use-api.ts'

export type StreamState = 'connecting' | 'live' | 'lost' | 'ended' | 'failed'

type StreamOptions = {
  onEvent: (event: string, data: unknown) => void
  /** Called after a lost connection was restored, before its first event. Read the page's data again here. */
  onRestored?: () => void
  enabled?: boolean
}

const RETRY_FIRST_MS = 500
const RETRY_MAX_MS = 8000

/**
 * Follows an event stream while the component is shown. Reconnects with the last event id without a limit, and
 * stops after the event `end`.
 */
export function useEvents<const E extends EventEndpoint>(
  endpoint: E,
  input: ApiInput<E>,
  { onEvent, onRestored, enabled = true }: StreamOptions,
): StreamState {
  const api = useApi()
  const [state, setState] = useState<StreamState>('connecting')
  const emit = useEffectEvent(onEvent)
  const restore = useEffectEvent(() => onRestored?.())
  const target = JSON.stringify([endpoint.id, input])

  // biome-ignore lint/correctness/useExhaustiveDependencies: `target` stands for the endpoint and its input
  useEffect(() => {
    if (!enabled) return
    const abort = new AbortController()
    void followStream(api, { endpoint, input, signal: abort.signal, emit, restore, setState })
    return () => abort.abort()
  }, [api, target, enabled])
  return state
}

type StreamSubscription<E extends EventEndpoint> = {
  endpoint: E
  input: ApiInput<E>
  signal: AbortSignal
  emit: (event: string, data: unknown) => void
  restore: () => void
  setState: (state: StreamState) => void
}

async function followStream<E extends EventEndpoint>(api: Api, subscription: StreamSubscription<E>): Promise<void> {
  const { signal, setState } = subscription
  const progress: StreamProgress = { lastId: undefined, isLost: false }
  for (let waitMs = RETRY_FIRST_MS; !signal.aborted; waitMs = Math.min(RETRY_MAX_MS, waitMs * 2)) {
    const outcome = await readStream(api, subscription, progress)
    if (signal.aborted) return
    if (outcome.kind !== 'lost') return setState(outcome.kind)
    if (outcome.received > 0) waitMs = RETRY_FIRST_MS
    progress.isLost = true
    setState('lost')
    await waitForRetry(waitMs * (0.75 + Math.random() / 2), signal)
  }
}

type StreamProgress = { lastId: string | undefined; isLost: boolean }
type StreamOutcome = { kind: 'ended' | 'failed' } | { kind: 'lost'; received: number }

async function readStream<E extends EventEndpoint>(
  api: Api,
  { endpoint, input, signal, emit, restore, setState }: StreamSubscription<E>,
  progress: StreamProgress,
): Promise<StreamOutcome> {
  let received = 0
  const onFirst = () => {
    setState('live')
    if (progress.isLost) restore()
    progress.isLost = false
  }
  try {
    for await (const { event, data, id } of api.stream(endpoint, input, { signal, lastId: progress.lastId })) {
      if (received++ === 0) onFirst()
      progress.lastId = id ?? progress.lastId
      emit(event, data)
      if (event === 'end') return { kind: 'ended' }
    }
    return { kind: 'lost', received }
  } catch (error) {
    return isRetryable(error) ? { kind: 'lost', received } : { kind: 'failed' }
  }
}

/** Waits, but no longer than until the browser is online again or the signal is aborted. */
function waitForRetry(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    function done() {
      clearTimeout(timer)
      removeEventListener('online', done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    addEventListener('online', done)
    signal.addEventListener('abort', done)
  })
}

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

/** Varies a delay by up to 25 %, so that the browsers of a restarted service do not all reconnect at once. */
const addJitter = (delayMs: number): number => delayMs * (0.75 + Math.random() / 2)

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
  const streamKey = JSON.stringify([endpoint.id, input])

  // biome-ignore lint/correctness/useExhaustiveDependencies: `streamKey` stands for the endpoint and its input
  useEffect(() => {
    if (!enabled) return
    const abort = new AbortController()
    void followStream(api, { endpoint, input, signal: abort.signal, emit, restore, setState })
    return () => abort.abort()
  }, [api, streamKey, enabled])
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
  const progress: StreamProgress = { lastId: undefined, isReconnecting: false }
  for (let waitMs = RETRY_FIRST_MS; !signal.aborted; waitMs = Math.min(RETRY_MAX_MS, waitMs * 2)) {
    const outcome = await readStream(api, subscription, progress)
    if (signal.aborted) return
    if (outcome.kind !== 'lost') return setState(outcome.kind)
    if (outcome.wasConnected) waitMs = RETRY_FIRST_MS
    progress.isReconnecting = true
    setState('lost')
    await waitForRetry(addJitter(waitMs), signal)
  }
}

/** State that outlives a connection. `lastId` is the id of the last received event. */
type StreamProgress = { lastId: string | undefined; isReconnecting: boolean }
/** End of one connection. `wasConnected` is true if at least one event arrived. */
type StreamOutcome = { kind: 'ended' | 'failed' } | { kind: 'lost'; wasConnected: boolean }

async function readStream<E extends EventEndpoint>(
  api: Api,
  { endpoint, input, signal, emit, restore, setState }: StreamSubscription<E>,
  progress: StreamProgress,
): Promise<StreamOutcome> {
  let isConnected = false
  const onFirstEvent = () => {
    isConnected = true
    setState('live')
    if (progress.isReconnecting) restore()
    progress.isReconnecting = false
  }
  try {
    for await (const { event, data, id } of api.stream(endpoint, input, { signal, lastId: progress.lastId })) {
      if (!isConnected) onFirstEvent()
      progress.lastId = id ?? progress.lastId
      emit(event, data)
      if (event === 'end') return { kind: 'ended' }
    }
    return { kind: 'lost', wasConnected: isConnected }
  } catch (error) {
    return isRetryable(error) ? { kind: 'lost', wasConnected: isConnected } : { kind: 'failed' }
  }
}

/** Waits for a time, or until the browser is online again or the signal is aborted. */
function waitForRetry(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, delayMs)
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

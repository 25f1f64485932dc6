import type { GatewayOptions } from './options.ts'

/**
 * Reason for aborting a call. `answer`: it was too long. `flood`: it had too many events, or too many that are not JSON.
 * `drain`: the client has left. `stop`: the gateway is stopping.
 */
type AbortReason = 'headers' | 'idle' | 'time' | 'drain' | 'answer' | 'flood' | 'stop'

/** The timeouts of one call behind one abort signal. */
export type CallTimeouts = {
  signal: AbortSignal
  reason(): AbortReason | undefined
  abort(reason: AbortReason): void
  /** Starts the timeout for the response headers. */
  onSent(): void
  /** Restarts the idle timeout. */
  onData(): void
  onClientLeft(): void
  stop(): void
}

export function startTimeouts(
  options: Pick<GatewayOptions, 'headersMs' | 'idleMs' | 'callMs' | 'drainMs'>,
): CallTimeouts {
  const controller = new AbortController()
  let reason: AbortReason | undefined
  const abort = (why: AbortReason) => {
    reason ??= why
    controller.abort(new Error(`The call was aborted: ${reason}.`))
  }
  const abortAfter = (why: AbortReason, ms: number) => setTimeout(() => abort(why), ms)
  const total = abortAfter('time', options.callMs)
  let silence: NodeJS.Timeout | undefined
  let drain: NodeJS.Timeout | undefined
  let isReceiving = false
  let isStopped = false
  return {
    signal: controller.signal,
    reason: () => reason,
    abort,
    onSent() {
      clearTimeout(silence)
      isReceiving = false
      silence = abortAfter('headers', options.headersMs)
    },
    onData() {
      if (isReceiving) return void silence?.refresh()
      isReceiving = true
      clearTimeout(silence)
      silence = abortAfter('idle', options.idleMs)
    },
    onClientLeft() {
      // A client also disconnects after every finished call.
      if (!isStopped) drain ??= abortAfter('drain', options.drainMs)
    },
    stop() {
      isStopped = true
      for (const timer of [total, silence, drain]) clearTimeout(timer)
    },
  }
}

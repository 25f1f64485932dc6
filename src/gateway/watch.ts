import type { GatewayOptions } from './options.ts'

/** Reason for breaking off a call. `answer`: it was too long. `flood`: it had too many events, or was no JSON. */
type BrokenOff = 'headers' | 'idle' | 'time' | 'drain' | 'answer' | 'flood' | 'stop'

/** The clocks of one call, behind one signal. */
export type Watch = {
  signal: AbortSignal
  reason(): BrokenOff | undefined
  breakOff(reason: BrokenOff): void
  /** Waits for the beginning of an answer from now. */
  sent(): void
  /** Something came: it may be silent for a while again. */
  heard(): void
  clientLeft(): void
  clear(): void
}

export function startWatch(options: Pick<GatewayOptions, 'headersMs' | 'idleMs' | 'callMs' | 'drainMs'>): Watch {
  const controller = new AbortController()
  let reason: BrokenOff | undefined
  const breakOff = (why: BrokenOff) => {
    reason ??= why
    controller.abort(new Error(`The call was broken off: ${reason}.`))
  }
  const after = (why: BrokenOff, ms: number) => setTimeout(() => breakOff(why), ms)
  const whole = after('time', options.callMs)
  let silence: NodeJS.Timeout | undefined
  let drain: NodeJS.Timeout | undefined
  let isHearing = false
  let isOver = false
  return {
    signal: controller.signal,
    reason: () => reason,
    breakOff,
    sent() {
      clearTimeout(silence)
      isHearing = false
      silence = after('headers', options.headersMs)
    },
    heard() {
      if (isHearing) return void silence?.refresh()
      isHearing = true
      clearTimeout(silence)
      silence = after('idle', options.idleMs)
    },
    clientLeft() {
      // A client leaves in the end of every call, too.
      if (!isOver) drain ??= after('drain', options.drainMs)
    },
    clear() {
      isOver = true
      for (const timer of [whole, silence, drain]) clearTimeout(timer)
    },
  }
}

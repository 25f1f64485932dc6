export type Deadline = { signal: AbortSignal; clear: () => void }

/** Ends with the caller's own signal too, and then for the caller's reason. */
export function startDeadline(timeoutMs: number, expired: () => Error, caller: AbortSignal | undefined): Deadline {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(expired()), timeoutMs)
  timer.unref()
  const signal = caller ? AbortSignal.any([late.signal, caller]) : late.signal
  return { signal, clear: () => clearTimeout(timer) }
}

/** For work that cannot be cancelled, such as a name look-up in the operating system. */
export async function before<Result>({ signal }: Pick<Deadline, 'signal'>, work: Promise<Result>): Promise<Result> {
  signal.throwIfAborted()
  const ended = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  return Promise.race([work, ended])
}

export type Deadline = { signal: AbortSignal; clear: () => void }

/** Starts a deadline. Also aborts with the caller's signal, for the caller's reason. */
export function startDeadline(timeoutMs: number, expired: () => Error, caller: AbortSignal | undefined): Deadline {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(expired()), timeoutMs)
  timer.unref()
  const signal = caller ? AbortSignal.any([late.signal, caller]) : late.signal
  return { signal, clear: () => clearTimeout(timer) }
}

/** Stops waiting at the deadline, for work that cannot be canceled, such as a name lookup. */
export async function withinDeadline<Result>(
  { signal }: Pick<Deadline, 'signal'>,
  work: Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted()
  const ended = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  return Promise.race([work, ended])
}

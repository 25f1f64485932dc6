/** Runs work when a slot is free. Waiting work starts in the order of its arrival. */
export type ConcurrencyLimit = <Result>(work: () => Promise<Result>) => Promise<Result>

/** Creates a limit on the work that is in progress at once in this process. */
export function createConcurrencyLimit(max: number): ConcurrencyLimit {
  const waiting: (() => void)[] = []
  let free = max
  return async (work) => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else free += 1
    }
  }
}

/** Wraps work so that calls during a run share the result of that run instead of starting another. */
export function shareRuns<Result>(work: () => Promise<Result>): () => Promise<Result> {
  let running: Promise<Result> | undefined
  return () => {
    running ??= work().finally(() => {
      running = undefined
    })
    return running
  }
}

/** Wraps work that runs at most once: all calls share its result. */
export function runOnce<Result>(work: () => Promise<Result>): () => Promise<Result> {
  let result: Promise<Result> | undefined
  return () => {
    result ??= work()
    return result
  }
}

/** Wraps work so that all calls share its first success. The next call after a failure starts it again. */
export function shareSuccess<Result>(work: () => Promise<Result>): () => Promise<Result> {
  const results = new Map<'only', Promise<Result>>()
  return () => shareSuccessByKey(results, 'only', work)
}

/** Returns the result of a key, or starts the work that produces it. Failures are removed. */
export function shareSuccessByKey<Key, Result>(
  results: Map<Key, Promise<Result>>,
  key: Key,
  work: () => Promise<Result>,
): Promise<Result> {
  const known = results.get(key)
  if (known) return known
  const started = work()
  results.set(key, started)
  started.catch(() => results.delete(key))
  return started
}

/** Runs `work` on all items, `concurrency` at a time. The first failure aborts the others and is thrown when they have ended. */
export async function runInParallel<Item>(
  items: readonly Item[],
  concurrency: number,
  signal: AbortSignal,
  work: (item: Item, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController()
  const combined = AbortSignal.any([signal, failed.signal])
  const queue = items.values()
  const worker = async (): Promise<void> => {
    for (const item of queue) {
      combined.throwIfAborted()
      await work(item, combined)
    }
  }
  const abortingWorker = () =>
    worker().catch((error: unknown) => {
      failed.abort(error)
      throw error
    })
  await Promise.allSettled(Array.from({ length: Math.max(1, concurrency) }, abortingWorker))
  signal.throwIfAborted()
  if (failed.signal.aborted) throw failed.signal.reason
}

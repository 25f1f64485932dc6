/** Runs `work` on all items, `concurrency` at a time. The first failure aborts the others and is thrown after they ended. */
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

/** A few at a time. The first failure stops the others, is waited for by all, and is thrown. */
export async function inParallel<Item>(
  items: readonly Item[],
  width: number,
  signal: AbortSignal,
  work: (item: Item, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController()
  const both = AbortSignal.any([signal, failed.signal])
  const queue = items.values()
  const worker = async (): Promise<void> => {
    for (const item of queue) {
      both.throwIfAborted()
      await work(item, both)
    }
  }
  const stopping = () =>
    worker().catch((error: unknown) => {
      failed.abort(error)
      throw error
    })
  await Promise.allSettled(Array.from({ length: Math.max(1, width) }, stopping))
  signal.throwIfAborted()
  if (failed.signal.aborted) throw failed.signal.reason
}

/** A stream of which some may be seen before they are taken. */
export type LookAhead<Item> = AsyncDisposable & {
  next(): Promise<Item | undefined>
  peek(count: number): Promise<Item[]>
  take(count: number): Promise<Item[]>
}

export function lookAhead<Item>(stream: AsyncIterable<Item>): LookAhead<Item> {
  const iterator = stream[Symbol.asyncIterator]()
  const held: Item[] = []
  async function peek(count: number): Promise<Item[]> {
    while (held.length < count) {
      const { done, value } = await iterator.next()
      if (done) break
      held.push(value)
    }
    return held.slice(0, count)
  }
  const take = async (count: number): Promise<Item[]> => {
    await peek(count)
    return held.splice(0, count)
  }
  return {
    ...{ peek, take, next: async () => (await take(1))[0] },
    [Symbol.asyncDispose]: async () => void (await iterator.return?.()),
  }
}

import { expect, test } from 'vitest'
import { runOnce, shareRuns, shareSuccess, shareSuccessByKey } from './concurrency.ts'

test('callers that ask while work runs share its result, and later ones run it again', async () => {
  const release = Promise.withResolvers<void>()
  let runs = 0
  const count = shareRuns(async () => {
    runs += 1
    await release.promise
    return runs
  })
  const shared = [count(), count(), count()]
  release.resolve()
  expect(await Promise.all(shared)).toEqual([1, 1, 1])
  expect(await count()).toBe(2)
})

test('work that failed is run again', async () => {
  let isBroken = true
  const work = shareRuns(async () => {
    if (isBroken) throw new Error('broken')
    return 'works'
  })
  await expect(work()).rejects.toThrow('broken')
  isBroken = false
  expect(await work()).toBe('works')
})

test('work that runs once is not repeated, even after a failure', async () => {
  let runs = 0
  const work = runOnce(async () => {
    runs += 1
    throw new Error('broken')
  })
  await expect(work()).rejects.toThrow('broken')
  await expect(work()).rejects.toThrow('broken')
  expect(runs).toBe(1)
})

test('a shared success is kept, and a failure is not', async () => {
  let runs = 0
  const work = shareSuccess(async () => {
    runs += 1
    if (runs === 1) throw new Error('broken')
    return runs
  })
  await expect(Promise.all([work(), work()])).rejects.toThrow('broken')
  expect(await Promise.all([work(), work()])).toEqual([2, 2])
  expect(await work()).toBe(2)
})

test('each key has its own shared success', async () => {
  const results = new Map<string, Promise<string>>()
  const read = (key: string, value: string) => shareSuccessByKey(results, key, async () => value)
  expect(await Promise.all([read('a', 'first'), read('a', 'second'), read('b', 'third')])).toEqual([
    'first',
    'first',
    'third',
  ])
})

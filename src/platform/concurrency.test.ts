import { expect, test } from 'vitest'
import { shareRuns } from './concurrency.ts'

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

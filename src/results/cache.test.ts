import { expect, test } from 'vitest'
import { createResultsCache } from './cache.ts'

const MEMORY = 128 * 1024 * 1024
/** What an entry takes at least, however little it answers: measured at 2.2 KB, and its targets. */
const ENTRY_LEAST = 4096

async function ask(cache: ReturnType<typeof createResultsCache>, key: string, target: string) {
  await cache.read(key, undefined, async () => '{"results":[]}')
  cache.remember(target, { operation: 'listResults', key })
  return cache.find(target, 'identity')
}

test('many distinct requests without results stay within the memory limit', async () => {
  const cache = createResultsCache()
  cache.activate()
  const targets = Array.from({ length: 50_000 }, (_, n) => `/api/public/results?q=${n}`)
  for (const target of targets) expect(await ask(cache, target, target)).toBeDefined()
  const kept = targets.filter((target) => cache.find(target, 'identity'))
  expect(kept.length).toBeLessThan(MEMORY / ENTRY_LEAST)
  expect(kept.at(-1)).toBe(targets.at(-1))
})

test('targets that are too long are answered but not remembered', async () => {
  const cache = createResultsCache()
  cache.activate()
  expect(await ask(cache, 'a', `/api/public/results?q=a&more=${'x'.repeat(1000)}`)).toBeUndefined()
  expect(await ask(cache, 'a', '/api/public/results?q=a')).toBeDefined()
})

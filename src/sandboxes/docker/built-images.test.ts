import { mkdtemp, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Image } from '../sandbox.ts'
import { evictImages, orderForEviction, recordUse } from './built-images.ts'
import type { DockerEngine } from './engine.ts'

const HOUR = 3_600_000
const use = (digest: string, hoursAgo: number, isShared = false) => ({ digest, isShared, usedAt: -hoursAgo * HOUR })

test('evicts the least recently used image first, and shared ones after all others', () => {
  const uses = [use('shared', 90, true), use('old', 50), use('older', 60), use('shared too', 80, true)]
  expect(orderForEviction(uses, 0).map(({ digest }) => digest)).toEqual(['older', 'old', 'shared', 'shared too'])
})

test('does not evict an image that was used within the last hour', () => {
  expect(orderForEviction([use('recent', 0.9), use('old', 1.1)], 0).map(({ digest }) => digest)).toEqual(['old'])
})

test('does not log the eviction of an image that has another name and stays', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'assay-images-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const digest = `sha256:${'0'.repeat(64)}`
  await recordUse({ folder }, { digest } as Image, false)
  await utimes(join(folder, 'uses', digest.replace(':', '-')), 0, 0)
  const logged: string[] = []
  const add = (_fields: unknown, message: string) => logged.push(message)
  const call = async (_method: string, path: string) =>
    path === '/system/df' ? { LayersSize: 2 } : { RepoTags: ['another/name:1'] }
  const engine = { docker: { call }, folder, imageDiskBytes: 1, log: { info: add, warn: add } }
  await evictImages(engine as unknown as DockerEngine)
  expect(logged).toEqual(['images exceed their disk limit, and none can be evicted'])
})

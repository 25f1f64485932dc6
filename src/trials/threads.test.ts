import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { archiveThreads } from './threads.ts'

test('archives of one workspace that take long do not delay those of another', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'archives-'))
  const ended = Promise.withResolvers<undefined>()
  async function* readNothing() {
    await ended.promise
    yield Buffer.alloc(1024)
  }
  const spool = (group: string, name: string, source = readNothing) =>
    archiveThreads.run('spoolArtifact', { file: join(folder, name), exclude: [] }, { group, sources: [source] })
  const slow = Array.from({ length: 8 }, (_, index) => spool('slow', `slow-${index}`).catch(() => {}))
  const empty = async function* () {
    yield Buffer.alloc(1024)
  }
  expect(await spool('other', 'other', empty)).toMatchObject({ files: 0 })

  ended.resolve(undefined)
  await Promise.all(slow)
  await rm(folder, { recursive: true })
})

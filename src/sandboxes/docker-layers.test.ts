import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { processesNaming } from '../../test/support/sandboxes/processes.ts'
import { readLayers, writeToUpper } from './docker/layers.ts'

let folder: string
const layers = () => ({ upper: join(folder, 'upper'), lower: join(folder, 'lower') })

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-layers-'))
  for (const name of ['upper', 'lower']) await mkdir(join(folder, name))
})
afterAll(() => rm(folder, { recursive: true }))

test('an archive can be read after the process that wrote it has ended', async () => {
  const name = randomUUID()
  await writeFile(join(folder, 'upper', name), 'work')
  const read = await readLayers({ folder }, layers(), [name], async (tar) => {
    await vi.waitFor(async () => expect(await processesNaming(name)).toEqual([]), { timeout: 10_000 })
    return (await buffer(tar)).includes('work')
  })
  expect(read).toEqual({ kind: 'read', value: true })
})

test('distinguishes missing files from unreadable files', async () => {
  expect((await readLayers({ folder }, layers(), ['no', 'such'], buffer)).kind).toBe('not_found')
  expect((await readLayers({ folder }, { upper: '/no', lower: '/such' }, ['x'], buffer)).kind).toBe('failed')
})

test('writes a workspace whose files were all deleted', async () => {
  expect(await writeToUpper(layers(), Readable.from([]))).toBe(true)
})

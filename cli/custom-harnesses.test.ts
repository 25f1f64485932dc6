import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newKey } from '../src/workspaces/key.ts'
import { assay, type CommandResult, scratchFolder } from '../test/support/assay-command.ts'
import { type ServiceProcess, startService } from '../test/support/service.ts'

const key = newKey()
const folder = scratchFolder()
let service: ServiceProcess

beforeAll(async () => {
  service = await startService('serve', ['--data', join(folder.path, 'data'), '--port', '0'], {
    ASSAY_BOOTSTRAP_KEY: key,
  })
})
afterAll(async () => {
  await service.kill('SIGTERM')
  folder.remove()
})

const run = (...args: string[]): Promise<CommandResult> =>
  assay(['harnesses', ...args], { env: { ASSAY_URL: service.url, ASSAY_KEY: key } })

function written(name: string, over: object = {}): string {
  const description = {
    id: 'custom/house',
    name: 'House',
    version: '1',
    protocols: ['openai-chat'],
    levels: { low: 'low' },
    command: ['{bundle}/run'],
    ...over,
  }
  const path = join(folder.path, `${name}.json`)
  writeFileSync(path, JSON.stringify(description))
  return path
}

function program(): string {
  const place = join(folder.path, 'program')
  mkdirSync(join(place, '.git'), { recursive: true })
  writeFileSync(join(place, 'run'), '#!/bin/sh\n')
  writeFileSync(join(place, '.git/config'), '')
  return place
}

test('a harness is added with its program, listed, shown and removed', async () => {
  const description = written('house', { bundle: { probe: ['{bundle}/run'] } })
  const bundle = program()
  expect(await run('add', description, '--bundle', bundle)).toEqual({
    code: 0,
    out: 'custom/house\n',
    err: 'House 1 added.\n',
  })
  expect((await run('add', description, '--bundle', bundle)).err).toBe('House 1 already exists, unchanged.\n')
  expect((await run('list', '--own')).out).toMatch(/\ncustom\/house +House +1 +sha256:[0-9a-f]{12} +openai-chat +\d/)
  const shown = JSON.parse((await run('show', 'custom/house')).out)
  expect(shown).toMatchObject({
    version: '1',
    bundle: { digest: expect.stringMatching(/^sha256:/), probe: ['{bundle}/run'] },
  })
  expect(await run('remove', 'custom/house')).toMatchObject({ code: 0, err: 'Removed custom/house.\n' })
  expect(await run('remove', 'custom/house')).toMatchObject({ code: 1, out: '' })
  expect(await run('show', 'custom/house')).toMatchObject({ code: 1, out: '' })
})

test('shows built-in harnesses without a server', async () => {
  const { code, out } = await assay(['harnesses', 'show', 'pi', '--data', join(folder.path, 'other')])
  expect([code, JSON.parse(out)]).toEqual([0, expect.objectContaining({ id: 'pi', installed: false })])
  expect(await run('show', 'nobody')).toMatchObject({
    code: 2,
    err: expect.stringContaining('Unknown harness nobody'),
  })
})

test.each<[string, () => string[], string]>([
  ['no file', () => ['add', 'nowhere.json'], 'nowhere.json does not exist'],
  ['no program', () => ['add', written('a'), '--bundle', 'nowhere'], 'nowhere does not exist'],
  ['a field that is wrong', () => ['add', written('b', { command: [] })], 'command'],
  ['one of ours', () => ['remove', 'pi'], 'Only custom harnesses'],
])('%s is wrong use', async (_, args, message) => {
  expect(await run(...args())).toMatchObject({ code: 2, out: '', err: expect.stringContaining(message) })
})

import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { assay, scratchFolder } from '../test/support/assay-command.ts'

const scratch = scratchFolder()
afterAll(scratch.remove)
const file = join(scratch.path, 'deep', 'config.env')
const env = { ASSAY_CONFIG: file }

async function list(more: Record<string, string> = {}, ...flags: string[]) {
  const { out } = await assay(['config', 'list', '--json', ...flags], { env: { ...env, ...more } })
  const settings: { name: string; value: string | null; source: string }[] = JSON.parse(out).settings
  return Object.fromEntries(settings.map(({ name, value, source }) => [name, [value, source]]))
}

test('flags win over the environment, the environment over the file, the file over the default', async () => {
  expect((await list()).ASSAY_PORT).toEqual(['4000', 'default'])
  expect(await assay(['config', 'set', 'ASSAY_PORT', '4100'], { env })).toMatchObject({ code: 0 })
  expect((await list()).ASSAY_PORT).toEqual(['4100', 'file'])
  expect((await list({ ASSAY_PORT: '4200' })).ASSAY_PORT).toEqual(['4200', 'environment'])
  const flagged = await list({ ASSAY_DATA: '/from/environment' }, '--data', '/from/flag')
  expect(flagged.ASSAY_DATA).toEqual(['/from/flag', 'flag'])
  expect(await assay(['config', 'unset', 'ASSAY_PORT'], { env })).toMatchObject({ code: 0 })
  expect((await list()).ASSAY_PORT).toEqual(['4000', 'default'])
})

test('commands use the settings of the file', async () => {
  await assay(['config', 'set', 'ASSAY_URL', 'http://127.0.0.1:9'], { env })
  const { code, err } = await assay(['keys', 'list'], { env: { ...env, ASSAY_KEY: 'assay_x' } })
  expect({ code, err }).toEqual({ code: 3, err: expect.stringContaining('127.0.0.1:9') })
})

test('a secret comes from standard input, is masked, and only its owner can read the file', async () => {
  const key = `assay_${'k'.repeat(34)}1234`
  expect(await assay(['config', 'set', 'ASSAY_KEY', key], { env })).toMatchObject({
    code: 2,
    err: expect.stringContaining('standard input'),
  })
  const { code, out, err } = await assay(['config', 'set', 'ASSAY_KEY'], { env, input: `${key}\n` })
  expect(code).toBe(0)
  expect(out + err).not.toContain(key)
  expect((await list()).ASSAY_KEY).toEqual(['…1234', 'file'])
  expect((await list({ DATABASE_URL: 'postgres://me:secret@db/x' })).DATABASE_URL).toEqual([
    'postgres://me:…@db/x',
    'environment',
  ])
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(readFileSync(file, 'utf8')).toContain(key)
})

test('wrong names and values are refused with a suggestion and change nothing', async () => {
  const before = readFileSync(file, 'utf8')
  const refused = (...args: string[]) => assay(['config', ...args], { env })
  expect(await refused('set', 'ASSAY_PROT', '1')).toMatchObject({ code: 2, err: expect.stringContaining('ASSAY_PORT') })
  expect(await refused('set', 'ASSAY_PORT', 'many')).toMatchObject({
    code: 2,
    err: expect.stringContaining('ASSAY_PORT'),
  })
  expect(await refused('unset', 'ASSAY_HOST')).toMatchObject({ code: 2 })
  expect(readFileSync(file, 'utf8')).toBe(before)
})

test('a value with spaces and quotes survives', async () => {
  const path = `/tmp/it's a "data" folder`
  await assay(['config', 'set', 'ASSAY_DATA', path], { env })
  expect((await list()).ASSAY_DATA).toEqual([path, 'file'])
})

test('an unreadable file is reported by its path', async () => {
  const folder = { ASSAY_CONFIG: scratch.path }
  writeFileSync(join(scratch.path, 'x'), '')
  expect(await assay(['keys', 'list'], { env: folder })).toMatchObject({
    code: 2,
    err: expect.stringContaining(scratch.path),
  })
})

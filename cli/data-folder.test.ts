import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { assay, scratchFolder } from '../test/support/assay-command.ts'

const scratch = scratchFolder()
afterAll(scratch.remove)

/** A folder as a clone has it: a data folder that somebody else has prepared. */
function clone(name: string, prepare: (data: string) => void): string {
  const folder = join(scratch.path, name)
  mkdirSync(join(folder, '.assay/postgres/data'), { recursive: true, mode: 0o700 })
  writeFileSync(join(folder, '.assay/postgres/data/postgresql.conf'), "restore_command = 'false'\n")
  prepare(join(folder, '.assay'))
  return folder
}

const FOREIGN = 'was not created by Assay on this machine'

test.for([
  ['migrate'],
  ['serve', '--port', '0'],
  ['trial', '.'],
  ['run', '.', '--model', 'anthropic/claude-sonnet-5'],
  ['harnesses', 'install', 'mini'],
  ['backup'],
])('assay %s refuses the data folder of a clone', async (args) => {
  const cwd = clone(`clone-${args[0]}`, () => {})
  writeFileSync(join(cwd, 'task.toml'), '')
  const { code, err } = await assay(args, { cwd })
  expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining(FOREIGN) })
})

test('refuses a folder with a copied mark', async () => {
  const own = join(scratch.path, 'own')
  mkdirSync(own)
  expect(await assay(['migrate'], { cwd: own })).toMatchObject({ code: 0 })
  expect(await assay(['migrate'], { cwd: own })).toMatchObject({ code: 0 })
  const cwd = clone('copied', (data) => cpSync(join(own, '.assay/created-here'), join(data, 'created-here')))
  const { code, err } = await assay(['migrate'], { cwd })
  expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining(FOREIGN) })
})

test('uses a folder that the user names, and later also by default', async () => {
  const cwd = join(scratch.path, 'moved')
  mkdirSync(cwd)
  expect(await assay(['migrate'], { cwd })).toMatchObject({ code: 0 })
  const copy = join(cwd, 'copy')
  mkdirSync(copy)
  expect(spawnSync('cp', ['-a', join(cwd, '.assay'), copy]).status).toBe(0)
  expect(await assay(['migrate'], { cwd: copy })).toMatchObject({ code: 2 })
  expect(await assay(['migrate', '--data', '.assay'], { cwd: copy })).toMatchObject({ code: 0 })
  expect(await assay(['migrate'], { cwd: copy })).toMatchObject({ code: 0 })
})

test('git ignores a data folder', async () => {
  const cwd = join(scratch.path, 'ignored')
  mkdirSync(cwd)
  expect(await assay(['migrate'], { cwd })).toMatchObject({ code: 0 })
  expect(readFileSync(join(cwd, '.assay/.gitignore'), 'utf8')).toBe('*\n')
})

test('read-only commands create no data folder', async () => {
  const cwd = join(scratch.path, 'looked')
  mkdirSync(cwd)
  await assay(['harnesses', 'list'], { cwd })
  expect(existsSync(join(cwd, '.assay'))).toBe(false)
})

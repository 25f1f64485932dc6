import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listAbandoned } from './record.ts'

test('deletes unfinished records of dead writers and keeps those of live writers', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-records-'))
  const { pid: dead } = spawnSync('true')
  const [gone, kept] = [`one.${dead}.draft`, `two.${process.pid}.draft`]
  for (const name of [gone, kept]) writeFileSync(join(folder, name), '{')
  expect(await listAbandoned(folder)).toEqual([])
  expect(readdirSync(folder)).toEqual([kept])
  rmSync(folder, { recursive: true })
})

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeProgramNeeds } from './program-needs.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'assay-needs-'))
  mkdirSync(join(folder, 'bundle/folder'), { recursive: true })
  mkdirSync(join(folder, 'bundle-beside'))
  writeFileSync(join(folder, 'bundle/run'), '#!/bin/inside\n')
  for (const outside of ['outside', 'bundle-beside/run']) writeFileSync(join(folder, outside), '#!/bin/outside\n')
  symlinkSync('../run', join(folder, 'bundle/folder/within'))
  symlinkSync('../outside', join(folder, 'bundle/out'))
  symlinkSync('..', join(folder, 'bundle/up'))
  execFileSync('mkfifo', [join(folder, 'bundle/pipe')])
})
afterAll(() => rmSync(folder, { recursive: true }))

test.each([
  ['run', 'It needs /bin/inside in the image.'],
  ['folder/within', 'It needs /bin/inside in the image.'],
  ['folder/../run', 'It needs /bin/inside in the image.'],
  ['out', 'The bundle does not contain this file.'],
  ['up/outside', 'The bundle does not contain this file.'],
  ['../outside', 'The bundle does not contain this file.'],
  ['../bundle-beside/run', 'The bundle does not contain this file.'],
  ['folder', 'The bundle does not contain this file.'],
  ['pipe', 'The bundle does not contain this file.'],
  ['', 'The bundle does not contain this file.'],
])('describes %s, reading only regular files inside the bundle and never blocking', async (program, needs) => {
  expect(await describeProgramNeeds(join(folder, 'bundle'), program)).toBe(needs)
})

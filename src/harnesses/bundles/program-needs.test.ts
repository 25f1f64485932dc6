import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { programNeeds } from './program-needs.ts'

let place: string
beforeAll(() => {
  place = mkdtempSync(join(tmpdir(), 'assay-needs-'))
  mkdirSync(join(place, 'bundle/folder'), { recursive: true })
  mkdirSync(join(place, 'bundle-beside'))
  writeFileSync(join(place, 'bundle/run'), '#!/bin/inside\n')
  for (const outside of ['outside', 'bundle-beside/run']) writeFileSync(join(place, outside), '#!/bin/outside\n')
  symlinkSync('../run', join(place, 'bundle/folder/within'))
  symlinkSync('../outside', join(place, 'bundle/out'))
  symlinkSync('..', join(place, 'bundle/up'))
  execFileSync('mkfifo', [join(place, 'bundle/pipe')])
})
afterAll(() => rmSync(place, { recursive: true }))

test.each([
  ['run', 'It needs /bin/inside in the image.'],
  ['folder/within', 'It needs /bin/inside in the image.'],
  ['folder/../run', 'It needs /bin/inside in the image.'],
  ['out', 'There is no such file in the bundle.'],
  ['up/outside', 'There is no such file in the bundle.'],
  ['../outside', 'There is no such file in the bundle.'],
  ['../bundle-beside/run', 'There is no such file in the bundle.'],
  ['folder', 'There is no such file in the bundle.'],
  ['pipe', 'There is no such file in the bundle.'],
  ['', 'There is no such file in the bundle.'],
])('%s: only plain files of the bundle are read, and nobody waits', async (program, needs) => {
  expect(await programNeeds(join(place, 'bundle'), program)).toBe(needs)
})

import { execFileSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { unpack } from './archive.ts'
import { inFolder } from './folder-source.ts'
import { pack } from './pack.ts'
import { readTask } from './read-task.ts'
import { inMemory } from './source.ts'
import { type Files, temporaryFolder, writeFiles } from './testing/folders.ts'
import { SMALL_TASK } from './testing/small-task.ts'
import { streamOf } from './testing/unpacking.ts'

const FILES: Files = {
  ...SMALL_TASK,
  'tests/test.sh': { content: '#!/bin/sh\n', executable: true },
  [`environment/${'long/'.repeat(30)}name`]: 'x',
  'environment/ünï/😀': 'y',
  'environment/empty': '',
  'environment/block': 'z'.repeat(512),
  LICENSE: 'not packed',
  'tests/a.pyc': 'ignored',
}

test('the same files give the same bytes, from a folder and from memory, in any order', async () => {
  await using place = await temporaryFolder()
  await writeFiles(place.path, FILES)
  const reversed = Object.entries(FILES).toReversed()

  const packed = await buffer(await pack(await inFolder(place.path)))
  expect(packed.equals(await buffer(await pack(inMemory('x', reversed))))).toBe(true)
})

test('what is unpacked again is the same task; GNU tar reads it too', async () => {
  await using place = await temporaryFolder()
  const source = inMemory('same', Object.entries(FILES))
  const archive = await buffer(await pack(source))
  await unpack(streamOf(archive, 1), join(place.path, 'same'))
  await writeFile(join(place.path, 'a.tgz'), archive)
  const listed = execFileSync('tar', ['-tvzf', join(place.path, 'a.tgz'), '--full-time', '--utc'], {
    encoding: 'utf8',
  })

  const again = await readTask(await inFolder(join(place.path, 'same')), { isPackage: true })
  expect(again).toEqual(await readTask(source))
  expect(listed.split('\n').filter((line) => /^-rw[xr-]{7} 0\/0 .* 1970-01-01 00:00:00 /.test(line))).toHaveLength(8)
  expect(await readFile(join(place.path, 'same/environment/ünï/😀'), 'utf8')).toBe('y')
})

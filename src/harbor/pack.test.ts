import { execFileSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { type FileContents, temporaryFolder, writeFiles } from '../../test/support/harbor/folders.ts'
import { SMALL_TASK } from '../../test/support/harbor/small-task.ts'
import { toStream } from '../../test/support/harbor/unpacking.ts'
import { packTask, unpack } from './archive.ts'
import { openFolderSource } from './folder-source.ts'
import { readTask } from './read-task.ts'
import { createMemorySource } from './source.ts'

const FILES: FileContents = {
  ...SMALL_TASK,
  'tests/test.sh': { content: '#!/bin/sh\n', executable: true },
  [`environment/${'long/'.repeat(30)}name`]: 'x',
  'environment/ünï/😀': 'y',
  'environment/empty': '',
  'environment/block': 'z'.repeat(512),
  LICENSE: 'not packed',
  'tests/a.pyc': 'ignored',
}

test('packs the same files to the same bytes, from a folder or memory, in any order', async () => {
  await using place = await temporaryFolder()
  await writeFiles(place.path, FILES)
  const reversed = Object.entries(FILES).toReversed()

  const packed = await buffer(await packTask(await openFolderSource(place.path)))
  expect(packed.equals(await buffer(await packTask(createMemorySource('x', reversed))))).toBe(true)
})

test('unpacking a packed task gives the same task, and GNU tar can read it', async () => {
  await using place = await temporaryFolder()
  const source = createMemorySource('same', Object.entries(FILES))
  const archive = await buffer(await packTask(source))
  await unpack(toStream(archive, 1), join(place.path, 'same'))
  await writeFile(join(place.path, 'a.tgz'), archive)
  const listed = execFileSync('tar', ['-tvzf', join(place.path, 'a.tgz'), '--full-time', '--utc'], {
    encoding: 'utf8',
  })

  const again = await readTask(await openFolderSource(join(place.path, 'same')), { includeIgnored: true })
  expect(again).toEqual(await readTask(source))
  expect(listed.split('\n').filter((line) => /^-rw[xr-]{7} 0\/0 .* 1970-01-01 00:00:00 /.test(line))).toHaveLength(8)
  expect(await readFile(join(place.path, 'same/environment/ünï/😀'), 'utf8')).toBe('y')
})

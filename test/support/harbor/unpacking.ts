import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect } from 'vitest'
import { type UnpackLimits, unpack } from '../../../src/harbor/archive.ts'
import { ArchiveRefused } from '../../../src/harbor/archive-stream.ts'
import { readFiles, temporaryFolder } from './folders.ts'

/** Returns a stream of small chunks, as from a network. */
export const toStream = (bytes: Buffer, size = 700): Readable =>
  Readable.from(
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, place) =>
      bytes.subarray(place * size, (place + 1) * size),
    ),
  )

/** Returns the reason of the refusal and checks that no files were written. */
export async function findRefusal(archive: Buffer | Readable, limits: Partial<UnpackLimits> = {}): Promise<string> {
  await using place = await temporaryFolder()
  await writeFile(join(place.path, 'before'), 'x')
  const stream = Buffer.isBuffer(archive) ? toStream(archive) : archive
  const error = await unpack(stream, join(place.path, 'task'), limits).catch((caught: unknown) => caught)
  expect(error).toBeInstanceOf(ArchiveRefused)
  expect(await readdir(place.path)).toEqual(['before'])
  return error instanceof ArchiveRefused ? error.reason : ''
}

export async function unpackToFiles(
  archive: Buffer,
  limits: Partial<UnpackLimits> = {},
): Promise<Record<string, string>> {
  await using place = await temporaryFolder()
  await unpack(toStream(archive), join(place.path, 'task'), limits)
  expect(await readdir(place.path)).toEqual(['task'])
  return await readFiles(join(place.path, 'task'))
}

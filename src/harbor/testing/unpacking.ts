import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect } from 'vitest'
import { type UnpackLimits, unpack } from '../archive.ts'
import { ArchiveRefused } from '../archive-refused.ts'
import { readFiles, temporaryFolder } from './folders.ts'

/** In pieces, as from a network. */
export const streamOf = (bytes: Buffer, size = 700): Readable =>
  Readable.from(
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, place) =>
      bytes.subarray(place * size, (place + 1) * size),
    ),
  )

/** The reason of the refusal; the folder and all around it are as before. */
export async function refusalOf(archive: Buffer | Readable, limits: Partial<UnpackLimits> = {}): Promise<string> {
  await using place = await temporaryFolder()
  await writeFile(join(place.path, 'before'), 'x')
  const stream = Buffer.isBuffer(archive) ? streamOf(archive) : archive
  const error = await unpack(stream, join(place.path, 'task'), limits).catch((caught: unknown) => caught)
  expect(error).toBeInstanceOf(ArchiveRefused)
  expect(await readdir(place.path)).toEqual(['before'])
  return error instanceof ArchiveRefused ? error.reason : ''
}

export async function unpacked(archive: Buffer, limits: Partial<UnpackLimits> = {}): Promise<Record<string, string>> {
  await using place = await temporaryFolder()
  await unpack(streamOf(archive), join(place.path, 'task'), limits)
  expect(await readdir(place.path)).toEqual(['task'])
  return await readFiles(join(place.path, 'task'))
}

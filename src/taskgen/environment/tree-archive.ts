import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { readBlobs } from '../../platform/git/blobs.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import { endOfTar, headerBlocks, paddingAfter } from '../../trials/tar.ts'
import type { TreeEntry } from './read-tree.ts'

/**
 * The files of a tree as `.tar.gz`: sorted, of root, without times. Attributes have no say in it, so that no file is left
 * out and none is rewritten. The same tree gives the same bytes.
 */
export async function writeArchive(
  file: string,
  { place, entries }: { place: GitLocation; entries: readonly TreeEntry[] },
  signal: AbortSignal,
): Promise<void> {
  const tar = Readable.from(blocks(place, entries, signal), { objectMode: false })
  await pipeline(tar, createGzip({ level: 6 }), createWriteStream(file, { mode: 0o644 }), { signal })
}

async function* blocks(place: GitLocation, entries: readonly TreeEntry[], signal: AbortSignal): AsyncGenerator<Buffer> {
  const bytesMax = entries.reduce((most, { size }) => Math.max(most, size), 0)
  for await (const { path, kind, content } of readBlobs(place, entries, { signal, bytesMax })) {
    if (kind === 'link') {
      const linkpath = content.toString()
      yield* headerBlocks({ path, type: 'SymbolicLink', mode: 0o777, uid: 0, size: 0, linkpath })
      continue
    }
    yield* headerBlocks({ path, type: 'File', mode: kind === 'program' ? 0o755 : 0o644, uid: 0, size: content.length })
    yield content
    yield paddingAfter(content.length)
  }
  yield endOfTar()
}

import { pipeline, Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import { Header, Pax } from 'tar'
import { createReport } from './report.ts'
import type { FileSource, SourceFile } from './source.ts'
import { listTaskFiles } from './task-files.ts'

/**
 * Packs the files of a task as Harbor does: sorted, without folders, owners and times. The same files give the same bytes
 * on every machine with this version of Node. Throws TaskInvalid for files that cannot be packed.
 */
export async function packTask(source: FileSource, { isPackage = false, level = 9 } = {}): Promise<Readable> {
  const report = createReport()
  const files = await listTaskFiles(source, isPackage, report)
  report.checkInstructions()
  const gzip = createGzip({ level })
  pipeline(Readable.from(packBlocks(source, files)), gzip, () => undefined) // an error reaches the reader through `gzip`
  return gzip
}

const BLOCK = 512

async function* packBlocks(source: FileSource, files: readonly SourceFile[]): AsyncGenerator<Buffer> {
  for (const file of files) {
    yield buildHeader(file)
    yield* readContent(source, file)
    yield Buffer.alloc((BLOCK - (file.bytes % BLOCK)) % BLOCK)
  }
  yield Buffer.alloc(2 * BLOCK)
}

function buildHeader({ path, bytes, executable }: SourceFile): Buffer {
  const entry = { path, size: bytes, mode: executable ? 0o755 : 0o644, uid: 0, gid: 0, mtime: new Date(0) }
  const header = new Header({ ...entry, type: 'File' })
  const block = Buffer.alloc(BLOCK)
  const isTooLong = header.encode(block)
  return isTooLong ? Buffer.concat([new Pax({ path }).encode(), block]) : block
}

async function* readContent(source: FileSource, { path, bytes }: SourceFile): AsyncGenerator<Buffer> {
  let packed = 0
  for await (const chunk of await source.open(path)) {
    packed += chunk.length
    if (packed > bytes) break
    yield chunk
  }
  if (packed !== bytes) throw new Error(`${path} changed while it was being packed. Try again.`)
}

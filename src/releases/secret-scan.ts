import { Readable } from 'node:stream'
import { ArchiveRefused } from '../harbor/archive-refused.ts'
import { tarStream } from '../harbor/archive-stream.ts'
import { FILES_MAX, TASK_BYTES_MAX } from '../harbor/limits.ts'
import { sanitizeText } from '../harbor/report.ts'
import { findCredentials } from '../harbor/safety/rules/credentials.ts'
import { readTarEntries } from '../harbor/tar-reader.ts'

export type SuspectedSecret = { path: string; line: number | undefined; detail: string }

type SecretScanFile = { path: string; content: AsyncIterable<Buffer> }

const ARCHIVE = /\.(?:tar|tar\.gz|tgz)$/i
const LIMITS = { entries: FILES_MAX, totalBytes: TASK_BYTES_MAX, ratio: 200, timeMs: 600_000 }

/** Finds suspected secrets in files and in archives among them. Nested archives are not opened. */
export async function findSecrets(files: AsyncIterable<SecretScanFile>): Promise<SuspectedSecret[]> {
  const secrets: SuspectedSecret[] = []
  for await (const { path, content } of files) {
    if (!ARCHIVE.test(path)) secrets.push(...(await scanFile(path, content)))
    else if (!(await scanArchive(path, content, secrets))) break
  }
  return secrets
}

/** Scans an archive. Returns false if it could not be read completely, in which case later files cannot be read either. */
async function scanArchive(path: string, content: AsyncIterable<Buffer>, secrets: SuspectedSecret[]): Promise<boolean> {
  try {
    for await (const entry of readTarEntries(tarStream(Readable.from(content), LIMITS)))
      secrets.push(...(await scanFile(`${path}/${sanitizeText(entry.path)}`, entry.content())))
    return true
  } catch (error) {
    if (!(error instanceof ArchiveRefused)) throw error
    // Unpacking it with another tool may reveal more.
    secrets.push({ path, line: undefined, detail: `The archive cannot be scanned. ${error.message}` })
    return false
  }
}

const WINDOW_BYTES = 1024 * 1024
/** Longer than any secret. */
const OVERLAP_BYTES = 64 * 1024

async function scanFile(path: string, content: AsyncIterable<Buffer>): Promise<SuspectedSecret[]> {
  const secrets = new Map<string, SuspectedSecret>()
  let before = 0
  for await (const { text, from } of readWindows(content)) {
    for (const { line = 1, detail } of findCredentials({ path, text, isWhole: false }))
      secrets.set(`${before + line} ${detail}`, { path, line: before + line, detail })
    before += countLineBreaks(text.slice(0, from))
  }
  return [...secrets.values()]
}

const countLineBreaks = (text: string): number => text.split('\n').length - 1

/**
 * Yields a text in overlapping windows. `from` is where the next window starts: at the last line, or far enough before the
 * end that no secret is split. Decodes as latin1: one character per byte, which never fails.
 */
async function* readWindows(content: AsyncIterable<Buffer>): AsyncGenerator<{ text: string; from: number }> {
  let overlap = ''
  let chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of content) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes < WINDOW_BYTES) continue
    const text = overlap + Buffer.concat(chunks).toString('latin1')
    const from = Math.max(text.lastIndexOf('\n') + 1, text.length - OVERLAP_BYTES)
    yield { text, from }
    overlap = text.slice(from)
    chunks = []
    bytes = 0
  }
  const text = overlap + Buffer.concat(chunks).toString('latin1')
  yield { text, from: text.length }
}

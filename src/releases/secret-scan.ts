import { Readable } from 'node:stream'
import { ArchiveRefused } from '../harbor/archive-refused.ts'
import { tarStream } from '../harbor/archive-stream.ts'
import { FILES_MAX, TASK_BYTES_MAX } from '../harbor/limits.ts'
import { sanitizeText } from '../harbor/report.ts'
import { findCredentials } from '../harbor/safety/rules/credentials.ts'
import { readTarEntries } from '../harbor/tar-reader.ts'

export type Secret = { path: string; line: number | undefined; detail: string }

type File = { path: string; content: AsyncIterable<Buffer> }

const ARCHIVE = /\.(?:tar|tar\.gz|tgz)$/i
const LIMITS = { entries: FILES_MAX, totalBytes: TASK_BYTES_MAX, ratio: 200, timeMs: 600_000 }

/** What looks like a secret in files, and in the files of archives among them. An archive in an archive is not opened. */
export async function secretsIn(files: AsyncIterable<File>): Promise<Secret[]> {
  const secrets: Secret[] = []
  for await (const { path, content } of files) {
    if (!ARCHIVE.test(path)) secrets.push(...(await secretsInFile(path, content)))
    else if (!(await lookThrough(path, content, secrets))) break
  }
  return secrets
}

/** False: it could not be read to its end, and neither can what comes after it. */
async function lookThrough(path: string, content: AsyncIterable<Buffer>, secrets: Secret[]): Promise<boolean> {
  try {
    for await (const entry of readTarEntries(tarStream(Readable.from(content), LIMITS)))
      secrets.push(...(await secretsInFile(`${path}/${sanitizeText(entry.path)}`, entry.content())))
    return true
  } catch (error) {
    if (!(error instanceof ArchiveRefused)) throw error
    // Whoever unpacks it may find more than we did.
    secrets.push({ path, line: undefined, detail: `It cannot be looked through. ${error.message}` })
    return false
  }
}

const WINDOW_BYTES = 1024 * 1024
/** More than any secret is long. */
const OVERLAP_BYTES = 64 * 1024

async function secretsInFile(path: string, content: AsyncIterable<Buffer>): Promise<Secret[]> {
  const secrets = new Map<string, Secret>()
  let before = 0
  for await (const { text, from } of windowsOf(content)) {
    for (const { line = 1, detail } of findCredentials({ path, text, isWhole: false }))
      secrets.set(`${before + line} ${detail}`, { path, line: before + line, detail })
    before += linesIn(text.slice(0, from))
  }
  return [...secrets.values()]
}

const linesIn = (text: string): number => text.split('\n').length - 1

/**
 * A text in pieces, and where in each the next one begins: at its last line, or so far before its end that no secret is
 * cut in two. A letter for each byte: secrets have no others, and no byte can be the wrong one.
 */
async function* windowsOf(content: AsyncIterable<Buffer>): AsyncGenerator<{ text: string; from: number }> {
  let kept = ''
  let chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of content) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes < WINDOW_BYTES) continue
    const text = kept + Buffer.concat(chunks).toString('latin1')
    const from = Math.max(text.lastIndexOf('\n') + 1, text.length - OVERLAP_BYTES)
    yield { text, from }
    kept = text.slice(from)
    chunks = []
    bytes = 0
  }
  const text = kept + Buffer.concat(chunks).toString('latin1')
  yield { text, from: text.length }
}

import { Readable } from 'node:stream'
import { parseOrUndefined } from '../platform/errors.ts'
import type { Report } from './report.ts'

export type SourceFile = { path: string; bytes: number; executable: boolean }

/** An entry of a folder that cannot be part of a task. */
export type SourceFault = { path: string; code: 'link_outside' | 'link_to_folder' | 'special_file' | 'path_too_deep' }

export type SourceListing = { files: SourceFile[]; faults: SourceFault[]; isComplete: boolean }

/** Read access to the files of a task. */
export type FileSource = {
  /** Name of the task if it does not declare one. */
  name: string
  /** Lists all files at and under these paths. `isComplete` is false if there are too many. */
  list(paths: readonly string[]): Promise<SourceListing>
  open(path: string): Promise<Readable>
}

export type MemoryFile = string | Uint8Array | { content: string | Uint8Array; executable: boolean }

export function createMemorySource(name: string, contents: Iterable<readonly [string, MemoryFile]>): FileSource {
  const files = new Map([...contents].map(([path, file]) => [path, normaliseFile(path, file)]))
  return {
    name,
    async list(paths) {
      const isWanted = (path: string) => paths.some((start) => path === start || path.startsWith(`${start}/`))
      const wanted = [...files.values()].filter(({ path }) => isWanted(path))
      const listed = wanted.map(({ path, content, executable }) => ({ path, bytes: content.length, executable }))
      return { files: listed, faults: [], isComplete: true }
    },
    async open(path) {
      const file = files.get(path)
      if (!file) throw new Error(`File not found: ${path}`)
      return Readable.from([file.content], { objectMode: false })
    },
  }
}

function normaliseFile(path: string, file: MemoryFile): { path: string; content: Buffer; executable: boolean } {
  if (typeof file === 'string' || file instanceof Uint8Array)
    return normaliseFile(path, { content: file, executable: false })
  return { path, content: Buffer.from(file.content), executable: file.executable }
}

/** Returns the content of a file, or undefined if it is larger than `bytesMax`. */
async function readUpTo(source: FileSource, path: string, bytesMax: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of await source.open(path)) {
    bytes += chunk.length
    if (bytes > bytesMax) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Reads a text file and normalises line ends as Python does. Returns undefined, with a refusal, if it is not valid
 * text.
 */
export async function readText(
  source: FileSource,
  path: string,
  bytesMax: number,
  report: Report,
): Promise<string | undefined> {
  const content = await readUpTo(source, path, bytesMax)
  if (content === undefined) {
    report.refuse(path, 'too_large', `The limit for this file is ${bytesMax} bytes.`)
    return undefined
  }
  const text = decodeUtf8(content)
  if (text === undefined) report.refuse(path, 'not_utf8', 'The file is not valid UTF-8.')
  // Some programs stop at a NUL and others do not, and PostgreSQL cannot store it.
  else if (text.includes('\0')) report.refuse(path, 'invalid_value', 'The file must not contain a NUL character.')
  return text?.replaceAll(/\r\n?/g, '\n')
}

/** Decodes UTF-8. Returns undefined for invalid bytes. */
export const decodeUtf8 = (content: Uint8Array): string | undefined => parseOrUndefined(() => decoder.decode(content))

import { Readable } from 'node:stream'

export type SourceFile = { path: string; bytes: number; executable: boolean }

/** An entry of a folder that cannot be part of a task. */
export type SourceFault = { path: string; code: 'link_outside' | 'link_to_folder' | 'special_file' | 'path_too_deep' }

export type SourceListing = { files: SourceFile[]; faults: SourceFault[]; isComplete: boolean }

/** Read access to the files of a task. */
export type FileSource = {
  /** Name of the task if it does not declare one. */
  name: string
  /** Lists all files at and under these paths. Incomplete if there are too many. */
  list(paths: readonly string[]): Promise<SourceListing>
  open(path: string): Promise<Readable>
}

export type MemoryFile = string | Uint8Array | { content: string | Uint8Array; executable: boolean }

export function createMemorySource(name: string, contents: Iterable<readonly [string, MemoryFile]>): FileSource {
  const files = new Map([...contents].map(([path, file]) => [path, toDescribed(path, file)]))
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

function toDescribed(path: string, file: MemoryFile): { path: string; content: Buffer; executable: boolean } {
  if (typeof file === 'string' || file instanceof Uint8Array)
    return toDescribed(path, { content: file, executable: false })
  return { path, content: Buffer.from(file.content), executable: file.executable }
}

/** Returns the content of a file, or undefined if it is larger than `bytesMax`. */
export async function readUpTo(source: FileSource, path: string, bytesMax: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of await source.open(path)) {
    bytes += chunk.length
    if (bytes > bytesMax) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

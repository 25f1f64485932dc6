import { Readable } from 'node:stream'

export type SourceFile = { path: string; bytes: number; executable: boolean }

/** Something in a folder that cannot be part of a task. */
export type SourceFault = { path: string; code: 'link_outside' | 'link_to_folder' | 'special_file' | 'path_too_deep' }

export type Listing = { files: SourceFile[]; faults: SourceFault[]; isComplete: boolean }

/** Where the files of a task are. */
export type FileSource = {
  /** What the task is called when it does not say so itself. */
  name: string
  /** Everything at and under these paths, as far as it goes. Not complete when there is more than anyone would list. */
  list(paths: readonly string[]): Promise<Listing>
  open(path: string): Promise<Readable>
}

export type MemoryFile = string | Uint8Array | { content: string | Uint8Array; executable: boolean }

export function inMemory(name: string, contents: Iterable<readonly [string, MemoryFile]>): FileSource {
  const files = new Map([...contents].map(([path, file]) => [path, described(path, file)]))
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
      if (!file) throw new Error(`There is no file ${path}.`)
      return Readable.from([file.content], { objectMode: false })
    },
  }
}

function described(path: string, file: MemoryFile): { path: string; content: Buffer; executable: boolean } {
  if (typeof file === 'string' || file instanceof Uint8Array)
    return described(path, { content: file, executable: false })
  return { path, content: Buffer.from(file.content), executable: file.executable }
}

/** The content of a file, or undefined when it has more bytes than that. */
export async function contentOf(source: FileSource, path: string, bytesMax: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of await source.open(path)) {
    bytes += chunk.length
    if (bytes > bytesMax) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

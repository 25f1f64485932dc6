import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { MemoryFile } from '../../../src/harbor/source.ts'

export type FileContents = Record<string, MemoryFile>

/** Creates a temporary folder that is deleted on disposal. */
export async function temporaryFolder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), 'assay-harbor-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

export async function writeFiles(folder: string, files: FileContents): Promise<void> {
  for (const [path, file] of Object.entries(files)) {
    const target = join(folder, path)
    await mkdir(dirname(target), { recursive: true })
    const isPlain = typeof file === 'string' || file instanceof Uint8Array
    await writeFile(target, isPlain ? file : file.content)
    if (!isPlain && file.executable) await chmod(target, 0o755)
  }
}

/** Reads every file under a folder. Other entries, such as links, have the text `<no file>`. */
export async function readFiles(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const found: [string, string][] = []
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile()) found.push([path.slice(folder.length + 1), await readFile(path, 'utf8')])
    else if (!entry.isDirectory()) found.push([path.slice(folder.length + 1), '<no file>'])
  }
  return Object.fromEntries(found)
}

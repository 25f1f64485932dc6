import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { WrongUse } from './failure.ts'

/** Throws unless the path is a folder. `expected` names what the user should give instead. */
export async function requireFolder(path: string, expected: string): Promise<void> {
  if (!(await requirePath(path)).isDirectory()) throw new Error(`${path} is a file. Name ${expected}.`)
}

/** Returns the status of a file or folder. Throws if it does not exist. */
export async function requirePath(path: string) {
  const status = await stat(path).catch(() => undefined)
  if (status) return status
  throw new Error(`${path} does not exist.`)
}

/**
 * Creates a file or folder that must not exist yet. `write` writes to a temporary path, which is renamed when it is
 * complete. Returns the absolute path.
 */
export async function writeNewPath(path: string, write: (temporaryPath: string) => Promise<void>): Promise<string> {
  const target = resolve(path)
  if (existsSync(target)) throw new WrongUse(`${target} already exists. Choose another name.`)
  await mkdir(dirname(target), { recursive: true })
  const folder = await mkdtemp(`${target}.`)
  try {
    const temporaryPath = join(folder, 'draft')
    await write(temporaryPath)
    await rename(temporaryPath, target)
    return target
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * Returns a name that comes from a service as the name of a file. The service may be hostile: a name with a folder in it
 * could lead out of the folder that the user chose, by itself or through a link in an archive.
 */
export function requireFileName(name: string): string {
  if (!/^\.{0,2}$|[/\\\0]/.test(name)) return name
  throw new Error(
    `The service sent a name that is not a file name: ${JSON.stringify(name)}. Nothing was written there.`,
  )
}

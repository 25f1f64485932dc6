import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { WrongUse } from './failure.ts'

/** Writes a new file or folder, which appears when it is complete. Returns its absolute path. */
export async function writeNewPath(path: string, write: (draft: string) => Promise<void>): Promise<string> {
  const target = resolve(path)
  if (existsSync(target)) throw new WrongUse(`${target} already exists. Choose another name.`)
  await mkdir(dirname(target), { recursive: true })
  const folder = await mkdtemp(`${target}.`)
  try {
    await write(join(folder, 'draft'))
    await rename(join(folder, 'draft'), target)
    return target
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The folder of this program, with the reference solutions of its samples. */
const INSTALLATION = findPackage(import.meta.dirname)

function findPackage(folder: string): string {
  const parent = dirname(folder)
  return existsSync(join(folder, 'package.json')) || parent === folder ? folder : findPackage(parent)
}

/** Lists the folders that a sandbox must not see, although they are below a folder that is mounted into it. */
export const listHidden = (binds: readonly string[]): string[] =>
  binds.some((path) => INSTALLATION.startsWith(`${path}/`)) ? [INSTALLATION] : []

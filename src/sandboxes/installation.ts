import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const FILE = 'installation'

/**
 * Returns the id of this installation among those that share an engine. It is created once per data folder and stored
 * there.
 */
export function installationOf(dataFolder: string): string {
  const path = join(dataFolder, FILE)
  mkdirSync(dataFolder, { recursive: true })
  try {
    writeFileSync(path, randomBytes(6).toString('hex'), { flag: 'wx' })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
  return readFileSync(path, 'utf8').trim()
}

import { spawnSync } from 'node:child_process'
import { accessSync, constants, globSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { SystemPackageManager, SystemPart } from './setup-parts.ts'
import type { SetupCommand, SetupMachine } from './setup-plan.ts'

const MANAGERS: readonly SystemPackageManager[] = ['apt-get', 'dnf', 'apk', 'pacman', 'brew']

export const thisMachine = (): SetupMachine => ({
  manager: MANAGERS.find(isOnPath),
  isRoot: process.getuid?.() === 0,
  hasSudo: isOnPath('sudo'),
})

export function isThere({ commands, files = [], probe }: SystemPart): boolean {
  if (!commands.some(isOnPath) && globSync([...files]).length === 0) return false
  return probe === undefined || run(probe, 'ignore')
}

function isOnPath(command: string): boolean {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    const file = join(folder || '.', command)
    try {
      accessSync(file, constants.X_OK)
      return statSync(file).isFile()
    } catch {
      return false
    }
  })
}

/** Returns true if the command exits with 0. */
export const run = ([program, ...args]: SetupCommand, stdio: 'ignore' | 'inherit'): boolean =>
  spawnSync(program, args, { stdio: ['ignore', stdio, stdio] }).status === 0

import { spawnSync } from 'node:child_process'
import { accessSync, constants, globSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Manager, Part } from './setup-parts.ts'
import type { Command, Machine } from './setup-plan.ts'

const MANAGERS: readonly Manager[] = ['apt-get', 'dnf', 'apk', 'pacman', 'brew']

export const thisMachine = (): Machine => ({
  manager: MANAGERS.find(isOnPath),
  isRoot: process.getuid?.() === 0,
  hasSudo: isOnPath('sudo'),
})

export function isThere({ commands, files = [], probe }: Part): boolean {
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

/** True when the command ended well. */
export const run = ([program, ...args]: Command, stdio: 'ignore' | 'inherit'): boolean =>
  spawnSync(program, args, { stdio: ['ignore', stdio, stdio] }).status === 0

import { spawnSync } from 'node:child_process'
import { accessSync, constants, globSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Shell } from '../shell.ts'
import type { SystemPackageManager, SystemPart } from './parts.ts'
import type { SetupCommand, SetupMachine } from './plan.ts'

const MANAGERS: readonly SystemPackageManager[] = ['apt-get', 'dnf', 'apk', 'pacman', 'brew']

export const readMachine = (shell: Shell): SetupMachine => ({
  manager: MANAGERS.find((manager) => isOnPath(shell, manager)),
  isRoot: process.getuid?.() === 0,
  hasSudo: isOnPath(shell, 'sudo'),
})

export function isInstalled(shell: Shell, { commands, files = [], probe }: SystemPart): boolean {
  const isPresent = commands.some((command) => isOnPath(shell, command)) || globSync([...files]).length > 0
  if (!isPresent) return false
  return probe === undefined || runCommand(probe, 'ignore')
}

export function isOnPath({ env }: Shell, command: string): boolean {
  return (env.PATH ?? '').split(delimiter).some((folder) => {
    const file = join(folder || '.', command)
    try {
      accessSync(file, constants.X_OK)
      return statSync(file).isFile()
    } catch {
      return false
    }
  })
}

/** Runs a command. Returns true if it exits with 0. */
export const runCommand = ([program, ...args]: SetupCommand, stdio: 'ignore' | 'inherit'): boolean =>
  spawnSync(program, args, { stdio: ['ignore', stdio, stdio] }).status === 0

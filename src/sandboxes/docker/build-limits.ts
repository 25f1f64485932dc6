import { setTimeout as wait } from 'node:timers/promises'
import { type Docker, ignoring } from './client.ts'
import type { Engine } from './engine.ts'

const MEMORY_SHARE = 0.75
const PROCESSES_MAX = 4096

/** What each command of a build may take, so that it takes no sandbox of the same machine down. */
export function memoryLimits({ memoryBytes }: Engine): { memory: number; memswap: number } {
  const memory = Math.floor(memoryBytes * MEMORY_SHARE)
  return { memory, memswap: memory }
}

/** How the engine names the container of a command, when it starts it. */
const NAMED = /^ ---> Running in ([0-9a-f]{12})$/

/**
 * Hears every line of a build, and gives each container a limit of processes as soon as it runs: the engine takes one
 * for containers, and not for builds. What a command prints may look the same: containers that were there before are
 * left alone.
 */
export async function processLimiter(docker: Docker, onTrouble: (error: unknown) => void) {
  const before = new Set((await listIds(docker)).map((id) => id.slice(0, 12)))
  return (line: string): void => {
    const id = NAMED.exec(line)?.[1]
    if (id !== undefined && !before.has(id)) limitProcesses(docker, id).catch(onTrouble)
  }
}

const TRIES_MAX = 20
const PAUSE_MS = 50

/** The engine takes a while to see that a command has ended. */
async function limitProcesses(docker: Docker, id: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await docker.call('POST', `/containers/${id}/update`, { body: { PidsLimit: PROCESSES_MAX } })
      return
    } catch (error) {
      if (!(await isRunning(docker, id))) return
      if (tries === TRIES_MAX) throw error
      await wait(PAUSE_MS)
    }
  }
}

async function isRunning(docker: Docker, id: string): Promise<boolean> {
  type Found = { State: { Running: boolean } }
  const found = await docker.call<Found>('GET', `/containers/${id}/json`).catch(ignoring(404))
  return found?.State.Running ?? false
}

async function listIds(docker: Docker): Promise<string[]> {
  const found = await docker.call<{ Id: string }[]>('GET', '/containers/json', { query: { all: true } })
  return found.map(({ Id }) => Id)
}

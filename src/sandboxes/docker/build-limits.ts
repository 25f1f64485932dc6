import { type Docker, ignoring } from './client.ts'
import type { Engine } from './engine.ts'

const MEMORY_SHARE = 0.75
const PROCESSES_MAX = 4096

/** What each command of a build may take, so that it takes no sandbox of the same machine down. */
export function memoryLimits({ memoryBytes }: Engine): { memory: number; memswap: number } {
  const memory = Math.floor(memoryBytes * MEMORY_SHARE)
  return { memory, memswap: memory }
}

/** How the engine names the container of a command, before it starts it. */
const NAMED = /^ ---> Running in ([0-9a-f]{12})$/
const GONE = [404, 409]

/**
 * Hears every line of a build, and gives each container a limit of processes, which the engine takes for containers and
 * not for builds. What a command prints may look the same: containers that were there before are left alone.
 */
export async function processLimiter(docker: Docker, onTrouble: (error: unknown) => void) {
  const before = new Set((await listIds(docker)).map((id) => id.slice(0, 12)))
  return (line: string): void => {
    const id = NAMED.exec(line)?.[1]
    if (id === undefined || before.has(id)) return
    const body = { PidsLimit: PROCESSES_MAX }
    docker
      .call('POST', `/containers/${id}/update`, { body })
      .catch(ignoring(...GONE))
      .catch(onTrouble)
  }
}

async function listIds(docker: Docker): Promise<string[]> {
  const found = await docker.call<{ Id: string }[]>('GET', '/containers/json', { query: { all: true } })
  return found.map(({ Id }) => Id)
}

import { setTimeout as wait } from 'node:timers/promises'
import { DEFAULT_LIMITS } from '../../harbor/default-limits.ts'
import type { BuildLimits } from '../sandbox.ts'
import { type Docker, ignoring } from './client.ts'
import type { DockerEngine } from './engine.ts'

const MEGABYTE = 1024 * 1024
const PERIOD_US = 100_000
const PROCESSES_MAX = 4096

/** Returns the limits of each command of a build, in the words of the engine. */
export function buildQuery({ memoryBytes, cpus }: DockerEngine, limits: BuildLimits): Record<string, number> {
  const memory = Math.min(limits.memoryMb * MEGABYTE, memoryBytes)
  return {
    memory,
    memswap: memory,
    shmsize: DEFAULT_LIMITS.shmMb * MEGABYTE,
    cpuperiod: PERIOD_US,
    cpuquota: Math.round(Math.min(limits.cpus, cpus) * PERIOD_US),
  }
}

/** How the engine names the container of a command, when it starts it. */
const NAMED = /^ ---> Running in ([0-9a-f]{12})$/

/**
 * Hears every line of a build, limits the processes of each container as soon as it runs, and watches what it writes: the
 * engine takes these limits for containers, and not for builds. What a command prints may look the same: containers that were
 * there before are left alone.
 */
export async function containerLimiter(docker: Docker, { diskMb }: BuildLimits, onTrouble: (error: unknown) => void) {
  const before = new Set((await listIds(docker)).map((id) => id.slice(0, 12)))
  let current: string | undefined
  const look = async (): Promise<void> => {
    if (current === undefined) return
    const query = { size: true }
    const found = await docker.call<{ SizeRw?: number }>('GET', `/containers/${current}/json`, { query })
    if ((found.SizeRw ?? 0) > diskMb * MEGABYTE) onTrouble(new Error(`A command wrote more than ${diskMb} MiB.`))
  }
  const timer = setInterval(() => void look().catch(() => {}), LOOK_MS)
  return {
    hear(line: string): void {
      const id = NAMED.exec(line)?.[1]
      if (id === undefined || before.has(id)) return
      current = id
      limitProcesses(docker, id).catch(onTrouble)
    },
    stop: () => clearInterval(timer),
  }
}

const LOOK_MS = 2000

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

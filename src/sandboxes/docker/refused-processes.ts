import { closeSync, openSync, readSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CgroupLayout } from '../kernel/cgroup.ts'

/** Counts how often the kernel refused a new process to a container. */
export type RefusedProcesses = { read(): number; stop(): void }

export const NO_REFUSED_PROCESSES: RefusedProcesses = { read: () => 0, stop: () => {} }

const POLL_MS = 500
const PAUSE_MS = 2
const TEXT_MAX_BYTES = 200

/**
 * Opens the counter of the kernel. It disappears some milliseconds after the container's last process, before the engine
 * reports the end. It is therefore read at intervals and whenever output arrives, because a program that cannot fork
 * usually prints an error. Refusals of a program that ends at once without output are missed.
 */
export async function countRefusedProcesses(layout: CgroupLayout, pid: number): Promise<RefusedProcesses> {
  const top = layout.version === 2 ? layout.unified : layout.pids
  const file = join(top, parseCgroupPath(await readFile(`/proc/${pid}/cgroup`, 'utf8'), layout), 'pids.events')
  const descriptor = tryOpen(file)
  if (descriptor === undefined) return NO_REFUSED_PROCESSES
  let refused = 0
  let readAt = 0
  const readLimited = (): number => {
    // Reads are rate-limited, because output may be a flood.
    if (performance.now() - readAt > PAUSE_MS) refused = readCounter(descriptor) ?? refused
    readAt = performance.now()
    return refused
  }
  const timer = setInterval(readLimited, POLL_MS)
  return {
    read: readLimited,
    stop: () => {
      clearInterval(timer)
      closeSync(descriptor)
    },
  }
}

/** Parses the path of a process's cgroup in the hierarchy of the pids controller. */
export function parseCgroupPath(text: string, layout: Pick<CgroupLayout, 'version'>): string {
  const fields = text.split('\n').map((line) => line.split(':'))
  const hierarchy = fields.find(([number, controllers = '']) =>
    layout.version === 2 ? number === '0' : controllers.split(',').includes('pids'),
  )
  return hierarchy?.slice(2).join(':') ?? '/'
}

function tryOpen(file: string): number | undefined {
  try {
    return openSync(file, 'r')
  } catch {
    return undefined // the process has ended
  }
}

/** Reads synchronously, because the counter may disappear before a thread of Node's pool is free. */
function readCounter(descriptor: number): number | undefined {
  try {
    const buffer = Buffer.alloc(TEXT_MAX_BYTES)
    const text = buffer.toString('utf8', 0, readSync(descriptor, buffer, 0, TEXT_MAX_BYTES, 0))
    return Number(/^max (\d+)$/m.exec(text)?.[1] ?? 0)
  } catch {
    return undefined // already removed
  }
}

import { closeSync, openSync, readSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CgroupLayout } from '../kernel/cgroup.ts'

/** Counts how often the kernel refused a new process to a container. */
export type Hits = { look(): number; stop(): void }

export const noHits: Hits = { look: () => 0, stop: () => {} }

const POLL_MS = 500
const PAUSE_MS = 2
const TEXT_MAX_BYTES = 200

/**
 * Opens the kernel's counter, which disappears some milliseconds after the container's last process, before the engine
 * reports the end. It is therefore read at intervals and whenever output arrives, because a program that cannot fork
 * usually prints an error. A program that ends at once without output is not noticed.
 */
export async function openHits(layout: CgroupLayout, pid: number): Promise<Hits> {
  const top = layout.version === 2 ? layout.unified : layout.pids
  const file = join(top, groupOf(await readFile(`/proc/${pid}/cgroup`, 'utf8'), layout), 'pids.events')
  const descriptor = tryOpen(file)
  if (descriptor === undefined) return noHits
  let refused = 0
  let lookedAt = 0
  const readHits = (): number => {
    // Reads are rate-limited, because output may be a flood.
    if (performance.now() - lookedAt > PAUSE_MS) refused = readCounter(descriptor) ?? refused
    lookedAt = performance.now()
    return refused
  }
  const timer = setInterval(readHits, POLL_MS)
  return {
    look: readHits,
    stop: () => {
      clearInterval(timer)
      closeSync(descriptor)
    },
  }
}

/** Parses the path of a process's cgroup in the hierarchy of the pids controller. */
export function groupOf(text: string, layout: Pick<CgroupLayout, 'version'>): string {
  const fields = text.split('\n').map((line) => line.split(':'))
  const own = fields.find(([number, kinds = '']) =>
    layout.version === 2 ? number === '0' : kinds.split(',').includes('pids'),
  )
  return own?.slice(2).join(':') ?? '/'
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

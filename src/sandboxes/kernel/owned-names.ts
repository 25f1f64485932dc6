import { readdir } from 'node:fs/promises'
import { findProcess, isAlive } from './process-life.ts'

/** Start time on systems without /proc, where it is unknown which processes are alive. */
const UNKNOWN = '0'

/** Returns a name prefix that identifies this process, so that files of a dead process can be removed. */
export async function ownedPrefix(kind: string): Promise<string> {
  const mark = await findProcess(process.pid)
  return `${kind}-${process.pid}-${mark?.startTime ?? UNKNOWN}-`
}

/** Lists the entries of a folder that belong to dead processes. */
export async function listOrphans(folder: string, kind: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  const dead = await Promise.all(names.map(async (name) => !(await mayLive(name, kind))))
  return names.filter((_, place) => dead[place])
}

async function mayLive(name: string, kind: string): Promise<boolean> {
  const [, pid, startTime] = (name.startsWith(`${kind}-`) && /^-(\d+)-(\d+)-/.exec(name.slice(kind.length))) || []
  if (pid === undefined || startTime === undefined || startTime === UNKNOWN) return true
  return isAlive({ pid: Number(pid), startTime })
}

import { readdir, readFile } from 'node:fs/promises'

type Process = { pid: number; parent: number; mark: string }

/** Lists this process and its descendants, identified by a mark that no later process has. */
export async function descendantsOf(pid: number): Promise<string[]> {
  const all = await listProcesses()
  const family = new Set([pid])
  for (let before = 0; before < family.size; ) {
    before = family.size
    for (const each of all) if (family.has(each.parent)) family.add(each.pid)
  }
  return all.filter((each) => family.has(each.pid)).map(({ mark }) => mark)
}

/** Returns the marks of processes that are alive. */
export async function listAlive(marks: Iterable<string>): Promise<string[]> {
  const living = new Set((await listProcesses()).map(({ mark }) => mark))
  return [...marks].filter((mark) => living.has(mark))
}

async function listProcesses(): Promise<Process[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const found = await Promise.all(pids.map(readProcess))
  return found.filter((each) => each !== undefined)
}

async function readProcess(pid: string): Promise<Process | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '') // it may just have ended
  // The name in parentheses may contain any character.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state, parent, startTime] = [fields[0], fields[1], fields[19]]
  if (startTime === undefined || state === 'Z' || state === 'X') return undefined
  return { pid: Number(pid), parent: Number(parent), mark: `${pid} since ${startTime}` }
}

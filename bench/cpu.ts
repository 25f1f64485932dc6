import { readFileSync } from 'node:fs'
import type pg from 'pg'

/** Processor time of the whole machine while something runs: what daemons and containers use is in it. */
export async function cpuMs(work: () => Promise<void>): Promise<number> {
  const before = machineCpuMs()
  await work()
  return machineCpuMs() - before
}

function machineCpuMs(): number {
  const version1 = read('/sys/fs/cgroup/cpuacct/cpuacct.usage') ?? read('/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage')
  if (version1 !== undefined) return Number(version1) / 1e6
  const version2 = /usage_usec (\d+)/.exec(read('/sys/fs/cgroup/cpu.stat') ?? '')?.[1]
  if (version2 === undefined) throw new Error('The kernel does not say how much processor time was used.')
  return Number(version2) / 1000
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

const TICKS = 100

/** Of a process and its children, living and dead, in seconds: what remains comparable when others use the machine too. */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean)
  return sum(fields.slice(11, 15).map(Number)) / TICKS + sum(children.map((child) => cpuSeconds(Number(child))))
}

const sum = (numbers: number[]): number => numbers.reduce((all, each) => all + each, 0)

/** The first process of a database on this machine. */
export async function postmasterOf(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query('select pg_backend_pid() as pid')
  return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${rows[0].pid}/status`, 'utf8'))?.[1])
}

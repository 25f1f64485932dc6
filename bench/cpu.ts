import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type pg from 'pg'

/** Measures the CPU time of the entire machine during the work, including daemons and containers. */
export async function cpuMs(work: () => Promise<void>): Promise<number> {
  const before = machineCpuMs()
  await work()
  return machineCpuMs() - before
}

function machineCpuMs(): number {
  const version1 = read('/sys/fs/cgroup/cpuacct/cpuacct.usage') ?? read('/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage')
  if (version1 !== undefined) return Number(version1) / 1e6
  const version2 = /usage_usec (\d+)/.exec(read('/sys/fs/cgroup/cpu.stat') ?? '')?.[1]
  if (version2 === undefined) throw new Error('The kernel does not report CPU time. Enable cgroup accounting.')
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

/** CPU seconds of a process and its children, including dead ones. Comparable on a busy machine. */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return sum(fields.slice(11, 15).map(Number)) / TICKS + sum(childrenOf(pid).map(cpuSeconds))
}

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number)

const COUNTED = '/sys/fs/cgroup/cpuacct'

type CpuMeter = Disposable & { add(pid: number): void; milliseconds(): number }

/**
 * Measures the CPU time of processes and everything they start, including orphaned sandboxes. Falls back to the CPU time of
 * the entire machine if the kernel does not support that.
 */
export function openMeter(): CpuMeter {
  if (!existsSync(COUNTED)) return { add: () => {}, milliseconds: machineCpuMs, [Symbol.dispose]: () => {} }
  const group = join(COUNTED, `assay-bench-${process.pid}`)
  mkdirSync(group)
  const add = (pid: number): void => {
    move(pid, group)
    for (const child of childrenOf(pid)) add(child)
  }
  return {
    add,
    milliseconds: () => Number(readFileSync(join(group, 'cpuacct.usage'), 'utf8')) / 1e6,
    [Symbol.dispose]: () => {
      const left = readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean)
      for (const pid of left) move(Number(pid), COUNTED)
      rmdirSync(group)
    },
  }
}

const move = (pid: number, group: string): void => writeFileSync(join(group, 'cgroup.procs'), String(pid))

const sum = (numbers: number[]): number => numbers.reduce((all, each) => all + each, 0)

/** Returns the postmaster's process id of a local database. */
export async function postmasterOf(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query('select pg_backend_pid() as pid')
  return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${rows[0].pid}/status`, 'utf8'))?.[1])
}

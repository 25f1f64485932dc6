import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
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
  return sum(fields.slice(11, 15).map(Number)) / TICKS + sum(childrenOf(pid).map(cpuSeconds))
}

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number)

const COUNTED = '/sys/fs/cgroup/cpuacct'

type Meter = Disposable & { add(pid: number): void; milliseconds(): number }

/**
 * Counts what processes use together with all that they start, whoever waits for it in the end: sandboxes are nobody's
 * children for long. Where the kernel cannot do that for some alone, it is the whole machine's.
 */
export function openMeter(): Meter {
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

/** The first process of a database on this machine. */
export async function postmasterOf(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query('select pg_backend_pid() as pid')
  return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${rows[0].pid}/status`, 'utf8'))?.[1])
}

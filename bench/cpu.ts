import { readFileSync } from 'node:fs'

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

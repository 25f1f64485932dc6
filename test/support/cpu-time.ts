/** Returns the minimum CPU time of this thread over three runs, in milliseconds. Other processes do not count. */
export async function cpuMs(work: () => unknown): Promise<number> {
  const times: number[] = []
  for (let round = 0; round < 3; round++) {
    const before = process.threadCpuUsage()
    await work()
    const { user, system } = process.threadCpuUsage(before)
    times.push((user + system) / 1000)
  }
  return Math.min(...times)
}

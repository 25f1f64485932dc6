const TICK_MS = 5

/**
 * Measures for how long work blocks the event loop of this process. Preemption by other processes does not count: a gap
 * between two timers counts at most as much as this thread used of a processor in it.
 */
export function watchLoop() {
  const gaps: number[] = []
  let last = sample()
  let timer = setTimeout(tick, TICK_MS)
  function tick() {
    const now = sample()
    gaps.push(Math.min(now.durationMs - last.durationMs, now.cpuMs - last.cpuMs))
    last = now
    timer = setTimeout(tick, TICK_MS)
  }
  return {
    /** Returns the delay in milliseconds of a request that arrives at a random moment, at this percentile. */
    percentile(share: number): number {
      clearTimeout(timer)
      return timeWeighted(gaps, share)
    },
  }
}

const sample = () => {
  const { user, system } = process.threadCpuUsage()
  return { durationMs: performance.now(), cpuMs: (user + system) / 1000 }
}

/** Weighs each gap by its length, because more requests arrive during a long gap than during a short one. */
function timeWeighted(gaps: readonly number[], share: number): number {
  const sorted = [...gaps].sort((a, b) => b - a)
  let left = (1 - share) * gaps.reduce((sum, gap) => sum + Math.max(gap, TICK_MS), 0)
  for (const gap of sorted) {
    left -= Math.max(gap, TICK_MS)
    if (left < 0) return gap
  }
  return 0
}

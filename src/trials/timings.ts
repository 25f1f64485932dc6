import type { Timings as Seconds } from './record.ts'

type Phase = Exclude<keyof Seconds, 'total'>

/** How long each phase of a trial takes. */
export type Timings = {
  of<T>(phase: Phase, work: () => Promise<T>): Promise<T>
  soFar(): Seconds
}

export function startTimings(): Timings {
  const started = performance.now()
  const spent = { prepare: 0, agent: 0, verify: 0 }
  return {
    async of(phase, work) {
      const begun = performance.now()
      try {
        return await work()
      } finally {
        spent[phase] += performance.now() - begun
      }
    },
    soFar: () => ({
      prepare: seconds(spent.prepare),
      agent: seconds(spent.agent),
      verify: seconds(spent.verify),
      total: seconds(performance.now() - started),
    }),
  }
}

/** To the millisecond. */
const seconds = (ms: number): number => Math.round(ms) / 1000

import type { Level, Protocol } from '../model-access.ts'
import type { Saying } from './model-bench.ts'

/** Efforts by their names, which are those of the levels. */
export const efforts = (protocol: Protocol, model: string, levels: Level[]): Saying[] =>
  levels.map((level) => ({ protocol, model, level, wireLevel: { effort: level } }))

export const budget = (protocol: Protocol, model: string, budgetTokens: number): Saying => ({
  ...{ protocol, model, level: 'low', wireLevel: { budgetTokens } },
})

export const off = (protocol: Protocol, model: string): Saying => ({
  ...{ protocol, model, level: 'none', wireLevel: { off: true } },
})

export const silence = (protocol: Protocol, model: string): Saying => ({
  ...{ protocol, model, level: 'none', wireLevel: { nothing: true } },
})

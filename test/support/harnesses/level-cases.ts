import type { Level, Protocol } from '../../../src/harnesses/model-access.ts'
import type { LevelCase } from './scripted-gateway.ts'

/** Cases in which the effort has the name of the level. */
export const efforts = (protocol: Protocol, model: string, levels: Level[]): LevelCase[] =>
  levels.map((level) => ({ protocol, model, level, wireLevel: { effort: level } }))

export const budget = (protocol: Protocol, model: string, budgetTokens: number): LevelCase => ({
  protocol,
  model,
  level: 'low',
  wireLevel: { budgetTokens },
})

export const off = (protocol: Protocol, model: string): LevelCase => ({
  protocol,
  model,
  level: 'none',
  wireLevel: { off: true },
})

export const unset = (protocol: Protocol, model: string): LevelCase => ({
  protocol,
  model,
  level: 'none',
  wireLevel: { nothing: true },
})

import type { Level, Protocol, WireLevel } from '../harnesses/model-access.ts'

const OPENAI: readonly Protocol[] = ['openai-chat', 'openai-responses']

/** How a model that a workspace has added is asked for a level: as the models of the protocol's own provider are. */
export function customWire(protocol: Protocol, level: Level, all: readonly Level[]): WireLevel {
  if (level !== 'none') return { effort: level }
  // It has nothing else: then there is nothing to switch off.
  if (all.length === 1) return { nothing: true }
  return OPENAI.includes(protocol) ? { effort: 'none' } : { off: true }
}

import type { Level, Protocol, WireLevel } from '../harnesses/model-access.ts'

const OPENAI: readonly Protocol[] = ['openai-chat', 'openai-responses']

/** Returns the wire level of a custom model, in the form of the protocol's own provider. */
export function toCustomWireLevel(protocol: Protocol, level: Level, all: readonly Level[]): WireLevel {
  if (level !== 'none') return { effort: level }
  // The model has no other level, so there is nothing to switch off.
  if (all.length === 1) return { nothing: true }
  return OPENAI.includes(protocol) ? { effort: 'none' } : { off: true }
}

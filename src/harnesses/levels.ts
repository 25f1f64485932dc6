import type { ModelTraits, Protocol, WireLevel } from './model-access.ts'

/** The reasoning levels that a program can express in one protocol. */
type LevelSupport = {
  /** `any`: the program forwards every effort unchanged. */
  efforts: readonly string[] | 'any'
  budgets: boolean
  off: boolean
  /** True if the program can omit the parameter. */
  unset: boolean
}

export type LevelMapping = Partial<Record<Protocol, LevelSupport>>

/** Returns the first protocol that program and model support and that can express the level exactly. */
export const findProtocol = (
  mapping: LevelMapping,
  preferred: readonly Protocol[],
  { protocols }: ModelTraits,
  wire: WireLevel,
): Protocol | undefined =>
  preferred.find((protocol) => protocols.includes(protocol) && canExpress(mapping[protocol], wire))

function canExpress(support: LevelSupport | undefined, wire: WireLevel): boolean {
  if (!support) return false
  const { efforts, budgets, off, unset } = support
  if ('effort' in wire) return efforts === 'any' || efforts.includes(wire.effort)
  if ('budgetTokens' in wire) return budgets
  return 'off' in wire ? off : unset
}

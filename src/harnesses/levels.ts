import type { ModelTraits, Protocol, WireLevel } from './model-access.ts'

/** What a program can say of thinking, in one protocol. */
type Vocabulary = {
  /** `any`: it passes on what it is given. */
  efforts: readonly string[] | 'any'
  budgets: boolean
  off: boolean
  /** Whether it can keep silent about it. */
  silence: boolean
}

export type Vocabularies = Partial<Record<Protocol, Vocabulary>>

/** The first protocol that both know and in which this can be said exactly. */
export const sayableIn = (
  vocabularies: Vocabularies,
  preferred: readonly Protocol[],
  { protocols }: ModelTraits,
  wire: WireLevel,
): Protocol | undefined =>
  preferred.find((protocol) => protocols.includes(protocol) && canSay(vocabularies[protocol], wire))

function canSay(vocabulary: Vocabulary | undefined, wire: WireLevel): boolean {
  if (!vocabulary) return false
  const { efforts, budgets, off, silence } = vocabulary
  if ('effort' in wire) return efforts === 'any' || efforts.includes(wire.effort)
  if ('budgetTokens' in wire) return budgets
  return 'off' in wire ? off : silence
}

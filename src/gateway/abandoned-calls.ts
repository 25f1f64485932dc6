/** Calls of a grant that may be abandoned and still cost only what the provider had produced. */
const ABANDONED_MAX = 16
const GRANTS_MAX = 10_000

export type AbandonedCalls = {
  /** Counts a call that was canceled because its program had left. Tells whether the grant has too many of them. */
  add(grantId: string): boolean
}

/**
 * Counts abandoned calls by grant. A canceled call may still be completed and billed by its provider, and its usage stays
 * unknown: a program that leaves call after call could spend any amount. An ordinary program abandons a few at its end.
 */
export function createAbandonedCalls(): AbandonedCalls {
  const counts = new Map<string, number>()
  return {
    add(grantId) {
      const count = (counts.get(grantId) ?? 0) + 1
      counts.delete(grantId)
      counts.set(grantId, count)
      const [oldest] = counts.keys()
      if (counts.size > GRANTS_MAX && oldest !== undefined) counts.delete(oldest)
      return count > ABANDONED_MAX
    },
  }
}

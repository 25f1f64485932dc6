import type { EgressRefusal, Target } from './rules.ts'

/** Summary of a sandbox's egress traffic. */
export type EgressSummary = {
  connections: number
  /** Bytes in both directions together. */
  bytes: number
  /** Distinct entries, limited to the first ones. */
  reached: string[]
  refused: { count: number; first: { host: string; reason: EgressRefusal }[] }
}

const LISTED_MAX = 100
const HOST_LENGTH_MAX = 260

/**
 * Counts egress traffic. The sandbox decides how much there is, so the lists are bounded and only the counts continue.
 */
export function openLedger(bytesMax: number) {
  const reached = new Set<string>()
  const refusals = new Map<string, { host: string; reason: EgressRefusal }>()
  const counts = { connections: 0, bytes: 0, refused: 0 }
  return {
    reach(target: Target): void {
      counts.connections += 1
      if (reached.size < LISTED_MAX) reached.add(nameOf(target))
    },
    refuse(host: string, reason: EgressRefusal): void {
      counts.refused += 1
      const entry = { host: toShownHost(host), reason }
      if (refusals.size < LISTED_MAX) refusals.set(`${reason} ${entry.host}`, entry)
    },
    /** Adds to the count. Returns false if the limit is reached. */
    spend(bytes: number): boolean {
      counts.bytes += bytes
      return counts.bytes <= bytesMax
    },
    isSpent: (): boolean => counts.bytes > bytesMax,
    summary: (): EgressSummary => ({
      connections: counts.connections,
      bytes: counts.bytes,
      reached: [...reached],
      refused: { count: counts.refused, first: [...refusals.values()] },
    }),
  }
}

export type EgressLedger = ReturnType<typeof openLedger>

export const nameOf = ({ host, port }: Target): string => `${host.includes(':') ? `[${host}]` : host}:${port}`

const toShownHost = (host: string): string => host.replace(/[^\x21-\x7e]/g, '?').slice(0, HOST_LENGTH_MAX)

import {
  type Call,
  type GrantRefusal,
  type GrantState,
  isFinal,
  type Ledger,
  type NewCall,
  type NewGrant,
} from './ledger.ts'
import { NO_USAGE } from './wire.ts'

type Kept = GrantState & Pick<NewGrant, 'tokenHash' | 'listenerHash'>

/** The ledger of one process, for trials without a server. It ends with the process. */
export function memoryLedger(): Ledger {
  const grants = new Map<string, Kept>()
  const calls = new Map<string, Call>()
  const openCalls = (grantId: string): Call[] =>
    grants.get(grantId)?.calls.filter(({ settledAt }) => settledAt === null) ?? []
  return {
    async open({ tokenHash, listenerHash, ...grant }) {
      for (const kept of grants.values()) if (isSameSubject(kept.grant, grant)) kept.closedAt ??= new Date()
      const fresh = { spentMicros: 0, refusals: {}, lastRefusal: null, closedAt: null, calls: [] }
      grants.set(grant.id, { grant: structuredClone(grant), tokenHash, listenerHash, ...fresh })
    },
    async findByListener(hash) {
      const kept = [...grants.values()].find(({ listenerHash }) => listenerHash.equals(hash))
      return kept && { ...structuredClone(kept.grant), tokenHash: kept.tokenHash }
    },
    async reserve(call) {
      const kept = grants.get(call.grantId)
      const refusal = kept ? refusalOf(kept, call) : 'closed'
      if (!kept || refusal) return refusal ?? 'closed'
      const row = openCall(call)
      calls.set(call.id, row)
      kept.calls.push(row)
      kept.spentMicros += call.reservedMicros ?? 0
      return 'reserved'
    },
    async refuse(grantId, reason) {
      const kept = grants.get(grantId)
      if (!kept) return
      kept.refusals[reason] = (kept.refusals[reason] ?? 0) + 1
      if (isFinal(reason) || !kept.lastRefusal || !isFinal(kept.lastRefusal.reason))
        kept.lastRefusal = { reason, at: new Date() }
    },
    async settle(callId, settlement) {
      const call = calls.get(callId)
      const kept = grants.get(call?.grantId ?? '')
      if (!call || !kept || call.settledAt) return
      Object.assign(call, structuredClone(settlement), { settledAt: new Date() })
      const reserved = call.reservedMicros ?? 0
      kept.spentMicros += (settlement.costMicros ?? reserved) - reserved
    },
    async close(grantId) {
      const kept = grants.get(grantId)
      if (kept) kept.closedAt ??= new Date()
    },
    countOpenCalls: async (grantId) => openCalls(grantId).length,
    async noteAlive() {}, // it lives as long as we do
    async giveUpOpenCalls(grantId) {
      for (const call of openCalls(grantId)) Object.assign(call, { outcome: 'lost', settledAt: new Date() })
    },
    async read(grantId) {
      const kept = grants.get(grantId)
      if (!kept) return undefined
      const { tokenHash: _token, listenerHash: _listener, ...state } = kept
      return structuredClone(state)
    },
  }
}

const isSameSubject = (one: { workspaceId: string; subject: string }, other: typeof one): boolean =>
  one.workspaceId === other.workspaceId && one.subject === other.subject

function refusalOf({ grant, spentMicros, closedAt, calls }: Kept, call: NewCall): GrantRefusal | undefined {
  if (closedAt) return 'closed'
  if (grant.expiresAt.getTime() <= Date.now()) return 'expired'
  if (calls.length >= grant.callsMax) return 'calls'
  const { budgetMicros } = grant
  if (budgetMicros !== null && spentMicros + (call.reservedMicros ?? 0) > budgetMicros) return 'budget'
  return undefined
}

const openCall = (call: NewCall): Call => ({
  ...structuredClone(call),
  outcome: 'open',
  usage: { ...NO_USAGE },
  costMicros: call.reservedMicros,
  costSource: call.reservedMicros === null ? 'unknown' : 'reserved',
  status: null,
  failure: null,
  tries: 0,
  servedModel: null,
  serviceTier: null,
  isRefusal: false,
  clientLeft: false,
  firstByteMs: null,
  totalMs: null,
  bodies: null,
  startedAt: new Date(),
  settledAt: null,
})

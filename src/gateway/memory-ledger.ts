import {
  type Call,
  type GrantState,
  isFinal,
  type Ledger,
  type NewCall,
  type NewGrant,
  type ReservationRefused,
  type Reserved,
  type ReserveResult,
} from './ledger.ts'
import { NO_USAGE } from './wire.ts'

type Kept = GrantState & Pick<NewGrant, 'tokenHash' | 'listenerHash'>

/** The ledger of one process, for trials without a server. It ends with the process. */
export function memoryLedger(): Ledger {
  const grants = new Map<string, Kept>()
  const calls = new Map<string, Call>()
  const living = new Set<string>()
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
      const result = kept ? reservationIn(kept, call) : CLOSED
      if (!kept || result.kind === 'refused') return result
      const row = openCall(call, result)
      calls.set(call.id, row)
      kept.calls.push(row)
      kept.spentMicros += result.reservedMicros ?? 0
      return result
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
      if (!call || !kept || (call.settledAt && call.outcome !== 'lost')) return
      Object.assign(call, structuredClone(settlement), { settledAt: new Date() })
      const reserved = call.reservedMicros ?? 0
      kept.spentMicros += (settlement.costMicros ?? reserved) - reserved
    },
    async close(grantId) {
      const kept = grants.get(grantId)
      if (kept) kept.closedAt ??= new Date()
    },
    countOpenCalls: async (grantId) => openCalls(grantId).length,
    async noteAlive(gatewayId) {
      living.add(gatewayId)
    },
    async giveUpLostCalls(grantId) {
      const lost = openCalls(grantId).filter(({ gatewayId }) => !living.has(gatewayId ?? ''))
      for (const call of lost) Object.assign(call, { outcome: 'lost', failure: 'gateway', settledAt: new Date() })
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

const refused = (reason: ReservationRefused['reason'], mayPass = false): ReservationRefused => ({
  kind: 'refused',
  reason,
  mayPass,
})

const CLOSED = refused('closed')

function reservationIn({ grant, spentMicros, closedAt, calls }: Kept, { bounds }: NewCall): ReserveResult {
  if (closedAt) return CLOSED
  if (grant.expiresAt.getTime() <= Date.now()) return refused('expired')
  if (calls.length >= grant.callsMax) return refused('calls')
  if (bounds === null) return { kind: 'reserved', reservedMicros: null, limitedBy: null }
  const room = grant.budgetMicros === null ? Number.POSITIVE_INFINITY : grant.budgetMicros - spentMicros
  const pending = calls.reduce((sum, call) => sum + (call.settledAt ? 0 : (call.reservedMicros ?? 0)), 0)
  if (bounds.leastMicros > room) return refused('budget', bounds.leastMicros <= room + pending)
  const reservedMicros = Math.min(bounds.mostMicros, room)
  return { kind: 'reserved', reservedMicros, limitedBy: reservedMicros < bounds.mostMicros ? 'budget' : null }
}

const openCall = ({ bounds: _, ...call }: NewCall, { reservedMicros, limitedBy }: Reserved): Call => ({
  ...structuredClone(call),
  reservedMicros,
  limitedBy,
  outcome: 'open',
  usage: { ...NO_USAGE },
  costMicros: reservedMicros,
  costSource: reservedMicros === null ? 'unknown' : 'reserved',
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
  outputLimit: null,
  startedAt: new Date(),
  settledAt: null,
})

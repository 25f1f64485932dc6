import {
  type GrantState,
  isFinalRefusal,
  type Ledger,
  type NewCall,
  type NewGrant,
  type RecordedCall,
  type ReservationRefused,
  type Reserved,
  type ReserveResult,
} from './ledger.ts'
import { NO_USAGE } from './wire-protocol.ts'

type GrantRecord = GrantState & Pick<NewGrant, 'tokenHash' | 'tunnelSecretHash'>

/** A ledger in memory, for trials without a server. */
export function createMemoryLedger(): Ledger {
  const grants = new Map<string, GrantRecord>()
  const calls = new Map<string, RecordedCall>()
  const liveGateways = new Set<string>()
  const openCalls = (grantId: string): RecordedCall[] =>
    grants.get(grantId)?.calls.filter(({ settledAt }) => settledAt === null) ?? []
  return {
    async open({ tokenHash, tunnelSecretHash, ...grant }) {
      for (const record of grants.values()) if (isSameGrantee(record.grant, grant)) record.closedAt ??= new Date()
      const initialState = { spentMicros: 0, refusals: {}, lastRefusal: null, closedAt: null, calls: [] }
      grants.set(grant.id, { grant: structuredClone(grant), tokenHash, tunnelSecretHash, ...initialState })
    },
    async findByTunnelSecret(hash) {
      const record = [...grants.values()].find(({ tunnelSecretHash }) => tunnelSecretHash.equals(hash))
      return record && { ...structuredClone(record.grant), tokenHash: record.tokenHash }
    },
    renew: async (grantId, hash) => replaceTunnelSecret(grants.get(grantId), hash),
    async reserve(call) {
      const record = grants.get(call.grantId)
      const result = record ? tryReserve(record, call) : CLOSED_REFUSAL
      if (!record || result.kind === 'refused') return result
      const row = newOpenCall(call, result)
      calls.set(call.id, row)
      record.calls.push(row)
      record.spentMicros += result.reservedMicros ?? 0
      return result
    },
    async refuse(grantId, reason) {
      const record = grants.get(grantId)
      if (!record) return
      record.refusals[reason] = (record.refusals[reason] ?? 0) + 1
      if (isFinalRefusal(reason) || !record.lastRefusal || !isFinalRefusal(record.lastRefusal.reason))
        record.lastRefusal = { reason, at: new Date() }
    },
    async settle(callId, settlement) {
      const call = calls.get(callId)
      const record = grants.get(call?.grantId ?? '')
      if (!call || !record || (call.settledAt && call.outcome !== 'lost')) return
      Object.assign(call, structuredClone(settlement), { settledAt: new Date() })
      const reserved = call.reservedMicros ?? 0
      record.spentMicros += (settlement.costMicros ?? reserved) - reserved
    },
    async close(grantId) {
      const record = grants.get(grantId)
      if (record) record.closedAt ??= new Date()
    },
    countOpenCalls: async (grantId) => openCalls(grantId).length,
    async noteAlive(gatewayId) {
      liveGateways.add(gatewayId)
    },
    async giveUpLostCalls(grantId) {
      const lost = openCalls(grantId).filter(({ gatewayId }) => !liveGateways.has(gatewayId ?? ''))
      for (const call of lost) Object.assign(call, { outcome: 'lost', failure: 'gateway', settledAt: new Date() })
    },
    async read(grantId) {
      const record = grants.get(grantId)
      if (!record) return undefined
      const { tokenHash: _token, tunnelSecretHash: _tunnelSecret, ...state } = record
      return structuredClone(state)
    },
  }
}

const isSameGrantee = (one: { workspaceId: string; grantee: string }, other: typeof one): boolean =>
  one.workspaceId === other.workspaceId && one.grantee === other.grantee

function replaceTunnelSecret(record: GrantRecord | undefined, hash: Buffer): boolean {
  if (!record || record.closedAt || record.grant.expiresAt.getTime() <= Date.now()) return false
  record.tunnelSecretHash = hash
  return true
}

const refused = (reason: ReservationRefused['reason'], mayPass = false): ReservationRefused => ({
  kind: 'refused',
  reason,
  mayPass,
})

const CLOSED_REFUSAL = refused('closed')

function tryReserve({ grant, spentMicros, closedAt, calls }: GrantRecord, { bounds }: NewCall): ReserveResult {
  if (closedAt) return CLOSED_REFUSAL
  if (grant.expiresAt.getTime() <= Date.now()) return refused('expired')
  if (calls.length >= grant.callsMax) return refused('calls')
  if (bounds === null) return { kind: 'reserved', reservedMicros: null, limitedBy: null }
  const available = grant.budgetMicros === null ? Number.POSITIVE_INFINITY : grant.budgetMicros - spentMicros
  const pending = calls.reduce((sum, call) => sum + (call.settledAt ? 0 : (call.reservedMicros ?? 0)), 0)
  if (bounds.leastMicros > available) return refused('budget', bounds.leastMicros <= available + pending)
  const reservedMicros = Math.min(bounds.mostMicros, available)
  return { kind: 'reserved', reservedMicros, limitedBy: reservedMicros < bounds.mostMicros ? 'budget' : null }
}

const newOpenCall = ({ bounds: _, ...call }: NewCall, { reservedMicros, limitedBy }: Reserved): RecordedCall => ({
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

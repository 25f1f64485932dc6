import { type Db, transact } from '../platform/db/db.ts'
import type { Ledger, NewCall, ReserveResult } from './ledger.ts'
import {
  closeGranteeGrants,
  closeGrantRow,
  countOpenCallRows,
  countRefusal,
  findGrantByTunnelSecret,
  findGrantState,
  findRefusal,
  insertGrant,
  lockGrantee,
  markLostCalls,
  recordGatewayAlive,
  replaceTunnelSecret,
  reserveCall,
  settleCall,
} from './sql.ts'

/**
 * A ledger in PostgreSQL, shared by any number of gateways and workers. A gateway is dead after `silenceMs` without a
 * report.
 */
export const createStoredLedger = (db: Db, { silenceMs }: { silenceMs?: number } = {}): Ledger => ({
  open: (grant) =>
    transact(db, async (tx) => {
      await lockGrantee(tx, grant)
      await closeGranteeGrants(tx, grant)
      await insertGrant(tx, grant)
    }),
  findByTunnelSecret: (hash) => findGrantByTunnelSecret(db, hash),
  renew: async (grantId, hash) => (await replaceTunnelSecret(db, grantId, hash)).numAffectedRows === 1n,
  reserve: (call) => reserve(db, call),
  refuse: async (grantId, reason) => void (await countRefusal(db, grantId, reason)),
  settle: async (callId, settlement) => void (await settleCall(db, callId, settlement)),
  close: async (grantId) => void (await closeGrantRow(db, grantId)),
  countOpenCalls: (grantId) => countOpenCallRows(db, grantId),
  noteAlive: (gatewayId) => recordGatewayAlive(db, gatewayId),
  giveUpLostCalls: (grantId) => markLostCalls(db, grantId, silenceMs),
  read: (grantId) => findGrantState(db, grantId),
})

const RESERVE_TRIES_MAX = 3

/** Retries if another call returned its reservation between the two statements. */
async function reserve(db: Db, call: NewCall): Promise<ReserveResult> {
  for (let count = 0; count < RESERVE_TRIES_MAX; count++) {
    const reserved = await reserveCall(db, call)
    if (reserved) return { kind: 'reserved', ...reserved }
    const refusal = await findRefusal(db, call)
    if (refusal) return { kind: 'refused', ...refusal }
  }
  return { kind: 'refused', reason: 'budget', mayPass: true }
}

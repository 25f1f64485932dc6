import { type Db, transact } from '../platform/db/db.ts'
import type { Ledger, NewCall, ReserveResult } from './ledger.ts'
import {
  closeGrantRow,
  closeGrantsOf,
  countOpenCallRows,
  countRefusal,
  findGrantByListener,
  findRefusal,
  insertGrant,
  lockSubject,
  loseOpenCalls,
  noteGateway,
  readGrantState,
  reserveCall,
  settleCall,
} from './sql.ts'

/** The ledger of a server: any number of gateways and workers share it. After `silenceMs` a gateway is taken for dead. */
export const storedLedger = (db: Db, { silenceMs }: { silenceMs?: number } = {}): Ledger => ({
  open: (grant) =>
    transact(db, async (tx) => {
      await lockSubject(tx, grant)
      await closeGrantsOf(tx, grant)
      await insertGrant(tx, grant)
    }),
  findByListener: (hash) => findGrantByListener(db, hash),
  reserve: (call) => reserve(db, call),
  refuse: async (grantId, reason) => void (await countRefusal(db, grantId, reason)),
  settle: async (callId, settlement) => void (await settleCall(db, callId, settlement)),
  close: async (grantId) => void (await closeGrantRow(db, grantId)),
  countOpenCalls: (grantId) => countOpenCallRows(db, grantId),
  noteAlive: (gatewayId) => noteGateway(db, gatewayId),
  giveUpLostCalls: (grantId) => loseOpenCalls(db, grantId, silenceMs),
  read: (grantId) => readGrantState(db, grantId),
})

const TRIES = 3

/** Another call may return room between the two statements: then the reservation is tried again. */
async function reserve(db: Db, call: NewCall): Promise<ReserveResult> {
  for (let count = 0; count < TRIES; count++) {
    const reserved = await reserveCall(db, call)
    if (reserved) return { kind: 'reserved', ...reserved }
    const refusal = await findRefusal(db, call)
    if (refusal) return { kind: 'refused', ...refusal }
  }
  return { kind: 'refused', reason: 'budget', mayPass: true }
}

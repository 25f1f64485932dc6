import { type Db, transact } from '../platform/db/db.ts'
import type { GrantRefusal, Ledger, NewCall } from './ledger.ts'
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
  giveUpOpenCalls: async (grantId) => void (await loseOpenCalls(db, grantId, silenceMs)),
  read: (grantId) => readGrantState(db, grantId),
})

const TRIES = 3

/** Another call may have given room back between the two questions: then the first is asked again. */
async function reserve(db: Db, call: NewCall): Promise<'reserved' | GrantRefusal> {
  for (let count = 0; count < TRIES; count++) {
    if (await reserveCall(db, call)) return 'reserved'
    const refusal = await findRefusal(db, call)
    if (refusal) return refusal
  }
  return 'budget'
}

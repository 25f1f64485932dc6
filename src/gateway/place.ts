import type { ModelAccess } from '../harnesses/model-access.ts'
import type { ModelPlace } from '../trials/bench.ts'
import { openModel } from './client/open-model.ts'
import { sandboxPort } from './dial.ts'
import { closeGrant, openGrant } from './grants.ts'
import type { GrantFacts, Ledger } from './ledger.ts'
import type { GrantTotals } from './totals.ts'

/** The way of one trial to its model, for as long as it is open. */
export type OpenPlace = {
  place: ModelPlace
  /** Nothing is spent after this. Answers what was. Harmless twice. */
  close(): Promise<GrantTotals>
}

type Wish = Omit<GrantFacts, 'id'> & { access: Omit<ModelAccess, 'token'> }
type Gateway = { ledger: Ledger; gatewayUrl: string }

/** A grant, a port of the sandbox that leads to it, and a client for who works from outside of the sandbox. */
export async function openPlace({ ledger, gatewayUrl }: Gateway, { access, ...wish }: Wish): Promise<OpenPlace> {
  const { id, token, listener } = await openGrant(ledger, wish)
  const port = sandboxPort({ gatewayUrl, listener })
  const client = openModel({ ...access, token }, { url: gatewayUrl, listener })
  return {
    place: { access: { ...access, token }, port, ask: client.ask },
    close: async () => {
      const isCutOff = port.isCutOff() || client.isCutOff()
      port.close()
      await client[Symbol.asyncDispose]()
      const totals = await closeGrant(ledger, id)
      return isCutOff ? { ...totals, gatewayGone: true } : totals
    },
  }
}

import type { ModelAccess } from '../harnesses/model-access.ts'
import type { TrialModel } from '../trials/trial-request.ts'
import { openModel } from './client/open-model.ts'
import { closeGrant, openGrant } from './grants.ts'
import type { GrantFacts, Ledger } from './ledger.ts'
import { openSandboxPort } from './sandbox-port.ts'
import type { GrantTotals } from './totals.ts'

/** The connection of one trial to its model. */
export type ModelConnection = {
  trialModel: TrialModel
  /** Closes the grant and returns its totals. Nothing is spent afterwards. Idempotent. */
  close(): Promise<GrantTotals>
}

type ModelConnectionInput = Omit<GrantFacts, 'id'> & { access: Omit<ModelAccess, 'token'> }
type GatewayRef = { ledger: Ledger; gatewayUrl: string }

/** Opens a grant, a port for the sandbox, and a client for harnesses that run outside the sandbox. */
export async function openModelConnection(
  { ledger, gatewayUrl }: GatewayRef,
  { access, ...grant }: ModelConnectionInput,
): Promise<ModelConnection> {
  const { id, token, tunnelSecret } = await openGrant(ledger, grant)
  const port = openSandboxPort({ gatewayUrl, tunnelSecret })
  const client = openModel({ ...access, token }, { url: gatewayUrl, tunnelSecret })
  return {
    trialModel: { access: { ...access, token }, port, ask: client.ask },
    close: async () => {
      const isCutOff = port.isCutOff() || client.isCutOff()
      port.close()
      await client[Symbol.asyncDispose]()
      const totals = await closeGrant(ledger, id)
      return isCutOff ? { ...totals, gatewayGone: true } : totals
    },
  }
}

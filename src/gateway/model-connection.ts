import { resolveProtocol } from '../catalog/harnesses.ts'
import type { Model } from '../catalog/model.ts'
import type { Harness } from '../harnesses/harness.ts'
import type { ModelAccess } from '../harnesses/model-access.ts'
import type { TrialModel } from '../trials/trial-request.ts'
import { openModel } from './client/open-model.ts'
import { closeGrant, openGrant } from './grants.ts'
import type { GrantFacts, Ledger, Terms } from './ledger.ts'
import { openSandboxPort, SANDBOX_GATEWAY_URL } from './sandbox-port.ts'
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

/** The harness does not support the model or the reasoning level. */
export class ModelUnfit extends Error {
  override name = 'ModelUnfit'
}

/** Returns how a harness reaches a model from its sandbox, and the terms of its grant. Throws `ModelUnfit`. */
export function resolveModelTerms(
  model: Model,
  levelName: string,
  harness: Harness,
): { access: Omit<ModelAccess, 'token'>; terms: Terms } {
  const resolved = resolveProtocol(harness, model, levelName)
  if (!resolved) throw new ModelUnfit(`${harness.name} cannot ask ${model.label} for exactly the level ${levelName}.`)
  return {
    access: { ...resolved, baseUrl: SANDBOX_GATEWAY_URL },
    terms: {
      catalogId: model.catalogId,
      model: model.name,
      provider: model.provider,
      baseUrl: model.baseUrl,
      cloud: model.cloud,
      protocols: [resolved.protocol],
      wireLevel: resolved.wireLevel,
      contextTokens: model.contextTokens,
      isContextDeclared: model.custom,
      outputTokens: model.outputTokens,
      prices: model.prices,
      helpers: harness.auxiliaryModels,
      recordBodies: false,
    },
  }
}

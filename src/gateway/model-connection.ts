import { resolveProtocol } from '../catalog/harnesses.ts'
import type { Model } from '../catalog/model.ts'
import type { Harness } from '../harnesses/harness.ts'
import type { ModelAccess } from '../harnesses/model-access.ts'
import type { TrialModel } from '../trials/trial-request.ts'
import { openModel } from './client/open-model.ts'
import { closeGrant, type OpenedGrant, openGrant, renewGrant } from './grants.ts'
import type { GrantFacts, Ledger, Terms } from './ledger.ts'
import { openSandboxPort, SANDBOX_GATEWAY_URL } from './sandbox-port.ts'
import type { GrantTotals } from './totals.ts'

/** The connection of one trial to its model. */
export type ModelConnection = {
  grantId: string
  trialModel: TrialModel
  /** Closes the grant and returns its totals. Nothing is spent afterwards. Idempotent. */
  close(): Promise<GrantTotals>
  /** Leaves the grant to the process that opens it again. */
  leave(): Promise<void>
}

type ModelConnectionInput = Omit<GrantFacts, 'id'> & { access: Omit<ModelAccess, 'token'> }
type GatewayRef = { ledger: Ledger; gatewayUrl: string }

/** Opens a grant, a port for the sandbox, and a client for harnesses that run outside the sandbox. */
export async function openModelConnection(
  { ledger, gatewayUrl }: GatewayRef,
  { access, ...grant }: ModelConnectionInput,
): Promise<ModelConnection> {
  const opened = await openGrant(ledger, grant)
  return connect({ ledger, gatewayUrl }, { ...access, token: opened.token }, opened)
}

/**
 * Opens the port of a grant that another process has opened, for an agent that still runs. The token is unknown: only the
 * agent has it. Returns undefined if the grant is closed or expired.
 */
export async function reopenModelConnection(
  { ledger, gatewayUrl }: GatewayRef,
  access: Omit<ModelAccess, 'token'>,
  id: string,
): Promise<ModelConnection | undefined> {
  const renewed = await renewGrant(ledger, id)
  return renewed && connect({ ledger, gatewayUrl }, { ...access, token: '' }, { ...renewed, id })
}

function connect(
  { ledger, gatewayUrl }: GatewayRef,
  access: ModelAccess,
  { id, tunnelSecret }: Pick<OpenedGrant, 'id' | 'tunnelSecret'>,
): ModelConnection {
  const port = openSandboxPort({ gatewayUrl, tunnelSecret })
  const pipes = openSandboxPort({ gatewayUrl, tunnelSecret, isResumable: true })
  const client = openModel(access, { url: gatewayUrl, tunnelSecret })
  return {
    grantId: id,
    trialModel: { access, port: { ...port, onPipe: pipes.onConnection }, ask: client.ask },
    close: async () => {
      const isCutOff = port.isCutOff() || pipes.isCutOff() || client.isCutOff()
      port.close()
      pipes.close()
      await client[Symbol.asyncDispose]()
      const totals = await closeGrant(ledger, id)
      return isCutOff ? { ...totals, gatewayGone: true } : totals
    },
    leave: async () => {
      port.close()
      pipes.leave()
      await client[Symbol.asyncDispose]()
    },
  }
}

/** Thrown when a harness does not support a model or its reasoning level. */
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

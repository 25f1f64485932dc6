import { ProxyAgent } from 'undici'
import { type AskModel, ModelCallFailed, type ModelRequest } from '../../harnesses/conversation.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import { isConnectionRefused } from '../sandbox-port.ts'
import { type Completion, complete } from './complete.ts'

/** Base URL of the gateway inside a tunnel. */
const INSIDE = 'http://gateway:80'

type GatewayEndpoint = { url: string; tunnelSecret: string }

export type OpenedModel = AsyncDisposable & {
  ask: AskModel
  complete(request: ModelRequest): Promise<Completion>
  /** Tells whether the last call failed because the gateway was down. */
  isCutOff(): boolean
}

/** Opens a client for a model behind the gateway. The tunnel secret opens the tunnel; the token is sent inside it. */
export function openModel(access: Omit<ModelAccess, 'baseUrl'>, { url, tunnelSecret }: GatewayEndpoint): OpenedModel {
  const agent = new ProxyAgent({ uri: url, token: `Bearer ${tunnelSecret}`, proxyTunnel: true })
  let isCutOff = false
  const ask = async (request: ModelRequest) => {
    try {
      const completion = await complete({ ...access, baseUrl: INSIDE }, request, agent)
      isCutOff = false
      return completion
    } catch (error) {
      isCutOff = error instanceof ModelCallFailed && isConnectionRefused(error.cause)
      throw error
    }
  }
  return { ask, complete: ask, isCutOff: () => isCutOff, [Symbol.asyncDispose]: () => agent.destroy() }
}

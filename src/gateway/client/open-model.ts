import { ProxyAgent } from 'undici'
import { type AskModel, ModelCallFailed, type ModelRequest } from '../../harnesses/conversation.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import { isNobodyThere } from '../dial.ts'
import { type Completion, complete } from './complete.ts'

/** What the gateway is called at the other end of its tunnel. */
const INSIDE = 'http://gateway:80'

type Gateway = { url: string; listener: string }

export type OpenedModel = AsyncDisposable & {
  ask: AskModel
  complete(asking: ModelRequest): Promise<Completion>
  /** Nobody was there when the gateway was last called. */
  isCutOff(): boolean
}

/** A model, through the gateway and no other way, until it is closed. The listener opens the way, the token is sent inside. */
export function openModel(access: Omit<ModelAccess, 'baseUrl'>, { url, listener }: Gateway): OpenedModel {
  const way = new ProxyAgent({ uri: url, token: `Bearer ${listener}`, proxyTunnel: true })
  let isCutOff = false
  const ask = async (asking: ModelRequest) => {
    try {
      const completion = await complete({ ...access, baseUrl: INSIDE }, asking, way)
      isCutOff = false
      return completion
    } catch (error) {
      isCutOff = error instanceof ModelCallFailed && isNobodyThere(error.cause)
      throw error
    }
  }
  return { ask, complete: ask, isCutOff: () => isCutOff, [Symbol.asyncDispose]: () => way.destroy() }
}

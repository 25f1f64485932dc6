import { ProxyAgent } from 'undici'
import type { Ask, Asking } from '../../harnesses/conversation.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import { type Completion, complete } from './complete.ts'

/** What the gateway is called at the other end of its tunnel. */
const INSIDE = 'http://gateway:80'

type Gateway = { url: string; listener: string }

export type OpenedModel = AsyncDisposable & { ask: Ask; complete(asking: Asking): Promise<Completion> }

/** A model, through the gateway and no other way, until it is closed. The listener opens the way, the token is sent inside. */
export function openModel(access: Omit<ModelAccess, 'baseUrl'>, { url, listener }: Gateway): OpenedModel {
  const way = new ProxyAgent({ uri: url, token: `Bearer ${listener}`, proxyTunnel: true })
  const ask = (asking: Asking) => complete({ ...access, baseUrl: INSIDE }, asking, way)
  return { ask, complete: ask, [Symbol.asyncDispose]: () => way.destroy() }
}

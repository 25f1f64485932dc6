import type { ServerResponse } from 'node:http'
import { malformedBody, Problem } from '../problem.ts'
import { type Caller, toScope } from './caller.ts'
import type { Endpoint } from './endpoint.ts'

/**
 * Maximum number of open requests of a workspace, from the first byte of the body to the last of the answer. It limits the
 * memory and disk that clients who send or read slowly can take.
 */
export const OPEN_REQUESTS_MAX = 64

type RequestOrigin = { caller: Caller | undefined; address: string }

/** Waits until a request may be received. The returned function waits until it may be worked on. */
export type EnterRequest = (endpoint: Endpoint, outgoing: ServerResponse, from: RequestOrigin) => Promise<TakeWorkSlot>
type TakeWorkSlot = () => Promise<Disposable | undefined>

/**
 * Limits the requests of each workspace, and of each address for requests without a key, so that many requests of one
 * delay only its own: the others find free memory, database connections and time on the event loop.
 */
export function createFairShares(requestsAtOnce: number): EnterRequest {
  const open = createSlots(OPEN_REQUESTS_MAX)
  const work = createSlots(requestsAtOnce)
  return async (endpoint, outgoing, { caller, address }) => {
    const share = caller ? toScope(caller) : `address ${address}`
    // Bodies without a key are small, and a valid sign-in must not wait for others of its address.
    if (caller) holdUntilAnswered(await open(share), endpoint, outgoing)
    return () => takeWorkSlot(work, endpoint, outgoing, share)
  }
}

/** Holds a slot until the answer has been sent or the client has left; for an event stream until it begins. */
function holdUntilAnswered(slot: Disposable, { events }: Endpoint, outgoing: ServerResponse): void {
  if (events !== undefined || outgoing.destroyed) slot[Symbol.dispose]()
  else outgoing.once('close', () => slot[Symbol.dispose]())
}

/**
 * Takes a slot for the work of a request, except for work that reports progress: it takes minutes and mostly waits.
 * Uploads take long too, and have slots of their own.
 */
async function takeWorkSlot(work: TakeSlot, endpoint: Endpoint, outgoing: ServerResponse, share: string) {
  if (endpoint.progress !== undefined) return undefined
  const slot = await work(endpoint.upload === undefined ? share : `uploads of ${share}`)
  if (!outgoing.destroyed) return slot
  slot[Symbol.dispose]()
  throw new Problem(malformedBody, 'The client disconnected before its request was handled.')
}

/** Takes a slot of a share, or waits for one. Waiting requests of a share continue in the order of their arrival. */
type TakeSlot = (share: string) => Promise<Disposable>

function createSlots(perShare: number): TakeSlot {
  const shares = new Map<string, { taken: number; waiting: (() => void)[] }>()
  const release = (name: string) => {
    const share = shares.get(name)
    if (!share) return
    const next = share.waiting.shift()
    if (next) return next()
    share.taken -= 1
    if (share.taken === 0) shares.delete(name)
  }
  return async (name) => {
    const share = shares.get(name) ?? { taken: 0, waiting: [] }
    shares.set(name, share)
    if (share.taken < perShare) share.taken += 1
    else await new Promise<void>((resolve) => share.waiting.push(resolve))
    return { [Symbol.dispose]: () => release(name) }
  }
}

import { createHash, randomInt, timingSafeEqual } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { newId } from '../platform/ids.ts'
import type { GrantFacts, Ledger } from './ledger.ts'
import { computeTotals, type GrantTotals } from './totals.ts'

/**
 * A new grant with its secrets. The token is for the sandbox, which may read it. The tunnel secret is for the worker
 * alone, which opens tunnels with it: without a tunnel the token is useless. Only hashes of both are stored.
 */
export type OpenedGrant = { id: string; token: string; tunnelSecret: string }

/** Opens a grant and closes earlier grants of the same grantee, so that an abandoned attempt cannot go on spending. */
export async function openGrant(ledger: Ledger, grant: Omit<GrantFacts, 'id'>): Promise<OpenedGrant> {
  const opened = { id: newId(), token: newSecret(), tunnelSecret: newSecret() }
  const hashes = { tokenHash: hashSecret(opened.token), tunnelSecretHash: hashSecret(opened.tunnelSecret) }
  await ledger.open({ ...grant, id: opened.id, ...hashes })
  return opened
}

/**
 * Replaces the tunnel secret of an open grant, so that another worker can take over and the former one cannot open
 * tunnels. Returns undefined if the grant is closed, expired or unknown.
 */
export async function renewGrant(ledger: Ledger, id: string): Promise<{ tunnelSecret: string } | undefined> {
  const tunnelSecret = newSecret()
  return (await ledger.renew(id, hashSecret(tunnelSecret))) ? { tunnelSecret } : undefined
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** Length with as many combinations as 32 random bytes. */
const SECRET_LENGTH = 43

const newSecret = (): string =>
  Array.from({ length: SECRET_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')

/** Hashes a secret for storage. Secrets are long and random, so a slow hash would add nothing. */
export const hashSecret = (secret: string): Buffer => createHash('sha256').update(secret).digest()

export const isSecretOf = (secret: string, hash: Buffer): boolean => timingSafeEqual(hashSecret(secret), hash)

/** Wait before open calls of dead gateways are given up: longer than it takes to notice that a gateway is dead. */
const DRAIN_MS = 15_000
/**
 * Maximum wait for open calls. A live gateway settles the calls of a dead agent within seconds, unless it is
 * overloaded.
 */
const SETTLE_MS = 60_000
const PAUSE_MIN_MS = 10
const PAUSE_MAX_MS = 250

type CloseOptions = { drainMs?: number; settleMs?: number }

/**
 * Closes a grant, after which no call starts, and waits until open calls are settled, also those of other processes. A
 * call of a dead gateway is settled at its reservation. A call that a live gateway does not settle in time stays pending,
 * and its cost counts once it is settled. Idempotent.
 */
export async function closeGrant(
  ledger: Ledger,
  id: string,
  { drainMs = DRAIN_MS, settleMs = SETTLE_MS }: CloseOptions = {},
): Promise<GrantTotals> {
  await ledger.close(id)
  const started = performance.now()
  for (
    let pauseMs = PAUSE_MIN_MS;
    (await ledger.countOpenCalls(id)) > 0;
    pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS)
  ) {
    const elapsedMs = performance.now() - started
    if (elapsedMs > drainMs) await ledger.giveUpLostCalls(id)
    if (elapsedMs > Math.max(drainMs, settleMs)) break
    await wait(pauseMs)
  }
  return readGrant(ledger, id)
}

export async function readGrant(ledger: Ledger, id: string): Promise<GrantTotals> {
  const state = await ledger.read(id)
  if (!state) throw new Error(`Grant ${id} not found`)
  return computeTotals(state)
}

/** A call that counts as one of the concurrent calls of a grant until `release`. */
export type CallSlot = {
  /** Accounts for buffered bytes. Returns false if they would exceed the limit of the grant. */
  takeBytes(bytes: number): boolean
  release(): void
}

export type GrantLimiter = {
  /** Takes a slot for a call. Returns undefined if the grant already has the maximum number of concurrent calls. */
  enter(grantId: string): CallSlot | undefined
}

/** Bounds the concurrent calls and buffered bytes of each grant, so that no sandbox can exhaust the gateway's memory. */
export function createGrantLimiter(limits: { callsAtOnce: number; requestBytesAtOnce: number }): GrantLimiter {
  const used = new Map<string, { calls: number; bytes: number }>()
  return {
    enter(grantId) {
      const grant = used.get(grantId) ?? { calls: 0, bytes: 0 }
      if (grant.calls >= limits.callsAtOnce) return undefined
      grant.calls += 1
      used.set(grantId, grant)
      let callBytes = 0
      return {
        takeBytes(bytes) {
          if (grant.bytes + bytes > limits.requestBytesAtOnce) return false
          grant.bytes += bytes
          callBytes += bytes
          return true
        },
        release() {
          grant.calls -= 1
          grant.bytes -= callBytes
          if (grant.calls === 0) used.delete(grantId)
        },
      }
    },
  }
}

/** Calls of a grant that may be abandoned and still cost only what the provider had produced. */
const ABANDONED_MAX = 16
const COUNTED_GRANTS_MAX = 10_000

export type AbandonedCalls = {
  /** Counts a call that was canceled because its program had left. Tells whether the grant has too many of them. */
  add(grantId: string): boolean
}

/**
 * Counts abandoned calls by grant. A canceled call may still be completed and billed by its provider, and its usage stays
 * unknown: a program that leaves call after call could spend any amount. An ordinary program abandons a few at its end.
 */
export function createAbandonedCalls(): AbandonedCalls {
  const counts = new Map<string, number>()
  return {
    add(grantId) {
      const count = (counts.get(grantId) ?? 0) + 1
      counts.delete(grantId)
      counts.set(grantId, count)
      const [oldest] = counts.keys()
      if (counts.size > COUNTED_GRANTS_MAX && oldest !== undefined) counts.delete(oldest)
      return count > ABANDONED_MAX
    },
  }
}

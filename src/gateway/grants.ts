import { setTimeout as wait } from 'node:timers/promises'
import { newId } from '../platform/ids.ts'
import type { GrantFacts, Ledger } from './ledger.ts'
import { newSecret, secretHash } from './secret.ts'
import { type GrantTotals, totals } from './totals.ts'

/**
 * The token is for the sandbox, which may read it. The listener is for the worker alone, which opens the way to the
 * gateway with it: without that way the token is worth nothing. Both are kept nowhere but as hashes.
 */
export type OpenedGrant = { id: string; token: string; listener: string }

/** Grants that the same subject had before are closed: an attempt that was given up cannot go on spending. */
export async function openGrant(ledger: Ledger, grant: Omit<GrantFacts, 'id'>): Promise<OpenedGrant> {
  const opened = { id: newId(), token: newSecret(), listener: newSecret() }
  const hashes = { tokenHash: secretHash(opened.token), listenerHash: secretHash(opened.listener) }
  await ledger.open({ ...grant, id: opened.id, ...hashes })
  return opened
}

/** A gateway that is silent for longer than it beats is dead by then. */
const DRAIN_MS = 15_000
/** A living gateway settles the calls of a dead agent within seconds; this bounds the wait for one that cannot. */
const SETTLE_MS = 60_000
const POLL_MS = 250

type CloseOptions = { drainMs?: number; settleMs?: number }

/**
 * Closes a grant: no call starts after this. Waits until the calls under way, also in other processes, are settled. Calls
 * of gateways that died stand at their reservations. A call that a living gateway has not settled in time stays open, as
 * pending, and its cost counts when it is settled. Idempotent.
 */
export async function closeGrant(
  ledger: Ledger,
  id: string,
  { drainMs = DRAIN_MS, settleMs = SETTLE_MS }: CloseOptions = {},
): Promise<GrantTotals> {
  await ledger.close(id)
  const started = performance.now()
  for (let pause = 10; (await ledger.countOpenCalls(id)) > 0; pause = Math.min(pause * 2, POLL_MS)) {
    const elapsed = performance.now() - started
    if (elapsed > drainMs) await ledger.giveUpLostCalls(id)
    if (elapsed > Math.max(drainMs, settleMs)) break
    await wait(pause)
  }
  return readGrant(ledger, id)
}

export async function readGrant(ledger: Ledger, id: string): Promise<GrantTotals> {
  const state = await ledger.read(id)
  if (!state) throw new Error(`There is no grant ${id}.`)
  return totals(state)
}

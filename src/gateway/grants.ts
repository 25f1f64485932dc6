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

const DRAIN_MS = 15_000
const POLL_MS = 250

/**
 * No call begins after this. Those under way, also in other processes, may come to their ends for a while; what is open
 * after that stays at its reservation. Harmless twice.
 */
export async function closeGrant(ledger: Ledger, id: string, drainMs: number = DRAIN_MS): Promise<GrantTotals> {
  await ledger.close(id)
  const deadline = performance.now() + drainMs
  for (let pause = 10; (await ledger.countOpenCalls(id)) > 0; pause = Math.min(pause * 2, POLL_MS)) {
    if (performance.now() + pause > deadline) {
      await ledger.giveUpOpenCalls(id)
      break
    }
    await wait(pause)
  }
  return readGrant(ledger, id)
}

export async function readGrant(ledger: Ledger, id: string): Promise<GrantTotals> {
  const state = await ledger.read(id)
  if (!state) throw new Error(`There is no grant ${id}.`)
  return totals(state)
}

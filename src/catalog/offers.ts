import type { Db } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import type { JobLog } from '../platform/jobs/jobs.ts'
import { sandboxChoices } from './sandboxes.ts'
import { deleteOffers, deleteOldOffers, listLiveOffers, type Offer, upsertOffer } from './sql.ts'

const SAY_EVERY_MS = 15_000
const ALIVE_SECONDS = 60
/** What does not answer by then does not work. Long: a machine that is busy is none that is broken. */
const TEST_MS = 30_000

/** What a worker can run trials in. `test` finds out by trying, and throws when it does not work. */
export type Testable = { sandbox: string; test: () => Promise<{ isolation: string }> }

type Saying = { everyMs?: number; testMs?: number }

/**
 * Tells all processes what this one offers, for as long as it lives. Each is tested again and again: what stops working
 * is withdrawn, and what works again is offered again. `onChange` hears of both.
 */
export function offerSandboxes(
  { db, log, everyMs = SAY_EVERY_MS, testMs = TEST_MS }: { db: Db; log: JobLog } & Saying,
  sandboxes: readonly Testable[],
  onChange: (sandbox: string, available: boolean) => void,
): { stop(): Promise<void> } {
  const workerId = newId()
  const offered = new Set<string>()
  const say = async ({ sandbox, test }: Testable): Promise<void> => {
    const offer = await tried(sandbox, test, testMs)
    await upsertOffer(db, workerId, offer)
    if (offer.available === offered.has(sandbox)) return
    if (offer.available) offered.add(sandbox)
    else offered.delete(sandbox)
    if (!offer.available) log.warn({ sandbox, detail: offer.detail }, 'a sandbox does not work any more')
    onChange(sandbox, offer.available)
  }
  const sayAll = async (): Promise<void> => {
    await Promise.all(sandboxes.map(say))
    await deleteOldOffers(db)
  }
  const saying = () =>
    sayAll().catch((error: unknown) => log.warn({ error }, 'the sandboxes on offer could not be told'))
  let current = saying()
  let waiting = 0
  const timer = setInterval(() => {
    if (waiting > 0) return // a round takes as long as its slowest test
    waiting += 1
    current = current.then(saying).finally(() => {
      waiting -= 1
    })
  }, everyMs)
  return {
    async stop() {
      clearInterval(timer)
      await current
      await deleteOffers(db, workerId).catch(() => undefined) // they grow old by themselves
    },
  }
}

async function tried(sandbox: string, test: Testable['test'], testMs: number): Promise<Offer> {
  const tooLate = Promise.withResolvers<never>()
  const timer = setTimeout(() => tooLate.reject(new Error(`It does not answer within ${testMs} ms.`)), testMs)
  try {
    const { isolation } = await Promise.race([test(), tooLate.promise])
    return { sandbox, available: true, isolation, detail: '' }
  } catch (error) {
    return { sandbox, available: false, isolation: '', detail: error instanceof Error ? error.message : String(error) }
  } finally {
    clearTimeout(timer)
  }
}

export const liveOffers = (db: Db): Promise<Offer[]> => listLiveOffers(db, ALIVE_SECONDS)

/** The first, in the order of the catalog, that a live worker offers. */
export async function findOffered(db: Db): Promise<string | undefined> {
  const offers = await liveOffers(db)
  return sandboxChoices.find(({ id }) => offers.some((offer) => offer.sandbox === id && offer.available))?.id
}

export async function isOffered(db: Db, sandbox: string): Promise<boolean> {
  return (await liveOffers(db)).some((offer) => offer.sandbox === sandbox && offer.available)
}

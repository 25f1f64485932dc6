import type { Db } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import type { JobLog } from '../platform/jobs/jobs.ts'
import { sandboxChoices } from './sandboxes.ts'
import { deleteOffers, deleteOldOffers, listLiveOffers, type Offer, upsertOffer } from './sql.ts'

const SAY_EVERY_MS = 15_000
const ALIVE_SECONDS = 60

/** What a worker can run trials in. `test` finds out by trying. */
export type Testable = { sandbox: string; test: () => Promise<{ isolation: string }> }

/**
 * Tells all processes what this one offers, for as long as it lives. What does not work yet is tried again, and
 * `onAvailable` hears of each as soon as it works.
 */
export function offerSandboxes(
  { db, log }: { db: Db; log: JobLog },
  sandboxes: readonly Testable[],
  onAvailable: (sandbox: string) => void,
): { stop(): Promise<void> } {
  const workerId = newId()
  const offered = new Map<string, Offer>()
  const say = async (): Promise<void> => {
    for (const { sandbox, test } of sandboxes) {
      const known = offered.get(sandbox)
      const offer = known?.available ? known : await tried(sandbox, test)
      offered.set(sandbox, offer)
      await upsertOffer(db, workerId, offer)
      if (offer.available && !known?.available) onAvailable(sandbox)
    }
    await deleteOldOffers(db)
  }
  const saying = () => say().catch((error: unknown) => log.warn({ error }, 'the sandboxes on offer could not be told'))
  let current = saying()
  const timer = setInterval(() => {
    current = current.then(saying)
  }, SAY_EVERY_MS)
  return {
    async stop() {
      clearInterval(timer)
      await current
      await deleteOffers(db, workerId).catch(() => undefined) // they grow old by themselves
    },
  }
}

async function tried(sandbox: string, test: Testable['test']): Promise<Offer> {
  try {
    const { isolation } = await test()
    return { sandbox, available: true, isolation, detail: '' }
  } catch (error) {
    return { sandbox, available: false, isolation: '', detail: error instanceof Error ? error.message : String(error) }
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

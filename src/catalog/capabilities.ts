import type { Db } from '../platform/db/db.ts'
import { errorText } from '../platform/errors.ts'
import { newId } from '../platform/ids.ts'
import type { JobLog } from '../platform/jobs/jobs.ts'
import { isEngineCapability, sandboxChoices } from './sandboxes.ts'
import {
  countLiveWorkerRows,
  deleteCapabilities,
  deleteStaleCapabilities,
  listLiveCapabilityRows,
  upsertCapability,
  type WorkerCapability,
} from './sql.ts'

const REPORT_EVERY_MS = 15_000
/** Age of a report after which its worker counts as dead. */
const ALIVE_SECONDS = 60
/** Timeout of a self-test. Long, because a busy machine is not a broken one. */
const TEST_MS = 30_000

/** A sandbox that a worker may use. `test` throws if it does not work. */
export type TestableSandbox = { sandbox: string; test: () => Promise<{ isolation: string }> }

type ReportIntervals = { everyMs?: number; testMs?: number }

/**
 * Reports to all processes which sandboxes work in this one, while it runs. Tests each sandbox regularly; `onChange` is
 * called when one stops or starts working.
 */
export function reportCapabilities(
  { db, log, everyMs = REPORT_EVERY_MS, testMs = TEST_MS }: { db: Db; log: JobLog } & ReportIntervals,
  sandboxes: readonly TestableSandbox[],
  onChange: (sandbox: string, available: boolean) => void,
): { stop(): Promise<void> } {
  const workerId = newId()
  const working = new Set<string>()
  const report = async ({ sandbox, test }: TestableSandbox): Promise<void> => {
    const capability = await testSandbox(sandbox, test, testMs)
    await upsertCapability(db, workerId, capability)
    if (capability.available === working.has(sandbox)) return
    if (capability.available) working.add(sandbox)
    else working.delete(sandbox)
    if (!capability.available) log.warn({ sandbox, detail: capability.detail }, 'sandbox stopped working')
    onChange(sandbox, capability.available)
  }
  const reportAll = async (): Promise<void> => {
    await Promise.all(sandboxes.map(report))
    await deleteStaleCapabilities(db)
  }
  const reportOrWarn = () => reportAll().catch((error: unknown) => log.warn({ error }, 'reporting sandboxes failed'))
  let current = reportOrWarn()
  let isNextWaiting = false
  const timer = setInterval(() => {
    if (isNextWaiting) return // A round takes as long as its slowest test.
    isNextWaiting = true
    current = current.then(reportOrWarn).finally(() => {
      isNextWaiting = false
    })
  }, everyMs)
  return {
    async stop() {
      clearInterval(timer)
      await current
      await deleteCapabilities(db, workerId).catch(() => undefined) // Stale rows expire by themselves.
    },
  }
}

async function testSandbox(sandbox: string, test: TestableSandbox['test'], testMs: number): Promise<WorkerCapability> {
  const tooLate = Promise.withResolvers<never>()
  const timer = setTimeout(() => tooLate.reject(new Error(`No response within ${testMs} ms.`)), testMs)
  try {
    const { isolation } = await Promise.race([test(), tooLate.promise])
    return { sandbox, available: true, isolation, detail: '' }
  } catch (error) {
    return { sandbox, available: false, isolation: '', detail: errorText(error) }
  } finally {
    clearTimeout(timer)
  }
}

/** Counts the live workers that report the sandbox as usable. */
export const countLiveWorkers = (db: Db, sandbox: string): Promise<number> =>
  countLiveWorkerRows(db, sandbox, ALIVE_SECONDS)

/** Lists the sandboxes of live workers, without the engines of stored credentials. */
export async function listLiveCapabilities(db: Db): Promise<WorkerCapability[]> {
  return (await listLiveCapabilityRows(db, ALIVE_SECONDS)).filter(({ sandbox }) => !isEngineCapability(sandbox))
}

/** Finds the first sandbox, in the order of the catalog, that works on a live worker. */
export async function findAvailableSandbox(db: Db): Promise<string | undefined> {
  const capabilities = await listLiveCapabilities(db)
  return sandboxChoices.find(({ id }) => capabilities.some(({ sandbox, available }) => sandbox === id && available))?.id
}

/** Returns true if a live worker reports this capability: a sandbox, or a name of `toEngineCapability`. */
export const isSandboxAvailable = async (db: Db, capability: string): Promise<boolean> =>
  (await countLiveWorkers(db, capability)) > 0

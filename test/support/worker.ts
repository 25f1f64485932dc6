import { setTimeout as wait } from 'node:timers/promises'
import { generationJobs, sandboxJobs, serviceJobs } from '../../src/app.ts'
import { deleteCapabilities, upsertCapability } from '../../src/catalog/sql.ts'
import { newId } from '../../src/platform/ids.ts'
import type { Services } from '../../src/services.ts'
import type { TestApp } from './app.ts'
import { drain } from './jobs/drain.ts'

/** Creates a worker that reports a sandbox as usable and runs jobs on demand, without waiting. */
export async function testWorker(app: TestApp, more: Partial<Services>, sandbox = 'local') {
  const id = newId()
  const tools: Services = { ...app.tools, waits: { workerMs: 0, retryMs: 0, sandboxMs: 0 }, ...more }
  const offer = () => upsertCapability(app.database.db, id, { sandbox, available: true, isolation: 'none', detail: '' })
  await offer()
  return {
    tools,
    offer,
    /** Withdraws the sandbox. */
    withdraw: () => deleteCapabilities(app.database.db, id),
    /** Runs jobs until only recurring ones are left. */
    work: (inSandbox = sandbox) =>
      drain(app.database, [
        ...serviceJobs(tools).filter(({ everySeconds }) => everySeconds === undefined),
        ...generationJobs(tools),
        ...sandboxJobs(tools, inSandbox),
      ]),
  }
}

const POLL_MS = 50

/** Runs jobs as they arrive until it is disposed, for programs that wait for results. */
export function workInBackground(work: () => Promise<unknown>): AsyncDisposable {
  const stopped = new AbortController()
  const loop = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      await work()
      await wait(POLL_MS, undefined, { signal: stopped.signal }).catch(() => undefined)
    }
  }
  const ended = loop()
  return {
    async [Symbol.asyncDispose]() {
      stopped.abort()
      await ended
    },
  }
}

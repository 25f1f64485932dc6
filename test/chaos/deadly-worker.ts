import { flushCompileCache } from 'node:module'
import { generationJobs, sandboxJobs, serviceJobs } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { startWorker } from '../../src/platform/jobs/worker.ts'
import { createLog } from '../../src/platform/log.ts'
import { openServices, type Services } from '../../src/services.ts'
import { openStore } from '../../src/store.ts'

/**
 * A worker that is killed when it passes a step for the n-th time, as by a crash of the machine. Arguments of the
 * program: step, n, and how long a lease lasts. It takes one job at a time, so that the n-th time is always at the same
 * place.
 */
export async function startDeadlyWorker(given: (step: (name: string) => void) => Partial<Services>): Promise<void> {
  // A killed process does not write its compiled code.
  flushCompileCache()
  const [deadly, time, leaseMs] = process.argv.slice(2)
  let passed = 0
  const step = (name: string): void => {
    if (name !== deadly) return
    passed += 1
    if (passed === Number(time)) process.kill(process.pid, 'SIGKILL')
  }
  const config = readConfig(process.env)
  const log = createLog('error')
  const { database } = await openStore(config, log)
  const tools = { ...(await openServices(config, database, log)), ...given(step) }
  const handlers = [...serviceJobs(tools), ...generationJobs(tools), ...sandboxJobs(tools, 'local')]
  startWorker({ database, handlers, slots: 1, log, leaseMs: Number(leaseMs) })
}

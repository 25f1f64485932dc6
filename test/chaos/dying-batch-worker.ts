import { jobKinds, trialKinds } from '../../src/app.ts'
import { askingStages } from '../../src/batches/stages/testing/asking-stages.ts'
import { readConfig } from '../../src/config.ts'
import { startWorker } from '../../src/platform/jobs/worker.ts'
import { createLog } from '../../src/platform/log.ts'
import { openStore } from '../../src/store.ts'
import { openTools } from '../../src/tools.ts'

// As dying-worker.ts, for batches: killed when it passes a step for the n-th time. Arguments: step, n, lease.

const [deadly, time, leaseMs] = process.argv.slice(2)

let passed = 0
function batchStep(name: string): void {
  if (name !== deadly) return
  passed += 1
  if (passed === Number(time)) process.kill(process.pid, 'SIGKILL')
}

const config = readConfig(process.env)
const log = createLog('error')
const { database } = await openStore(config, log)
const tools = { ...(await openTools(config, database, log)), stages: askingStages(), batchStep }
const kinds = [...jobKinds(tools), ...trialKinds(tools, 'local')]
startWorker({ database, kinds, slots: 1, log, leaseMs: Number(leaseMs) })

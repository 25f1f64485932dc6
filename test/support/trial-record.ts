import type { TrialRunRequest } from '../../src/comparisons/trials/engine.ts'
import type { TrialRecord } from '../../src/trials/record.ts'

/** Builds the record of a finished trial. */
export const buildTrialRecord = (order: TrialRunRequest, over: Partial<TrialRecord> = {}): TrialRecord => ({
  task: order.task,
  harness: order.harness,
  state: order.harness === 'oracle' ? 'passed' : 'failed',
  class: 'verified',
  reward: order.harness === 'oracle' ? 1 : 0,
  rewards: { reward: order.harness === 'oracle' ? 1 : 0 },
  limit: null,
  timings: { prepare: 0.1, agent: 0.2, verify: 0.3, total: 0.6 },
  isolation: 'none',
  base: 'image',
  resources: { cpus: 1, memoryMb: 6144, diskMb: 10_240 },
  verifyMode: 'workspace',
  steps: [],
  sidecars: [],
  error: null,
  ...over,
})

import type { Resources } from '../harbor/task.ts'
import type { Limits } from '../sandboxes/sandbox.ts'

const MIB = 1024 * 1024
/** Harbor lets an agent run for ever; we do not. */
const AGENT_SECONDS = 3600
/** A task's memory is what it should need. Ended at three times that, so that noise does not decide. */
const MEMORY_HEADROOM = 3

export const agentLimits = (resources: Resources, timeoutSec: number | null): Limits => ({
  ...common(resources),
  outputBytes: 64 * MIB,
  seconds: timeoutSec ?? AGENT_SECONDS,
})

export const verifierLimits = (resources: Resources, timeoutSec: number): Limits => ({
  ...common(resources),
  outputBytes: 16 * MIB,
  seconds: timeoutSec,
})

const common = (resources: Resources) => ({
  cpus: resources.cpus,
  memoryMb: resources.memoryMb === null ? null : resources.memoryMb * MEMORY_HEADROOM,
  pids: 512,
  diskMb: resources.storageMb ?? 10_240,
})

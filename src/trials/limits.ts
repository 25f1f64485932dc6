import { DEFAULT_LIMITS } from '../harbor/limits.ts'
import type { ComposeService, EnvironmentResources } from '../harbor/task.ts'
import type { SandboxLimits } from '../sandboxes/sandbox.ts'

const MIB = 1024 * 1024
/** Harbor lets an agent run for ever; we do not. */
const AGENT_SECONDS = 3600
/** A task may say thirty years. Nobody waits longer than this, and timers cannot. */
const SECONDS_MAX = 7 * 24 * 3600
/** A task's memory is what it should need. Ended at three times that, so that noise does not decide. */
const MEMORY_HEADROOM = 3

export const AGENT_OUTPUT_BYTES = 64 * MIB
export const VERIFIER_OUTPUT_BYTES = 16 * MIB
/** Of a hook, a setup script, or a service beside the agent's. */
export const SMALL_OUTPUT_BYTES = 16 * MIB

export const agentSeconds = (timeoutSec: number | null): number => inReason(timeoutSec ?? AGENT_SECONDS)

export const inReason = (seconds: number): number => Math.min(seconds, SECONDS_MAX)

/** What the agent's container may use: the compose file's word on it, else the task's. */
export const mainLimits = (
  resources: EnvironmentResources,
  main: ComposeService | null,
): Omit<SandboxLimits, 'outputBytes' | 'seconds'> => ({
  cpus: main?.resources.cpus ?? resources.cpus ?? DEFAULT_LIMITS.cpus,
  memoryMb: main?.resources.memoryMb ?? declaredLimitMb(resources) ?? DEFAULT_LIMITS.memoryMb,
  shmMb: main?.resources.shmMb ?? DEFAULT_LIMITS.shmMb,
  pids: main?.resources.pids ?? DEFAULT_LIMITS.pids,
  diskMb: resources.storageMb ?? DEFAULT_LIMITS.diskMb,
})

const declaredLimitMb = ({ memoryMb }: EnvironmentResources): number | null =>
  memoryMb === null ? null : memoryMb * MEMORY_HEADROOM

/** Written by hand for this one service, so there is no headroom. */
export const sidecarLimits = ({ resources }: ComposeService, seconds: number): SandboxLimits => ({
  cpus: resources.cpus ?? DEFAULT_LIMITS.cpus,
  memoryMb: resources.memoryMb ?? DEFAULT_LIMITS.memoryMb,
  shmMb: resources.shmMb ?? DEFAULT_LIMITS.shmMb,
  pids: resources.pids ?? DEFAULT_LIMITS.pids,
  diskMb: DEFAULT_LIMITS.diskMb,
  outputBytes: SMALL_OUTPUT_BYTES,
  seconds: inReason(seconds),
})

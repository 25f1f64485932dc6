import { DEFAULT_LIMITS } from '../harbor/limits.ts'
import type { ComposeService, Environment, EnvironmentResources, Task, TaskStep } from '../harbor/task.ts'
import type { SandboxLimits } from '../sandboxes/sandbox.ts'

const MIB = 1024 * 1024
/** Default for tasks without an agent timeout. Harbor has none. */
const AGENT_SECONDS = 3600
/** Maximum of every time limit. A task may declare more than a timer can represent. */
const SECONDS_MAX = 7 * 24 * 3600
/**
 * A declared memory is what a task should need. The limit is three times that, so that normal variation does not decide
 * a trial.
 */
const MEMORY_HEADROOM = 3

export const AGENT_OUTPUT_BYTES = 64 * MIB
export const VERIFIER_OUTPUT_BYTES = 16 * MIB
/** Limit for hooks, setup scripts and sidecars. */
export const SMALL_OUTPUT_BYTES = 16 * MIB

export const toAgentSeconds = (timeoutSec: number | null): number => capSeconds(timeoutSec ?? AGENT_SECONDS)

/** Multiplies the time limits of the agent, the verifier and the image builds, for slow machines. */
export function scaleTimeouts(task: Task, multiplier: number): Task {
  if (multiplier === 1) return task
  const scaleEnvironment = (environment: Environment): Environment => ({
    ...environment,
    buildTimeoutSec: capSeconds(environment.buildTimeoutSec * multiplier),
  })
  const scaleStep = ({ agent, verifier, ...step }: TaskStep): TaskStep => ({
    ...step,
    agent: { ...agent, timeoutSec: capSeconds(toAgentSeconds(agent.timeoutSec) * multiplier) },
    verifier: {
      ...verifier,
      timeoutSec: capSeconds(verifier.timeoutSec * multiplier),
      sandbox:
        verifier.sandbox.mode === 'separate'
          ? { ...verifier.sandbox, environment: scaleEnvironment(verifier.sandbox.environment) }
          : verifier.sandbox,
    },
  })
  const [first, ...others] = task.steps
  return {
    ...task,
    environment: scaleEnvironment(task.environment),
    steps: [scaleStep(first), ...others.map(scaleStep)],
  }
}

export const capSeconds = (seconds: number): number => Math.min(seconds, SECONDS_MAX)

/** Returns the limits of `main`: those of the compose file, else those of the task. */
export const toMainLimits = (
  resources: EnvironmentResources,
  main: ComposeService | null,
): Omit<SandboxLimits, 'outputBytes' | 'seconds'> => ({
  cpus: main?.resources.cpus ?? resources.cpus ?? DEFAULT_LIMITS.cpus,
  memoryMb: main?.resources.memoryMb ?? toMemoryLimitMb(resources) ?? DEFAULT_LIMITS.memoryMb,
  shmMb: main?.resources.shmMb ?? DEFAULT_LIMITS.shmMb,
  pids: main?.resources.pids ?? DEFAULT_LIMITS.pids,
  diskMb: resources.storageMb ?? DEFAULT_LIMITS.diskMb,
})

const toMemoryLimitMb = ({ memoryMb }: EnvironmentResources): number | null =>
  memoryMb === null ? null : memoryMb * MEMORY_HEADROOM

/** Returns the limits of a sidecar, without headroom: they were written for this one service. */
export const toSidecarLimits = ({ resources }: ComposeService, seconds: number): SandboxLimits => ({
  cpus: resources.cpus ?? DEFAULT_LIMITS.cpus,
  memoryMb: resources.memoryMb ?? DEFAULT_LIMITS.memoryMb,
  shmMb: resources.shmMb ?? DEFAULT_LIMITS.shmMb,
  pids: resources.pids ?? DEFAULT_LIMITS.pids,
  diskMb: DEFAULT_LIMITS.diskMb,
  outputBytes: SMALL_OUTPUT_BYTES,
  seconds: capSeconds(seconds),
})

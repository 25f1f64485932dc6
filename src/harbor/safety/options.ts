import type { Network } from '../task.ts'

/** Features of a sandbox that tasks may require. */
export type SandboxFeatures = {
  /** Sidecars are supported. */
  groups: boolean
  /** Supported network modes. */
  network: readonly Network['mode'][]
}

/** Maximum resources that a task may request. */
export type ResourceCaps = {
  cpus: number
  memoryMb: number
  storageMb: number
  gpus: number
  /** For an agent, a verifier, a hook or a health check. */
  timeoutSec: number
  buildTimeoutSec: number
}

/** Exceeds the requirements of every public task. A smaller machine refuses a task when its trial is planned. */
export const DEFAULT_CAPS: ResourceCaps = {
  cpus: 64,
  memoryMb: 512 * 1024,
  storageMb: 2 * 1024 * 1024,
  gpus: 16,
  timeoutSec: 24 * 3600,
  buildTimeoutSec: 6 * 3600,
}

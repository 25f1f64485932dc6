import type { Network } from '../task.ts'

/** What the sandbox can do for a task. Left out: any will be found. */
export type SandboxAbilities = {
  /** Whether there can be sidecars. */
  groups: boolean
  /** The kinds of network that it can give. */
  network: readonly Network['mode'][]
}

/** The most that a task may ask for. */
export type Caps = {
  cpus: number
  memoryMb: number
  storageMb: number
  gpus: number
  /** Of an agent, a verifier, a hook or a health check. */
  timeoutSec: number
  buildTimeoutSec: number
}

/** More than any public task asks for; a machine that has less says so when the trial is planned. */
export const USUAL_CAPS: Caps = {
  cpus: 64,
  memoryMb: 512 * 1024,
  storageMb: 2 * 1024 * 1024,
  gpus: 16,
  timeoutSec: 24 * 3600,
  buildTimeoutSec: 6 * 3600,
}

import type { Task } from '../harbor/task.ts'
import type { Digest } from '../platform/blobs/blob.ts'
import { type SandboxProvider, SandboxUnavailable } from '../sandboxes/sandbox.ts'
import type { Rejection, TaskCalibration } from '../taskgen/schema.ts'
import { type Calibration, calibrate } from '../trials/calibrate.ts'

/** Input of one validation. */
export type ValidationRequest = {
  sandbox: string
  task: Task
  digest: Digest
  /** Folders of the task's files and of the output. Both exist. */
  folder: string
  outputFolder: string
}

export type ValidationOutcome =
  | { kind: 'valid'; calibration: TaskCalibration }
  | { kind: 'rejected'; rejection: Rejection; calibration: TaskCalibration }
  /** Nothing can be run at all now, whatever the task. */
  | { kind: 'unavailable'; detail: string }

/**
 * Runs the author's solution, nothing at all and the known cheats. Throws SandboxUnavailable when a sandbox that works
 * breaks with this task.
 */
export type Validator = (order: ValidationRequest, signal: AbortSignal) => Promise<ValidationOutcome>

export const sandboxValidator =
  (findProvider: (sandbox: string) => SandboxProvider | undefined): Validator =>
  async ({ sandbox, ...order }, signal) => {
    const provider = findProvider(sandbox)
    if (!provider) return { kind: 'unavailable', detail: `This worker has no sandbox ${sandbox}.` }
    const trouble = await provider.selfTest().then(() => undefined, toUnavailable)
    if (trouble) return trouble
    return toOutcome(sandbox, await calibrate(provider, { ...order, variables: {}, signal, onPhase: () => {} }))
  }

function toUnavailable(error: unknown): ValidationOutcome {
  if (error instanceof SandboxUnavailable) return { kind: 'unavailable', detail: error.message }
  throw error
}

function toOutcome(sandbox: string, found: Calibration): ValidationOutcome {
  const attempts = found.attempts.map(({ mode, oracle, nop }) => ({ verifyMode: mode, oracle, nop }))
  if (found.kind === 'fit') {
    const { mode, strength, weakness, winners, cheats } = found
    return { kind: 'valid', calibration: { sandbox, verifyMode: mode, strength, weakness, winners, attempts, cheats } }
  }
  const isIdle = found.attempts.some(({ nop }) => nop?.state === 'passed')
  return {
    kind: 'rejected',
    rejection: { reason: isIdle ? 'nop_passes' : 'oracle_fails', detail: found.reason },
    calibration: { sandbox, verifyMode: null, strength: null, winners: [], attempts, cheats: [] },
  }
}

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
  /** The sandbox is unavailable; the task is not the cause. */
  | { kind: 'unavailable'; detail: string }

/**
 * Runs the reference solution, a no-op and the known cheats. Throws SandboxUnavailable if the sandbox passes its self-test
 * but fails with this task.
 */
export type Validator = (request: ValidationRequest, signal: AbortSignal) => Promise<ValidationOutcome>

export const sandboxValidator =
  (findProvider: (sandbox: string) => SandboxProvider | undefined): Validator =>
  async ({ sandbox, ...request }, signal) => {
    const provider = findProvider(sandbox)
    if (!provider) return { kind: 'unavailable', detail: `This worker has no sandbox ${sandbox}.` }
    const unavailable = await provider.selfTest().then(() => undefined, toUnavailable)
    if (unavailable) return unavailable
    return toOutcome(sandbox, await calibrate(provider, { ...request, variables: {}, signal, onPhase: () => {} }))
  }

function toUnavailable(error: unknown): ValidationOutcome {
  if (error instanceof SandboxUnavailable) return { kind: 'unavailable', detail: error.message }
  throw error
}

function toOutcome(sandbox: string, result: Calibration): ValidationOutcome {
  const attempts = result.attempts.map(({ mode, oracle, nop }) => ({ verifyMode: mode, oracle, nop }))
  if (result.kind === 'fit') {
    const { mode, strength, weakness, winners, cheats } = result
    return { kind: 'valid', calibration: { sandbox, verifyMode: mode, strength, weakness, winners, attempts, cheats } }
  }
  const nopPasses = result.attempts.some(({ nop }) => nop?.state === 'passed')
  return {
    kind: 'rejected',
    rejection: { reason: nopPasses ? 'nop_passes' : 'oracle_fails', detail: result.reason },
    calibration: { sandbox, verifyMode: null, strength: null, winners: [], attempts, cheats: [] },
  }
}

import type { SuiteOutcome } from '../../grading/suite.ts'
import type { TaskCalibration } from '../schema.ts'

/** Number of trials. `oracleAll`: total oracle runs before a task is ready. */
export type TrialCounts = { nop: number; oracle: number; oracleAll: number }

/** Ten runs without a failure exclude, at 95 %, a solution that fails more than one time in four. */
export const FULL_COUNTS: TrialCounts = { nop: 3, oracle: 3, oracleAll: 10 }

/** A trial of the finished task with the verifier's report. */
export type ValidationTrial = {
  isWon: boolean
  reward: number | null
  /** Exit code of the agent. Null if there was no agent or it was stopped. */
  exitCode: number | null
  outcome: SuiteOutcome | undefined
  seconds: number
  isolation: string
}

/** Stored summary of a trial. */
export type ValidationRun = { reward: number | null; passed: number; notPassed: number; seconds: number }

export type CheatValidation = {
  id: string
  what: string
  /** `found`: the cheat found content that must not be in the image, whatever its reward. */
  outcome: 'lost' | 'won' | 'found' | 'does_not_apply'
}

/** Result of the validation of the stored files. Plain data. */
export type ValidationReport = {
  digest: string
  isolation: string
  nop: ValidationRun[]
  oracle: ValidationRun[]
  /** The reference solution applied as an agent would, without the solution folder. */
  gold: ValidationRun
  cheats: CheatValidation[]
  /** Strength of the verifier, by the rule of calibration. */
  strength: NonNullable<TaskCalibration['strength']>
  /** Why the files and the environment of the verifier do not show that its tests only read. Null if they do. */
  weakness: string | null
  /** The cheats that make it weak. */
  winners: string[]
}

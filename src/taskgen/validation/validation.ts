import type { SuiteOutcome } from '../../grading/suite.ts'

/** How often each is tried. `oracleAll`: what it comes to together, before a task is ready. */
export type Counts = { nop: number; oracle: number; oracleAll: number }

/** Three agree; ten without a failure leave room for one that fails in four, at most, at 95 %. */
export const FULL_COUNTS: Counts = { nop: 3, oracle: 3, oracleAll: 10 }

/** One trial of the finished task, with what its verifier saw. */
export type Attempt = {
  isWon: boolean
  reward: number | null
  /** Of the agent. Null where there was none, or where it was stopped. */
  exitCode: number | null
  outcome: SuiteOutcome | undefined
  seconds: number
  isolation: string
}

/** What is kept of it. */
export type ProofRun = { reward: number | null; passed: number; notPassed: number; seconds: number }

export type ProofCheat = {
  id: string
  what: string
  /** `found`: it came upon what should not be there, whatever its reward. */
  outcome: 'lost' | 'won' | 'found' | 'does_not_apply'
}

/** What was seen of the very bytes that are kept. Plain data. */
export type Proof = {
  digest: string
  isolation: string
  nop: ProofRun[]
  oracle: ProofRun[]
  /** The change as an agent would make it, without the folder of the solution anywhere. */
  gold: ProofRun
  cheats: ProofCheat[]
  /**
   * `weak`: code that is loaded into the process of the tests was seen to make them say anything. Never `strong`: what is
   * tested is not kept apart from what tests it, in whatever language nobody has tried it.
   */
  strength: 'weak' | 'standard'
  /** The cheats that make it weak. */
  winners: string[]
}

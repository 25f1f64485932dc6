import { nop } from '../harnesses/nop.ts'
import { oracle } from '../harnesses/oracle.ts'
import type { Provider } from '../sandboxes/sandbox.ts'
import type { TrialRequest } from './bench.ts'
import { type TrialRecord, VERIFY_MODES, type VerifyMode } from './record.ts'
import { runTrial } from './trial.ts'

/** What was tried in one mode. */
type Attempt = { mode: VerifyMode; oracle: TrialRecord; nop: TrialRecord | null }

export type Calibration =
  | { kind: 'fit'; mode: VerifyMode; attempts: Attempt[] }
  /** In no mode does the author's solution score 1 and doing nothing less. */
  | { kind: 'unfit'; reason: string; attempts: Attempt[] }

/** Finds the strictest mode in which the author's solution still scores 1, and doing nothing does not. */
export async function calibrate(
  provider: Provider,
  request: Omit<TrialRequest, 'harness' | 'verifyMode'>,
): Promise<Calibration> {
  const attempts: Attempt[] = []
  for (const mode of VERIFY_MODES) {
    const solved = await runTrial(provider, { ...request, harness: oracle, verifyMode: mode })
    const idle =
      solved.state === 'passed' ? await runTrial(provider, { ...request, harness: nop, verifyMode: mode }) : null
    attempts.push({ mode, oracle: solved, nop: idle })
    if (idle && idle.state !== 'passed') return { kind: 'fit', mode, attempts }
  }
  return { kind: 'unfit', reason: reasonOf(attempts), attempts }
}

function reasonOf(attempts: Attempt[]): string {
  if (attempts.some(({ nop: idle }) => idle?.state === 'passed')) return 'Doing nothing passes its tests.'
  const last = attempts.at(-1)?.oracle
  return `The author's solution does not pass: ${last?.error ?? `its reward is ${last?.reward ?? 'missing'}`}.`
}

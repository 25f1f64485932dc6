import type { Task } from '../harbor/task.ts'
import { VERIFY_MODES, type VerifyMode } from './record.ts'

/**
 * The modes in which a task may be verified, from the strictest. `grader` is for tasks that promise, with
 * `[metadata.assay] grader = true`, that their test script runs as root and what the candidate wrote as somebody else.
 */
export function modesOf(task: Task): VerifyMode[] {
  if (isApart(task)) return ['workspace']
  return VERIFY_MODES.filter((mode) => mode !== 'grader' || promisesGrader(task))
}

/** In which mode a trial is really verified: a verifier of its own sees artifacts and nothing else. */
export const modeFor = (task: Task, wanted: VerifyMode): VerifyMode =>
  isApart(task) && wanted !== 'grader' ? 'workspace' : wanted

const isApart = ({ steps }: Task): boolean => steps.every(({ verifier }) => verifier.place.mode === 'separate')

function promisesGrader({ metadata }: Task): boolean {
  const { assay } = metadata
  return typeof assay === 'object' && !Array.isArray(assay) && assay.grader === true
}

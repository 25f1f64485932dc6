import type { Stage } from '../stages/make.ts'
import { done } from '../stages/parts.ts'
import { graded } from '../verifying/difficulty.ts'
import { plain, verdictIn } from './made.ts'

/** How hard it is, by all that is known. */
export const gradingStage: Stage = {
  version: 1,
  needs: [],
  reads: ({ candidate: { difficulty }, made }) => [difficulty, made.verified ?? null],
  async run(making) {
    const { minutes } = verdictIn(making)
    const grade = graded({ prior: making.candidate.difficulty, minutes, measured: null })
    return done({ made: null, evidence: plain({ ...grade, minutes }), difficulty: grade.final })
  },
}

import { graded } from '../../review/difficulty.ts'
import { done } from '../../stage-result.ts'
import type { Stage } from '../stage.ts'
import { plain, verdictIn } from './outputs.ts'

/** How hard it is, by all that is known. */
export const difficultyStage: Stage = {
  version: 1,
  needs: [],
  reads: ({ candidate: { difficulty }, made }) => [difficulty, made.review ?? null],
  async run(making) {
    const { minutes } = verdictIn(making)
    const grade = graded({ prior: making.candidate.difficulty, minutes, measured: null })
    return done({ made: null, evidence: plain({ ...grade, minutes }), difficulty: grade.final })
  },
}

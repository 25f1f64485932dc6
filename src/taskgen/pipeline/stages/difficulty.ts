import { estimateDifficulty } from '../../review/difficulty.ts'
import { done } from '../../stage-result.ts'
import type { Stage } from '../stage.ts'
import { parseReview, toJson } from './outputs.ts'

/** How hard it is, by all that is known. */
export const difficultyStage: Stage = {
  version: 1,
  needs: [],
  reads: ({ candidate: { difficulty }, made }) => [difficulty, made.review ?? null],
  async run(making) {
    const { minutes } = parseReview(making)
    const grade = estimateDifficulty({ prior: making.candidate.difficulty, minutes, measured: null })
    return done({ made: null, evidence: toJson({ ...grade, minutes }), difficulty: grade.final })
  },
}

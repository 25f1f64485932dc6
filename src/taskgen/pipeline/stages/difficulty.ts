import { estimateDifficulty } from '../../review/difficulty.ts'
import { done } from '../../stage-result.ts'
import type { Stage } from '../stage.ts'
import { parseReview, toJson } from './outputs.ts'

/** How hard it is, by all that is known. */
export const difficultyStage: Stage = {
  version: 1,
  needs: [],
  cacheInputs: ({ candidate: { difficulty }, outputs }) => [difficulty, outputs.review ?? null],
  async run(state) {
    const { minutes } = parseReview(state)
    const grade = estimateDifficulty({ prior: state.candidate.difficulty, minutes, measured: null })
    return done({ made: null, evidence: toJson({ ...grade, minutes }), difficulty: grade.final })
  },
}

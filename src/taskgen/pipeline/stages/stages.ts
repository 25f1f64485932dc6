import type { TrialCounts } from '../../validation/validation.ts'
import type { Stages } from '../stage.ts'
import { assemblyStage } from './assembly.ts'
import { authoringStage } from './authoring.ts'
import { difficultyStage } from './difficulty.ts'
import { environmentStage } from './environment.ts'
import { executionStage } from './execution.ts'
import { lintStage } from './lint.ts'
import { reviewStage } from './review.ts'
import { splitStage } from './split.ts'
import { validationStage } from './validation.ts'

/** Every stage of the state of a task, as it really is. */
export const realStages = (counts?: TrialCounts): Stages => ({
  split: splitStage,
  environment: environmentStage,
  execution: executionStage,
  authoring: authoringStage,
  lint: lintStage,
  assembly: assemblyStage,
  validation: validationStage(counts),
  review: reviewStage,
  difficulty: difficultyStage,
})

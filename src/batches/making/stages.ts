import type { Counts } from '../proof/proof.ts'
import type { Stages } from '../stages/make.ts'
import { assemblyStage } from './assembly.ts'
import { authoringStage } from './authoring.ts'
import { environmentStage } from './environment.ts'
import { executionStage } from './execution.ts'
import { gradingStage } from './grading.ts'
import { lintStage } from './lint.ts'
import { splitStage } from './split.ts'
import { validationStage } from './validation.ts'
import { verificationStage } from './verification.ts'

/** Every stage of the making of a task, as it really is. */
export const realStages = (counts?: Counts): Stages => ({
  split: splitStage,
  env_ready: environmentStage,
  executed: executionStage,
  authored: authoringStage,
  linted: lintStage,
  assembled: assemblyStage,
  validated: validationStage(counts),
  verified: verificationStage,
  graded: gradingStage,
})

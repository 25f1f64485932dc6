import { blankedFiles, changedInputs, commentedSolution, oneEntry, oneKey, removedFiles } from './altered-solutions.ts'
import {
  emptyAnswers,
  emptyLists,
  everythingAnswers,
  everythingLists,
  folderAnswers,
  notANumber,
  wordAnswers,
} from './careless-answers.ts'
import type { Cheat } from './cheat.ts'
import { equalsEverything, exitZero, forgedReport, rewardDaemon } from './loaded-code.ts'
import {
  background,
  conftest,
  linkedFolders,
  preseed,
  replacedPrograms,
  shadowModules,
  shadowPrograms,
} from './planted-files.ts'
import {
  bareAnswers,
  constantAnswers,
  hollowAnswers,
  largeAnswers,
  numberlessAnswers,
  sameFormAnswers,
} from './replaced-values.ts'
import { carriedFiles, codeTakeOver, dataTakeOver, solutionFiles } from './take-over-code.ts'
import { configTakeOver, gitSettings, homeFiles } from './take-over-settings.ts'
import { emptyOutput, gitHistory, leakedSolution, makefile, npmTest, ownTests } from './weakened-tests.ts'

/** Cheats that calibration tries on every task. */
export const cheats: readonly Cheat[] = [
  preseed,
  linkedFolders,
  background,
  shadowPrograms,
  replacedPrograms,
  shadowModules,
  conftest,
  npmTest,
  makefile,
  ownTests,
  exitZero,
  equalsEverything,
  forgedReport,
  rewardDaemon,
  codeTakeOver,
  configTakeOver,
  dataTakeOver,
  gitSettings,
  homeFiles,
  carriedFiles,
  solutionFiles,
  gitHistory,
  leakedSolution,
  emptyOutput,
  emptyAnswers,
  emptyLists,
  notANumber,
  wordAnswers,
  folderAnswers,
  everythingAnswers,
  everythingLists,
  hollowAnswers,
  bareAnswers,
  numberlessAnswers,
  constantAnswers,
  sameFormAnswers,
  largeAnswers,
  oneEntry,
  oneKey,
  commentedSolution,
  blankedFiles,
  removedFiles,
  changedInputs,
]

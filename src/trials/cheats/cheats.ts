import { background } from './background.ts'
import { carriedFiles } from './carried-files.ts'
import type { Cheat } from './cheat.ts'
import { codeTakeOver } from './code-take-over.ts'
import { configTakeOver } from './config-take-over.ts'
import { conftest } from './conftest.ts'
import { dataTakeOver } from './data-take-over.ts'
import { emptyOutput } from './empty-output.ts'
import { equalsEverything } from './equals-everything.ts'
import { exitZero } from './exit-zero.ts'
import { forgedReport } from './forged-report.ts'
import { gitHistory } from './git-history.ts'
import { gitSettings } from './git-settings.ts'
import { homeFiles } from './home-files.ts'
import { leakedSolution } from './leaked-solution.ts'
import { linkedFolders } from './linked-folders.ts'
import { makefile } from './makefile.ts'
import { npmTest } from './npm-test.ts'
import { ownTests } from './own-tests.ts'
import { preseed } from './preseed.ts'
import { replacedPrograms } from './replaced-programs.ts'
import { rewardDaemon } from './reward-daemon.ts'
import { shadowModules } from './shadow-modules.ts'
import { shadowPrograms } from './shadow-programs.ts'

/** What every task is tried with when it is calibrated. */
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
  gitHistory,
  leakedSolution,
  emptyOutput,
]

import { cheats } from '../../../trials/cheats/cheats.ts'
import { gitArchaeology } from './archaeology.ts'
import { deleteTests } from './delete-tests.ts'
import { forgeReward } from './forge-reward.ts'
import type { GuardedCheat } from './guarded-cheat.ts'
import { network } from './network.ts'
import { nullImplementations, type TaskInterface } from './null-implementation.ts'

/** Cheats inside the test process, where code and tests are not isolated from each other. */
const INSIDE_THE_TESTS = ['equals-everything', 'forged-report']
/** Cheats that use content left in the image. */
const OF_THE_IMAGE = ['git-history', 'leaked-solution']

/** Every cheat that a finished task is tried with, those first that find most. */
export const listGuardedCheats = (task: TaskInterface): GuardedCheat[] => [
  gitArchaeology,
  network,
  ...nullImplementations(task),
  deleteTests,
  forgeReward,
  ...cheats.map((cheat) => ({ ...cheat, verdict: toVerdict(cheat.id) })),
]

function toVerdict(id: string): GuardedCheat['verdict'] {
  if (INSIDE_THE_TESTS.includes(id)) return 'weak'
  return OF_THE_IMAGE.includes(id) ? 'leak_in_image' : 'cheat_passes'
}

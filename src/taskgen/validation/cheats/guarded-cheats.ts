import { cheats } from '../../../trials/cheats/cheats.ts'
import { archaeology } from './archaeology.ts'
import { deleteTests } from './delete-tests.ts'
import { forgeReward } from './forge-reward.ts'
import type { GuardedCheat } from './guarded-cheat.ts'
import { network } from './network.ts'
import { type Interface, nullImplementations } from './null-implementation.ts'

/** They work inside the process of the tests, where what is tested and what tests it are one. */
const INSIDE_THE_TESTS = ['equals-everything', 'forged-report']
/** They use what was left in the image. */
const OF_THE_IMAGE = ['git-history', 'leaked-solution']

/** Every cheat that a finished task is tried with, those first that find most. */
export const guardedCheats = (task: Interface): GuardedCheat[] => [
  archaeology,
  network,
  ...nullImplementations(task),
  deleteTests,
  forgeReward,
  ...cheats.map((cheat) => ({ ...cheat, verdict: verdictOn(cheat.id) })),
]

function verdictOn(id: string): GuardedCheat['verdict'] {
  if (INSIDE_THE_TESTS.includes(id)) return 'weak'
  return OF_THE_IMAGE.includes(id) ? 'leak_in_image' : 'cheat_passes'
}

import type { Cheat } from '../../../trials/cheats/cheat.ts'

/**
 * A cheat and its consequence for a task on which it succeeds. `weak` is recorded and does not reject the task: tests that
 * load the code cannot prevent such a cheat.
 */
export type GuardedCheat = Cheat & { verdict: 'cheat_passes' | 'leak_in_image' | 'weak' }

/** Exit code of a cheat that found forbidden content. */
export const FOUND = 78

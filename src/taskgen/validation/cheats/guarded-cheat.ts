import type { Cheat } from '../../../trials/cheats/cheat.ts'

/**
 * What it means for a task that a cheat wins. `weak` is said of it, and does not end it: what a separate verifier cannot
 * stop, no task whose tests load the code can.
 */
export type GuardedCheat = Cheat & { verdict: 'cheat_passes' | 'leak_in_image' | 'weak' }

/** Exit code of a cheat that found forbidden content. */
export const FOUND = 78

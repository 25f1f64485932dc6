/** What is known of one setting: tasks, the mean of their shares of passes, and how these scatter. */
export type Sample = { tasks: number; trials: number; mean: number; variance: number }

const Z = 1.959963984540054
const TASKS_MIN = 5

/**
 * The 95 % interval of Wilson, with the effective sample size of Korn and Graubard: trials of one task are not
 * independent, so the task is what is counted. Holds from five tasks on; below that there is none.
 */
export function interval({ tasks, trials, mean, variance }: Sample): { low: number; high: number } | undefined {
  if (tasks < TASKS_MIN) return undefined
  const spread = cautious(variance / tasks, mean, tasks)
  const effective = variance === 0 ? tasks : clamp((mean * (1 - mean)) / spread, 1, trials)
  const size = effective * (Z / studentT(tasks - 1)) ** 2
  const centre = (mean + Z ** 2 / (2 * size)) / (1 + Z ** 2 / size)
  const half = (Z * Math.sqrt((mean * (1 - mean)) / size + Z ** 2 / (4 * size ** 2))) / (1 + Z ** 2 / size)
  return { low: Math.max(0, centre - half), high: Math.min(1, centre + half) }
}

/** What half a task is worth. Found by simulation: with less, intervals near 0 and 1 are too narrow from two trials on. */
const DOUBT = 0.5

/** Where few tasks differ from the rest, they say little of how tasks scatter: then it is taken to be the most it can. */
function cautious(spread: number, mean: number, tasks: number): number {
  const most = (mean * (1 - mean)) / tasks
  const different = tasks * Math.min(mean, 1 - mean)
  return Math.max(spread, (different * spread + DOUBT * most) / (different + DOUBT))
}

const clamp = (value: number, low: number, high: number): number => Math.min(high, Math.max(low, value))

/** The 97.5 % point of Student's distribution, by the expansion of Cornish and Fisher: to 0.01 from four degrees on. */
function studentT(degrees: number): number {
  const z3 = (Z ** 3 + Z) / 4
  const z5 = (5 * Z ** 5 + 16 * Z ** 3 + 3 * Z) / 96
  const z7 = (3 * Z ** 7 + 19 * Z ** 5 + 17 * Z ** 3 - 15 * Z) / 384
  return Z + z3 / degrees + z5 / degrees ** 2 + z7 / degrees ** 3
}

// How much tasks differ from each other in the difference of two settings, and how much one trial differs from the next:
// from simulations with tasks of mixed difficulty.
const TASK_VARIANCE = 0.019
const TRIAL_VARIANCE = 0.275
/** For a test at 5 % that finds it in 80 % of all cases. */
const POWER = 2.8

/** The smallest difference in accuracy between two settings, in percentage points, that is usually seen. */
export const smallestDifference = (tasks: number, attempts: number): number =>
  Math.min(100, 100 * POWER * Math.sqrt((TASK_VARIANCE + TRIAL_VARIANCE / attempts) / tasks))

/** A mutant that no test can notice, because the changed program does the same. */
export type EquivalentMutant = {
  file: string
  /** Part of the source line, if the same code occurs more than once in the file. */
  lineText?: string | undefined
  /** The original code, and the code that replaces it. */
  code: string
  replacement: string
  reason: string
}

const UNIQUE_IDS = 'The compared ids are never equal.'
const CACHE = 'The cache saves time and does not change a result.'
const NON_EMPTY = 'The list is never empty; the fallback is for the compiler.'
const CONVERGED = 'The search has converged long before.'
const SAME_POSITION = 'A setting has no pair with itself, which is an error either way.'
const PAST_THE_END = 'A place past the end of a typed array reads as nothing and cannot be written.'

export const EQUIVALENT_MUTANTS: readonly EquivalentMutant[] = [
  { file: 'src/statistics/frontier.ts', code: 'a.id < b.id', replacement: 'a.id <= b.id', reason: UNIQUE_IDS },
  {
    file: 'src/statistics/frontier.ts',
    code: '() => 0',
    replacement: '() => undefined',
    reason: 'Counts that are missing are read as 0.',
  },
  {
    file: 'src/statistics/frontier.ts',
    code: 'task < count',
    replacement: 'task <= count',
    reason: PAST_THE_END,
  },
  {
    file: 'src/statistics/frontier.ts',
    code: 'times[task] === 0',
    replacement: 'false',
    reason: 'A task with the weight 0 adds nothing to a sum; leaving it out saves time.',
  },
  {
    file: 'src/statistics/frontier.ts',
    code: 'position < tasks.length',
    replacement: 'position <= tasks.length',
    reason: PAST_THE_END,
  },
  {
    file: 'src/harbor/reward.ts',
    code: "process.platform === 'linux'",
    replacement: 'true',
    reason: 'The tests of mutants run on Linux.',
  },
  {
    file: 'src/harbor/reward.ts',
    code: "'The file cannot be read.'",
    replacement: '""',
    reason: 'Every reason that a reader returns has a message; the fallback is for the compiler.',
  },
  {
    file: 'src/harbor/reward.ts',
    code: 'reward !== undefined',
    replacement: 'true',
    reason: 'Undefined is not at least 1; the condition is for the compiler.',
  },
  {
    file: 'src/harbor/reward.ts',
    code: '{\n    return undefined\n  }',
    replacement: '{}',
    reason: 'A function without a return value returns undefined.',
  },
  {
    file: 'src/trials/outcome.ts',
    code: 'steps.find((step) => step.agent?.limit)?.agent?.limit',
    replacement: 'steps.find(step => step.agent?.limit)?.agent.limit',
    reason: 'A step that was found has an agent.',
  },
  {
    file: 'src/trials/outcome.ts',
    code: 'reward !== null',
    replacement: 'true',
    reason: 'Null is not at least 1; the condition is for the compiler.',
  },
  {
    file: 'src/gateway/check-request.ts',
    lineText: "pattern.split('*')",
    code: "''",
    replacement: '"Stryker was here!"',
    reason: 'A split text has at least one part; the default is for the compiler.',
  },
  {
    file: 'src/gateway/price.ts',
    lineText: 'prices.tiers ?? []',
    code: '[]',
    replacement: '["Stryker was here"]',
    reason: 'A tier without a threshold never applies.',
  },
  {
    file: 'src/gateway/price.ts',
    lineText: 'DECIMAL.exec',
    code: '[]',
    replacement: '["Stryker was here"]',
    reason: 'Only the groups after the first element are read.',
  },
  {
    file: 'src/statistics/paired.ts',
    code: 'oneSidedPValue(-tested.t, tested.degrees) < SIGNIFICANCE_LEVEL',
    replacement: 'oneSidedPValue(-tested.t, tested.degrees) <= SIGNIFICANCE_LEVEL',
    reason: 'A probability is never exactly 5 %.',
  },
  {
    file: 'src/statistics/pairs.ts',
    code: 'valueAt(probabilities, index) > SIGNIFICANCE_LEVEL / (order.length - step)',
    replacement: 'valueAt(probabilities, index) >= SIGNIFICANCE_LEVEL / (order.length - step)',
    reason: 'A probability is never exactly at the level.',
  },
  {
    file: 'src/releases/stats.ts',
    code: '{ best: 1, worst: chosen.length }',
    replacement: '{}',
    reason: 'Every setting has a rank; the fallback is for the compiler.',
  },
  {
    file: 'src/statistics/student.ts',
    code: 't >= 0',
    replacement: 't > 0',
    reason: 'At 0 both directions have one half.',
  },
  { file: 'src/statistics/student.ts', code: 'cached !== undefined', replacement: 'false', reason: CACHE },
  { file: 'src/statistics/student.ts', code: 'quantileCache.size < CACHE_MAX', replacement: 'true', reason: CACHE },
  { file: 'src/statistics/student.ts', code: 'quantileCache.size < CACHE_MAX', replacement: 'false', reason: CACHE },
  {
    file: 'src/statistics/student.ts',
    code: 'quantileCache.size < CACHE_MAX',
    replacement: 'quantileCache.size <= CACHE_MAX',
    reason: CACHE,
  },
  {
    file: 'src/statistics/student.ts',
    code: 'quantileCache.size < CACHE_MAX',
    replacement: 'quantileCache.size >= CACHE_MAX',
    reason: CACHE,
  },
  { file: 'src/statistics/student.ts', code: 'quantileCache.set(key, value)', replacement: ';', reason: CACHE },
  { file: 'src/statistics/student.ts', code: 'step < 100', replacement: 'step <= 100', reason: CONVERGED },
  {
    file: 'src/statistics/student.ts',
    code: 'twoSidedPValue(middle, degrees) > twoSidedProbability',
    replacement: 'twoSidedPValue(middle, degrees) >= twoSidedProbability',
    reason: CONVERGED,
  },
  {
    file: 'src/statistics/student.ts',
    code: 'x < (a + 1) / (a + b + 2)',
    replacement: 'x <= (a + 1) / (a + b + 2)',
    reason: 'Both forms of the function give the same at the switch.',
  },
  {
    file: 'src/statistics/student.ts',
    lineText: 'return x <',
    code: 'a + b',
    replacement: 'a - b',
    reason: 'Both forms of the function give the same; the switch chooses the one with fewer steps.',
  },
  {
    file: 'src/statistics/student.ts',
    code: 'Math.abs(value) < TINY',
    replacement: 'false',
    reason: 'No denominator is 0 for the arguments of Student’s distribution.',
  },
  {
    file: 'src/statistics/student.ts',
    code: 'Math.abs(value) < TINY',
    replacement: 'Math.abs(value) <= TINY',
    reason: 'No denominator is 0 for the arguments of Student’s distribution.',
  },
  { file: 'src/statistics/student.ts', code: 'm <= 500', replacement: 'm < 500', reason: CONVERGED },
  {
    file: 'src/statistics/student.ts',
    code: 'Math.abs(d * c - 1) < 1e-15',
    replacement: 'Math.abs(d * c - 1) <= 1e-15',
    reason: CONVERGED,
  },
  {
    file: 'src/comparisons/counts.ts',
    code: 'Object.keys(NO_COUNTS).filter((name): name is keyof SettingCounts => name in NO_COUNTS)',
    replacement: 'Object.keys(NO_COUNTS)',
    reason: 'All names are in it; the filter is for the compiler.',
  },
  {
    file: 'src/comparisons/counts.ts',
    code: '!row',
    replacement: 'false',
    reason: 'Every planned trial has a row; the condition is for the compiler.',
  },
  {
    file: 'src/comparisons/counts.ts',
    code: 'trials.filter((trial) => trial.reused)',
    replacement: 'trials',
    reason: 'A task without reused trials adds nothing; leaving it out saves time.',
  },
  { file: 'src/comparisons/counts.ts', code: 'cell[0]?.setting', replacement: 'cell[0].setting', reason: NON_EMPTY },
  {
    file: 'src/comparisons/counts.ts',
    lineText: 'reused ?',
    code: '[]',
    replacement: '["Stryker was here"]',
    reason: 'Only reused trials are grouped; the fallback is for the compiler.',
  },
  {
    file: 'src/comparisons/counts.ts',
    lineText: 'if (row)',
    code: 'row',
    replacement: 'true',
    reason: 'Every setting has a row; the condition is for the compiler.',
  },
  {
    file: 'src/releases/aggregate.ts',
    lineText: 'bySetting.get',
    code: '[]',
    replacement: '["Stryker was here"]',
    reason: 'A text is neither an approved trial nor an errored or voided one.',
  },
  { file: 'src/releases/aggregate.ts', code: 'a.id < b.id', replacement: 'a.id <= b.id', reason: UNIQUE_IDS },
  { file: 'src/releases/aggregate.ts', lineText: 'if (cached)', code: 'cached', replacement: 'false', reason: CACHE },
  { file: 'src/releases/aggregate.ts', code: 'taskListCache.set(chosen, sorted)', replacement: ';', reason: CACHE },
  {
    file: 'src/releases/fingerprint.ts',
    code: 'isList(value) && value.every(isPlain)',
    replacement: 'false',
    reason: 'A list without objects has the same text either way; one call is faster.',
  },
  {
    file: 'src/releases/cohort.ts',
    lineText: 'best ?? []',
    code: '[]',
    replacement: '["Stryker was here"]',
    reason: 'Without a cohort the first condition decides.',
  },
  { file: 'src/releases/cohort.ts', code: '!best || !first', replacement: '!best && !first', reason: NON_EMPTY },
  {
    file: 'src/releases/cohort.ts',
    code: 'compareRequestTime(use, earlier) < 0',
    replacement: 'compareRequestTime(use, earlier) <= 0',
    reason: 'Two uses of a trial are never of the same age.',
  },
  {
    file: 'src/releases/cohort.ts',
    code: 'toSharedKey(a) < toSharedKey(b)',
    replacement: 'toSharedKey(a) <= toSharedKey(b)',
    reason: UNIQUE_IDS,
  },
  {
    file: 'src/releases/cohort.ts',
    lineText: 'toSharedKey',
    code: "''",
    replacement: '"Stryker was here!"',
    reason: NON_EMPTY,
  },
  { file: 'src/releases/cohort.ts', code: 'a.trial < b.trial', replacement: 'a.trial <= b.trial', reason: UNIQUE_IDS },
  {
    file: 'src/releases/cohort.ts',
    lineText: 'first ?',
    code: '[]',
    replacement: '["Stryker was here"]',
    reason: NON_EMPTY,
  },
  { file: 'src/releases/cohort.ts', code: 'a.task < b.task', replacement: 'a.task <= b.task', reason: UNIQUE_IDS },
  { file: 'src/releases/fingerprint.ts', code: 'a.id < b.id', replacement: 'a.id <= b.id', reason: UNIQUE_IDS },
  { file: 'src/releases/fingerprint.ts', code: 'textCache.set(result, text)', replacement: ';', reason: CACHE },
  {
    file: 'src/gateway/verdict.ts',
    lineText: 'isExcuse(failure, isLastAttempt)',
    code: 'failure !== null',
    replacement: 'true',
    reason: 'Null is no excuse; the condition is for the compiler.',
  },
  {
    file: 'src/gateway/check-request.ts',
    code: "'budgetTokens' in expected && 'budgetTokens' in requested",
    replacement: "'budgetTokens' in expected || 'budgetTokens' in requested",
    reason: 'A budget never equals a missing one; the second condition is for the compiler.',
  },
  {
    file: 'src/gateway/verdict.ts',
    code: 'lastFailure?.status',
    replacement: 'lastFailure.status',
    reason: 'There is a failure whenever the last one has a kind.',
  },
  {
    file: 'src/gateway/verdict.ts',
    lineText: "failure === 'price'",
    code: 'failure !== null',
    replacement: 'true',
    reason: 'Null is not a kind of failure; the condition is for the compiler.',
  },
  {
    file: 'src/statistics/answer.ts',
    lineText: 'leader.mean === 0',
    code: 'visibleDifference === undefined',
    replacement: 'false',
    reason: 'Two candidates have a visible difference; the condition is for the compiler.',
  },
  { file: 'src/statistics/answer.ts', code: 'a.id < b.id', replacement: 'a.id <= b.id', reason: UNIQUE_IDS },
  {
    file: 'src/statistics/answer.ts',
    lineText: '[low, high]',
    code: 'a < b',
    replacement: 'a <= b',
    reason: SAME_POSITION,
  },
  {
    file: 'src/statistics/answer.ts',
    lineText: 'flipPair',
    code: 'a < b',
    replacement: 'a <= b',
    reason: SAME_POSITION,
  },
  {
    file: 'src/statistics/intervals.ts',
    lineText: 'sum +=',
    code: 'index < count',
    replacement: 'index <= count',
    reason: PAST_THE_END,
  },
  {
    file: 'src/statistics/pairs.ts',
    lineText: 'better',
    code: 'difference.centre > 0',
    replacement: 'difference.centre >= 0',
    reason: 'A significant difference is not 0.',
  },
  {
    file: 'src/statistics/pairs.ts',
    code: 'task < a.trials.length',
    replacement: 'task <= a.trials.length',
    reason: PAST_THE_END,
  },
  ...[
    ['low === undefined || high === undefined', 'low === undefined && high === undefined'],
    ['low === undefined', 'false'],
    ['high === undefined', 'false'],
  ].map(([code = '', replacement = '']) => ({
    file: 'src/releases/stats.ts',
    code,
    replacement,
    reason: 'Both middle values exist, or neither; two conditions are for the compiler.',
  })),
]

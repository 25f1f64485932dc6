/** A mutant that no test can notice, because the changed program does the same. `line` is a part of its source line. */
export type EquivalentMutant = {
  file: string
  line?: string | undefined
  code: string
  becomes: string
  reason: string
}

const UNIQUE_IDS = 'The compared ids are never equal.'
const CACHE = 'The cache saves time and does not change a result.'
const NON_EMPTY = 'The list is never empty; the fallback is for the compiler.'
const CONVERGED = 'The search has converged long before.'
const PAST_THE_END = 'A place past the end of a typed array reads as nothing and cannot be written.'

export const EQUIVALENT_MUTANTS: readonly EquivalentMutant[] = [
  { file: 'src/statistics/frontier.ts', code: 'a.id < b.id', becomes: 'a.id <= b.id', reason: UNIQUE_IDS },
  {
    file: 'src/statistics/frontier-probability.ts',
    code: '() => 0',
    becomes: '() => undefined',
    reason: 'Counts that are missing are read as 0.',
  },
  {
    file: 'src/statistics/frontier-probability.ts',
    code: 'task < count',
    becomes: 'task <= count',
    reason: PAST_THE_END,
  },
  {
    file: 'src/statistics/frontier-probability.ts',
    code: 'times[task] === 0',
    becomes: 'false',
    reason: 'A task with the weight 0 adds nothing to a sum; leaving it out saves time.',
  },
  {
    file: 'src/statistics/frontier-probability.ts',
    code: 'each < tasks.length',
    becomes: 'each <= tasks.length',
    reason: PAST_THE_END,
  },
  {
    file: 'src/harbor/reward.ts',
    code: "process.platform === 'linux'",
    becomes: 'true',
    reason: 'The tests of mutants run on Linux.',
  },
  {
    file: 'src/harbor/reward.ts',
    code: "'The file cannot be read.'",
    becomes: '""',
    reason: 'Every reason that a reader returns has a message; the fallback is for the compiler.',
  },
  {
    file: 'src/harbor/reward.ts',
    code: 'reward !== undefined',
    becomes: 'true',
    reason: 'Undefined is not at least 1; the condition is for the compiler.',
  },
  {
    file: 'src/harbor/reward.ts',
    code: '{\n    return undefined\n  }',
    becomes: '{}',
    reason: 'A function without a return value returns undefined.',
  },
  {
    file: 'src/trials/outcome.ts',
    code: 'steps.find((step) => step.agent?.limit)?.agent?.limit',
    becomes: 'steps.find(step => step.agent?.limit)?.agent.limit',
    reason: 'A step that was found has an agent.',
  },
  {
    file: 'src/trials/outcome.ts',
    code: 'reward !== null',
    becomes: 'true',
    reason: 'Null is not at least 1; the condition is for the compiler.',
  },
  {
    file: 'src/gateway/check-request.ts',
    line: "pattern.split('*')",
    code: "''",
    becomes: '"Stryker was here!"',
    reason: 'A split text has at least one part; the default is for the compiler.',
  },
  {
    file: 'src/gateway/price.ts',
    line: 'prices.tiers ?? []',
    code: '[]',
    becomes: '["Stryker was here"]',
    reason: 'A tier without a threshold never applies.',
  },
  {
    file: 'src/gateway/price.ts',
    line: 'DECIMAL.exec',
    code: '[]',
    becomes: '["Stryker was here"]',
    reason: 'Only the groups after the first element are read.',
  },
  {
    file: 'src/statistics/paired.ts',
    code: 'oneSided(-found.t, found.degrees) < LEVEL',
    becomes: 'oneSided(-found.t, found.degrees) <= LEVEL',
    reason: 'A probability is never exactly 5 %.',
  },
  {
    file: 'src/statistics/holm.ts',
    code: 'at(probabilities, index) > LEVEL / (order.length - step)',
    becomes: 'at(probabilities, index) >= LEVEL / (order.length - step)',
    reason: 'A probability is never exactly at the level.',
  },
  {
    file: 'src/releases/stats.ts',
    code: '{ best: 1, worst: chosen.length }',
    becomes: '{}',
    reason: 'Every setting has a rank; the fallback is for the compiler.',
  },
  {
    file: 'src/statistics/student.ts',
    code: 't >= 0',
    becomes: 't > 0',
    reason: 'At 0 both directions have one half.',
  },
  { file: 'src/statistics/student.ts', code: 'known !== undefined', becomes: 'false', reason: CACHE },
  { file: 'src/statistics/student.ts', code: 'found.size < FOUND_MAX', becomes: 'true', reason: CACHE },
  { file: 'src/statistics/student.ts', code: 'found.size < FOUND_MAX', becomes: 'false', reason: CACHE },
  {
    file: 'src/statistics/student.ts',
    code: 'found.size < FOUND_MAX',
    becomes: 'found.size <= FOUND_MAX',
    reason: CACHE,
  },
  {
    file: 'src/statistics/student.ts',
    code: 'found.size < FOUND_MAX',
    becomes: 'found.size >= FOUND_MAX',
    reason: CACHE,
  },
  { file: 'src/statistics/student.ts', code: 'found.set(key, value)', becomes: ';', reason: CACHE },
  { file: 'src/statistics/student.ts', code: 'step < 100', becomes: 'step <= 100', reason: CONVERGED },
  {
    file: 'src/statistics/student.ts',
    code: 'twoSided(middle, degrees) > twoSidedProbability',
    becomes: 'twoSided(middle, degrees) >= twoSidedProbability',
    reason: CONVERGED,
  },
  {
    file: 'src/statistics/student.ts',
    code: 'x < (a + 1) / (a + b + 2)',
    becomes: 'x <= (a + 1) / (a + b + 2)',
    reason: 'Both forms of the function give the same at the switch.',
  },
  {
    file: 'src/statistics/student.ts',
    line: 'return x <',
    code: 'a + b',
    becomes: 'a - b',
    reason: 'Both forms of the function give the same; the switch chooses the one with fewer steps.',
  },
  {
    file: 'src/statistics/student.ts',
    code: 'Math.abs(value) < TINY',
    becomes: 'false',
    reason: 'No denominator is 0 for the arguments of Student’s distribution.',
  },
  {
    file: 'src/statistics/student.ts',
    code: 'Math.abs(value) < TINY',
    becomes: 'Math.abs(value) <= TINY',
    reason: 'No denominator is 0 for the arguments of Student’s distribution.',
  },
  { file: 'src/statistics/student.ts', code: 'm <= 500', becomes: 'm < 500', reason: CONVERGED },
  {
    file: 'src/statistics/student.ts',
    code: 'Math.abs(d * c - 1) < 1e-15',
    becomes: 'Math.abs(d * c - 1) <= 1e-15',
    reason: CONVERGED,
  },
  {
    file: 'src/comparisons/counts.ts',
    code: 'Object.keys(NO_COUNTS).filter((name): name is keyof Counts => name in NO_COUNTS)',
    becomes: 'Object.keys(NO_COUNTS)',
    reason: 'All names are in it; the filter is for the compiler.',
  },
  {
    file: 'src/comparisons/counts.ts',
    code: '!row',
    becomes: 'false',
    reason: 'Every planned trial has a row; the condition is for the compiler.',
  },
  {
    file: 'src/comparisons/counts.ts',
    code: 'trials.filter((trial) => trial.reused)',
    becomes: 'trials',
    reason: 'A task without reused trials adds nothing; leaving it out saves time.',
  },
  { file: 'src/comparisons/counts.ts', code: 'cell[0]?.setting', becomes: 'cell[0].setting', reason: NON_EMPTY },
  {
    file: 'src/comparisons/counts.ts',
    line: 'reused ?',
    code: '[]',
    becomes: '["Stryker was here"]',
    reason: 'Only reused trials are grouped; the fallback is for the compiler.',
  },
  {
    file: 'src/comparisons/counts.ts',
    line: 'if (row)',
    code: 'row',
    becomes: 'true',
    reason: 'Every setting has a row; the condition is for the compiler.',
  },
  {
    file: 'src/releases/aggregate.ts',
    line: 'bySetting.get',
    code: '[]',
    becomes: '["Stryker was here"]',
    reason: 'A text is neither an approved trial nor an errored or voided one.',
  },
  { file: 'src/releases/aggregate.ts', code: 'a.id < b.id', becomes: 'a.id <= b.id', reason: UNIQUE_IDS },
  { file: 'src/releases/aggregate.ts', line: 'if (known)', code: 'known', becomes: 'false', reason: CACHE },
  { file: 'src/releases/aggregate.ts', code: 'tasksOfChosen.set(chosen, sorted)', becomes: ';', reason: CACHE },
  {
    file: 'src/releases/canonical-json.ts',
    code: 'isList(value) && value.every(isPlain)',
    becomes: 'false',
    reason: 'A list without objects has the same text either way; one call is faster.',
  },
  {
    file: 'src/releases/cohort.ts',
    line: 'best ?? []',
    code: '[]',
    becomes: '["Stryker was here"]',
    reason: 'Without a cohort the first condition decides.',
  },
  { file: 'src/releases/cohort.ts', code: '!best || !first', becomes: '!best && !first', reason: NON_EMPTY },
  {
    file: 'src/releases/cohort.ts',
    code: 'byAge(trial, before) < 0',
    becomes: 'byAge(trial, before) <= 0',
    reason: 'Two uses of a trial are never of the same age.',
  },
  {
    file: 'src/releases/cohort.ts',
    code: 'keyOfAll(a) < keyOfAll(b)',
    becomes: 'keyOfAll(a) <= keyOfAll(b)',
    reason: UNIQUE_IDS,
  },
  { file: 'src/releases/cohort.ts', line: 'keyOfAll', code: "''", becomes: '"Stryker was here!"', reason: NON_EMPTY },
  { file: 'src/releases/cohort.ts', code: 'a.trial < b.trial', becomes: 'a.trial <= b.trial', reason: UNIQUE_IDS },
  { file: 'src/releases/cohort.ts', line: 'first ?', code: '[]', becomes: '["Stryker was here"]', reason: NON_EMPTY },
  { file: 'src/releases/cohort.ts', code: 'a.task < b.task', becomes: 'a.task <= b.task', reason: UNIQUE_IDS },
  { file: 'src/releases/fingerprint.ts', code: 'a.id < b.id', becomes: 'a.id <= b.id', reason: UNIQUE_IDS },
  { file: 'src/releases/fingerprint.ts', code: 'texts.set(result, text)', becomes: ';', reason: CACHE },
  {
    file: 'src/gateway/verdict.ts',
    line: 'OUTAGES.includes(last)',
    code: 'last !== null',
    becomes: 'true',
    reason: 'Null is in neither list; the condition is for the compiler.',
  },
  ...['The provider was asked too often.', 'The provider is broken, or cannot be reached.'].map((message) => ({
    file: 'src/gateway/verdict.ts',
    code: `'${message}'`,
    becomes: '""',
    reason: 'An outage has a message of its own; the entry is for the compiler.',
  })),
  {
    file: 'src/gateway/check-request.ts',
    code: "'budgetTokens' in expected && 'budgetTokens' in asked",
    becomes: "'budgetTokens' in expected || 'budgetTokens' in asked",
    reason: 'A budget never equals a missing one; the second condition is for the compiler.',
  },
  {
    file: 'src/gateway/verdict.ts',
    code: 'lastFailure?.status',
    becomes: 'lastFailure.status',
    reason: 'There is a failure whenever the last one has a kind.',
  },
  {
    file: 'src/gateway/verdict.ts',
    line: "last === 'price'",
    code: 'last !== null',
    becomes: 'true',
    reason: 'Null is not a kind of failure; the condition is for the compiler.',
  },
]

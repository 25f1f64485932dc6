/** Files with pure decisions that belong together, and the tests that have to notice a change in them. */
export type MutationGroup = { name: string; files: readonly string[]; tests: readonly string[] }

/** Groups of files to mutate. Their tests must need no database, sandbox or network: they run once per mutant. */
export const MUTATION_GROUPS: readonly MutationGroup[] = [
  {
    name: 'frontier and statistics',
    files: [
      'src/statistics/intervals.ts',
      'src/statistics/answer.ts',
      'src/statistics/frontier.ts',
      'src/statistics/pairs.ts',
      'src/statistics/paired.ts',
      'src/releases/stats.ts',
      'src/statistics/student.ts',
    ],
    tests: [
      'src/statistics/accuracy.test.ts',
      'src/statistics/answer.test.ts',
      'src/statistics/answer-rules.test.ts',
      'src/statistics/frontier.test.ts',
      'src/statistics/frontier-probability.test.ts',
      'src/statistics/generator.test.ts',
      'src/statistics/paired.test.ts',
      'src/statistics/pairs.test.ts',
      'src/releases/stats.test.ts',
      'src/statistics/statistics.test.ts',
      'src/statistics/student.test.ts',
    ],
  },
  {
    name: 'reward',
    files: ['src/harbor/reward.ts', 'src/trials/outcome.ts'],
    tests: [
      'src/harbor/reward.test.ts',
      'src/harbor/reward-limits.test.ts',
      'src/trials/outcome.test.ts',
      'src/trials/outcome-classes.test.ts',
    ],
  },
  {
    name: 'aggregate',
    files: [
      'src/comparisons/counts.ts',
      'src/comparisons/plan.ts',
      'src/releases/aggregate.ts',
      'src/releases/fingerprint.ts',
      'src/releases/cohort.ts',
    ],
    tests: [
      'src/comparisons/counts.test.ts',
      'src/comparisons/decisions.test.ts',
      'src/releases/aggregate.test.ts',
      'src/releases/cohort.test.ts',
      'src/releases/decisions.test.ts',
      'src/releases/fingerprint.test.ts',
      'src/releases/picks.test.ts',
    ],
  },
  {
    name: 'price',
    files: ['src/catalog/model.ts', 'src/comparisons/quote.ts', 'src/gateway/price.ts', 'src/platform/usd.ts'],
    tests: [
      'src/catalog/prices.test.ts',
      'src/comparisons/quote.test.ts',
      'src/comparisons/trial-prior.test.ts',
      'src/gateway/price.test.ts',
      'src/platform/usd.test.ts',
    ],
  },
  {
    name: 'judge',
    files: [
      'src/gateway/failure-causes.ts',
      'src/platform/untrusted-json.ts',
      'src/gateway/check-request.ts',
      'src/gateway/retry-policy.ts',
      'src/gateway/verdict.ts',
    ],
    tests: [
      'src/gateway/classify-concurrency.test.ts',
      'src/platform/untrusted-json.test.ts',
      'src/gateway/classify-failure.test.ts',
      'src/gateway/check-request.test.ts',
      'src/gateway/retry-policy.test.ts',
      'src/gateway/verdict.test.ts',
      'src/gateway/verdict-reasons.test.ts',
    ],
  },
]

import { z } from 'zod'
import { NamedConfiguration } from '../../configurations/schema.ts'

const time = z.iso.datetime()
const count = z.number().int().min(0)
const percent = z.number().min(0).max(100)
const usd = z.number().min(0)

const Usage = z.object({
  input: z.number().min(0),
  cacheRead: z.number().min(0),
  cacheWrite: z.number().min(0),
  output: z.number().min(0),
  reasoning: z.number().min(0),
})

const Rank = z.object({ best: count, worst: count })

const Reliability = z.object({
  trials: count.describe('Smallest number of trials of any task.'),
  always: count,
  sometimes: count,
  never: count,
  passPower: z.array(z.object({ k: count, percent })).describe('pass^k: probability that k trials of a task all pass.'),
})

const ReleaseStats = z
  .object({
    passAt1: percent.describe('Mean over tasks of the share of scored trials that passed.'),
    ci95: z
      .object({ low: percent, high: percent, level: z.number(), method: z.string(), tasks: count, trials: count })
      .nullable()
      .describe('Null below five tasks.'),
    rank: Rank.describe('Range of ranks that the data supports.'),
    frontierProbability: z
      .number()
      .min(0)
      .max(1)
      .nullable()
      .describe('Null if the setting lacks results for some tasks.'),
    usagePerTask: Usage.nullable().describe('Mean tokens per task.'),
    cacheHitRate: percent.nullable(),
    medianSeconds: z
      .number()
      .min(0)
      .nullable()
      .optional()
      .describe('Median time of the agent on a task. Null if it was not recorded; omitted in older releases.'),
    reliability: Reliability.nullable().describe('Null if a task has only one trial.'),
    coverage: percent.describe("Share of the release's tasks that have a result."),
    errored: count.describe('Trials that failed because of the infrastructure.'),
    costSource: z.string().nullable(),
    methods: z.object({ rank: z.string(), frontierProbability: z.string() }),
  })
  .meta({ id: 'ReleaseStats', description: 'See docs/statistics.md.' })

const model = z.object({ catalogId: z.string(), name: z.string(), label: z.string() })

const settingIdentity = {
  id: z
    .string()
    .describe(
      '`<catalogId>|<harness>|<reasoningLevel>`, followed by `|<name>@<version>` if it has a configuration, and by `|timeouts*<factor>` if its time limits are changed',
    ),
  model,
  harness: z.string(),
  reasoningLevel: z.string(),
  provider: z.string(),
  custom: z.boolean(),
  configuration: NamedConfiguration.optional().describe('Name and digest only. The content stays private.'),
  timeoutMultiplier: z.number().optional().describe("Factor of the tasks' time limits. Absent if it is 1."),
}

export const ReleaseSetting = z
  .object({
    ...settingIdentity,
    tasks: count.describe('Tasks run for this setting.'),
    passed: count,
    accuracy: percent,
    costPerTaskUsd: usd,
    totalCostUsd: usd,
    onFrontier: z.boolean(),
    isolation: z.string().nullable(),
    stats: ReleaseStats,
  })
  .meta({ id: 'ReleaseSetting', description: 'A published setting and its results.' })
export type ReleaseSetting = z.infer<typeof ReleaseSetting>

const rates = {
  input: usd,
  output: usd,
  cacheRead: usd.optional(),
  cacheWrite5m: usd.optional(),
  cacheWrite1h: usd.optional(),
}
const Prices = z.object({
  ...rates,
  tiers: z.array(z.object({ aboveInputTokens: count, ...rates })).optional(),
})

const span = z
  .object({ min: z.number().nullable(), max: z.number().nullable() })
  .describe('Minimum and maximum over all canonical trials. Null means unlimited.')
const ResourceSpans = z.object({ cpus: span, memoryMb: span, diskMb: span })
export type ResourceSpans = z.infer<typeof ResourceSpans>

/** Limits are spans. Releases from before limits were recorded per trial contain a sentence instead. */
const ReleasedResources = z.union([ResourceSpans.nullable(), z.string()])

export const Disclosure = z
  .object({
    settings: z.object({ run: count, published: count }),
    trials: z.object({ run: count, scored: count, errored: count, voided: count }),
    tasks: z.object({
      approved: count,
      published: count,
      excluded: z.array(z.object({ reason: z.string(), count })),
    }),
    attempts: z.object({ min: count, max: count }),
    harnesses: z.array(z.object({ harness: z.string(), version: z.string() })),
    sandboxes: z.array(z.string()),
    verifyModes: z.array(z.string()),
    isolation: z.array(z.string()),
    resources: ReleasedResources.describe('Resource limits of agent sandboxes. Null if they were not recorded.'),
    comparisons: z.object({ count, from: time.nullable(), to: time.nullable() }),
  })
  .meta({ id: 'ReleaseDisclosure', description: 'What was run, and which part of it is published.' })
export type Disclosure = z.infer<typeof Disclosure>

const repository = z.object({ id: z.number().int(), fullName: z.string() })
const publisher = z.object({ login: z.string(), kind: z.enum(['org', 'user']) })

export const Release = z
  .object({
    schemaVersion: z.literal(1),
    releaseId: z.string(),
    releasedAt: time,
    repository,
    publisher,
    tasks: count,
    settings: z.array(ReleaseSetting),
    frontier: z.array(z.string()).describe('Setting ids, cheapest first.'),
    disclosure: Disclosure,
    prices: z
      .object({
        at: time.nullable().describe('Start of the last canonical trial.'),
        models: z
          .array(
            z.object({
              catalogId: z.string(),
              prices: Prices.nullable().describe('Null if its trials called no model.'),
              from: time.nullable().optional().describe('Start of the first trial that was metered at these prices.'),
              to: time.nullable().optional().describe('Start of the last trial that was metered at these prices.'),
            }),
          )
          .describe('A model has several entries if its price changed between trials.'),
      })
      .meta({
        id: 'ReleasePrices',
        description: 'USD per million tokens at which costs were computed, frozen with each trial.',
      }),
  })
  .meta({ id: 'Release', description: 'Published results of a repository.' })
export type Release = z.infer<typeof Release>

export const Withdrawal = z.object({ at: time, reason: z.string() })

export const PublicRelease = Release.extend({ withdrawn: Withdrawal.nullable() }).meta({
  id: 'PublicRelease',
  description: 'A release as everybody sees it.',
})
export type PublicRelease = z.infer<typeof PublicRelease>

export const PublishedRelease = Release.extend({
  isHead: z.boolean(),
  withdrawn: Withdrawal.nullable(),
}).meta({ id: 'PublishedRelease', description: 'A release as its workspace sees it.' })
export type PublishedRelease = z.infer<typeof PublishedRelease>

export const PublishAnswer = PublishedRelease.extend({
  url: z.url().describe('Public page of the results of the repository.'),
}).meta({ id: 'PublishAnswer', description: 'The release, and the address of its page.' })

const PreviewSetting = z
  .object({
    key: z.string(),
    ...settingIdentity,
    tasks: count,
    passed: count,
    accuracy: percent.nullable(),
    costPerTaskUsd: usd.nullable(),
    totalCostUsd: usd.nullable(),
    onFrontier: z.boolean(),
    isolation: z.string().nullable(),
    stats: ReleaseStats.nullable().describe('Only for selected settings.'),
    selected: z.boolean(),
    complete: z.boolean().describe('The setting has a result for every task of the release.'),
    errored: count,
    voided: count,
    publishable: z.boolean(),
    reason: z.enum(['reference', 'no_results', 'cost_unknown']).optional(),
  })
  .meta({ id: 'PreviewSetting', description: 'A setting that could be published.' })
export type PreviewSetting = z.infer<typeof PreviewSetting>

const SettingPair = z
  .object({
    a: z.string(),
    b: z.string(),
    tasks: count,
    difference: z.number().describe('Accuracy of a minus accuracy of b, in percentage points.'),
    low: z.number(),
    high: z.number(),
    wins: count,
    losses: count,
    ties: count,
  })
  .meta({ id: 'SettingPair', description: 'Two published settings on the tasks that both have a result for.' })
export type SettingPair = z.infer<typeof SettingPair>

export const Preview = z
  .object({
    repository: repository.extend({ visibility: z.enum(['public', 'private']) }),
    publisher,
    head: z.string().nullable(),
    fingerprint: z.string(),
    tasks: count,
    settings: z.array(PreviewSetting),
    frontier: z.array(z.string()),
    pairs: z.array(SettingPair).describe('Pairs of frontier settings, compared on the tasks that both have.'),
    disclosure: Disclosure,
    blockers: z.array(z.object({ code: z.string(), message: z.string() })),
    changes: z
      .object({ added: z.array(z.string()), removed: z.array(z.string()), moved: z.array(z.string()) })
      .describe('Compared with the head: settings that are new, removed, or have different numbers.'),
  })
  .meta({ id: 'ReleasePreview', description: 'What a release would contain now, and what prevents publishing it.' })
export type Preview = z.infer<typeof Preview>

export const SettingPicks = z.array(z.object({ id: z.string(), roles: z.array(z.string()) }))

import { z } from 'zod'

const count = z.number().int().min(0)
const usd = z.number().min(0)
const settingId = z.string().describe('Id of a setting: `<catalogId>|<harness>|<reasoningLevel>`')

export const SettingRank = z.object({ best: count, worst: count })

export const CostInterval = z.object({ low: usd, high: usd, level: z.number(), method: z.string(), tasks: count })

export const ComparisonAnswer = z
  .object({
    state: z
      .enum(['collecting', 'inconclusive', 'conclusive'])
      .describe('`collecting` until the comparison has completed or was canceled.'),
    recommended: settingId.nullable().describe('Null while collecting, and if nothing can be recommended.'),
    alternatives: z
      .array(settingId)
      .describe('Other settings that were not shown to be worse, the most accurate first.'),
    text: z.string().describe('The answer in one or two sentences.'),
    smallestVisibleDifference: z
      .number()
      .nullable()
      .describe('Smallest difference between two settings, in percentage points, that is detected with 80 % power.'),
  })
  .meta({ id: 'ComparisonAnswer', description: 'The conclusion of a comparison.' })
export type ComparisonAnswer = z.infer<typeof ComparisonAnswer>

const PairDifference = z
  .object({ points: z.number(), low: z.number(), high: z.number(), level: z.number(), method: z.string() })
  .describe('In percentage points, with its 95 % interval. Paired by task over all scored trials.')

const verdict = z
  .enum(['better', 'worse', 'cannot_tell'])
  .describe('About the first setting. Corrected for the number of pairs (Holm), so it can differ from the interval.')

const costDifference = z
  .object({ mean: z.number(), low: z.number(), high: z.number() })
  .describe('Per task, with its 95 % interval.')

const pairFields = {
  tasks: count.describe('Tasks with a scored trial of both.'),
  difference: PairDifference.nullable().describe('First minus second. Null below five shared tasks.'),
  costDifferenceUsd: costDifference.nullable().describe('Null below five shared tasks or if a cost is unknown.'),
  verdict,
}

export const ComparisonPair = z
  .object({
    a: settingId,
    b: settingId,
    wonByA: count.describe('Shared tasks that only `a` passed, by the first scored trials.'),
    wonByB: count,
    both: count,
    neither: count,
    ...pairFields,
  })
  .meta({ id: 'ComparisonPair', description: 'Two settings on the tasks that both have a result for.' })
export type ComparisonPair = z.infer<typeof ComparisonPair>

const TaskRef = z.object({
  name: z.string(),
  digest: z.string(),
  runId: z.string().optional(),
  taskId: z.string().optional(),
})

const TaskScore = z.object({
  passed: z.boolean().describe('Result of the first scored trial.'),
  trials: count,
  passes: count,
  costUsd: usd.nullable(),
})

export const ComparisonPairWithTasks = ComparisonPair.extend({
  outcomes: z.array(
    z.object({
      task: TaskRef,
      outcome: z.enum(['wonByA', 'wonByB', 'both', 'neither']),
      a: TaskScore,
      b: TaskScore,
    }),
  ),
}).meta({ id: 'ComparisonPairWithTasks', description: 'Two settings, with the outcome of every shared task.' })
export type ComparisonPairWithTasks = z.infer<typeof ComparisonPairWithTasks>

export const ComparisonDiff = z
  .object({
    base: z.uuid(),
    comparison: z.uuid(),
    tasks: z
      .object({ shared: count, onlyInBase: count, onlyInComparison: count })
      .describe('Tasks are matched by digest.'),
    settings: z.array(
      z.object({
        base: settingId,
        setting: settingId.describe('Differs from `base` if it is the only setting left without a counterpart.'),
        baseHarnessVersion: z.string(),
        harnessVersion: z.string(),
        ...pairFields,
        fixed: count.describe('Tasks that failed in the base and passed now, by the first scored trials.'),
        broken: count,
        changed: z.array(
          z.object({ task: TaskRef, change: z.enum(['fixed', 'broken']), before: TaskScore, after: TaskScore }),
        ),
      }),
    ),
    unmatched: z
      .object({ base: z.array(settingId), comparison: z.array(settingId) })
      .describe('Settings that the other comparison does not have.'),
  })
  .meta({ id: 'ComparisonDiff', description: 'Differences are the comparison minus its base.' })
export type ComparisonDiff = z.infer<typeof ComparisonDiff>

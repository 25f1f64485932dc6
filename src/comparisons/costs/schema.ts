import { z } from 'zod'
import { endpoint } from '../../platform/http/endpoint.ts'
import { queryInteger } from '../../platform/http/page.ts'

const usd = z.number().min(0)
const count = z.number().int().min(0)

const CostRange = z.object({ low: usd, expected: usd, high: usd })

const LIMITED_BY_BUDGETS =
  'Limit that `budgetUsd` and `trialBudgetUsd` set, not counting retries after infrastructure failures. Null without them.'

const QuotedSetting = z
  .object({
    settingId: z.string(),
    trials: count,
    costUsd: CostRange,
    maximumCostUsd: usd.nullable().describe(LIMITED_BY_BUDGETS),
    source: z
      .enum(['measured', 'estimated', 'free'])
      .describe(
        'Basis of costUsd. `measured`: earlier trials of this setting in the workspace. `estimated`: current prices and assumed tokens by task difficulty and reasoning level. `free`: uses no model.',
      ),
    measuredTrials: count.describe('Number of earlier trials behind a measured cost.'),
    secondsPerTrial: z.number().min(0),
    durationSource: z.enum(['measured', 'estimated']).describe('Basis of secondsPerTrial.'),
  })
  .meta({ id: 'QuotedSetting', description: 'The part of a quote that one setting contributes.' })
export type QuotedSetting = z.infer<typeof QuotedSetting>

export const Quote = z
  .object({
    tasks: count,
    settings: count,
    trials: count,
    costUsd: CostRange.describe(
      'Cost of all trials, ignoring `budgetUsd` and trials that `skipCompleted` reuses. `perSetting` names the source of each part.',
    ),
    maximumCostUsd: usd.nullable().describe(LIMITED_BY_BUDGETS),
    perSetting: z.array(QuotedSetting),
    durationSeconds: count.describe('Expected duration with `concurrency` trials at the same time.'),
    concurrency: count.describe('As requested; otherwise 8 for each worker that offers the sandbox.'),
    smallestDifference: z
      .number()
      .describe(
        'Smallest difference between two settings, in percentage points, that this many trials detect with 80 % power.',
      ),
    advice: z.string().describe('What this many tasks and attempts can show, and how to see smaller differences.'),
  })
  .meta({ id: 'ComparisonQuote', description: 'Expected cost, duration and visible difference of a comparison.' })
export type Quote = z.infer<typeof Quote>

const DAYS_MAX = 366

export const WorkspaceSpend = z
  .object({
    from: z.iso.date().describe('First day, in UTC.'),
    costUsd: usd.describe('Settled cost of all calls to models since then, including the creation of tasks.'),
    days: z
      .array(z.object({ day: z.iso.date(), provider: z.string(), costUsd: usd }))
      .describe(
        'Cost by the day on which a trial or a stage opened its access to a model. Days without cost are omitted.',
      ),
    settings: z
      .array(
        z.object({
          id: z.string(),
          label: z.string().describe('Label of the model.'),
          harness: z.string(),
          reasoningLevel: z.string(),
          trials: z.number().int().min(0),
          costUsd: usd,
        }),
      )
      .describe('Cost of finished trials by setting, highest first, at most 100. Reused trials cost nothing again.'),
  })
  .meta({ id: 'WorkspaceSpend', description: 'Spend of the workspace by day, provider and setting.' })
export type WorkspaceSpend = z.infer<typeof WorkspaceSpend>

export const readSpend = endpoint({
  id: 'readSpend',
  method: 'GET',
  path: '/api/orgs/{org}/spend',
  summary: 'Read the spend of the last days by day, provider and setting',
  access: 'read',
  query: z.object({ days: queryInteger().min(1).max(DAYS_MAX).default(30).describe('Number of days, up to today.') }),
  answers: { 200: WorkspaceSpend },
})

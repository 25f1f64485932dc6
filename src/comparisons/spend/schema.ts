import { z } from 'zod'
import { endpoint } from '../../platform/http/endpoint.ts'
import { queryInteger } from '../../platform/http/page.ts'

const usd = z.number().min(0)
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

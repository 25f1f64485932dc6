import { z } from 'zod'
import { TrialClass } from '../../shapes/schema.ts'

const count = z.number().int().min(0)

export const FailureGroup = z
  .object({
    state: z.enum(['failed', 'errored']),
    class: TrialClass,
    signature: z
      .string()
      .nullable()
      .describe('The common message, with numbers, ids and paths left out. Null if the trials have no message.'),
    trials: count,
    settings: z.array(z.string()).describe('Ids of the settings that the group occurs in.'),
    tasks: count,
    exampleTrialId: z.uuid(),
  })
  .meta({ id: 'FailureGroup', description: 'Trials that ended for the same reason. The largest group comes first.' })
export type FailureGroup = z.infer<typeof FailureGroup>

import { z } from 'zod'

const ToolCall = z.looseObject({
  tool_call_id: z.string().catch(''),
  function_name: z.string().catch(''),
  arguments: z.record(z.string(), z.unknown()).catch({}),
})

const ObservationResult = z.looseObject({
  source_call_id: z.string().nullish().catch(null),
  content: z.unknown().optional(),
})

const AtifStep = z.looseObject({
  source: z.enum(['system', 'user', 'agent']).catch('agent'),
  message: z.unknown().optional(),
  reasoning_content: z.string().nullish().catch(null),
  tool_calls: z.array(ToolCall).nullish().catch(null),
  observation: z
    .looseObject({ results: z.array(ObservationResult).catch([]) })
    .nullish()
    .catch(null),
})
export type AtifStep = z.infer<typeof AtifStep>

/** The parts of an ATIF trajectory that exports use. Fields of newer versions are ignored. */
const AtifTrajectory = z.looseObject({ steps: z.array(AtifStep) })

/** Returns the steps of a trajectory, or none if the text is no trajectory. */
export function parseAtifSteps(text: string | undefined): AtifStep[] {
  if (text === undefined) return []
  try {
    return AtifTrajectory.parse(JSON.parse(text)).steps
  } catch {
    // Agents write these files, so they can contain anything.
    return []
  }
}

/** Returns the text of a message, which is a string or a list of parts. */
export function toText(message: unknown): string {
  if (typeof message === 'string') return message
  if (!Array.isArray(message)) return ''
  return message.map((part) => (typeof part?.text === 'string' ? part.text : '')).join('')
}

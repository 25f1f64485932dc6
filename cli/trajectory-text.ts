import { z } from 'zod'

const lenientText = z.string().catch('')

/** The parts of an ATIF trajectory that are printed. The file is untrusted: anything else is ignored. */
const PrintedTrajectory = z.object({
  agent: z
    .object({ name: lenientText, version: lenientText, model_name: lenientText.optional() })
    .catch({ name: '', version: '' }),
  steps: z
    .array(
      z.object({
        source: lenientText,
        message: lenientText,
        reasoning_content: lenientText.optional(),
        tool_calls: z.array(z.object({ function_name: lenientText, arguments: z.unknown() })).catch([]),
        observation: z
          .object({ results: z.array(z.object({ content: lenientText })).catch([]) })
          .catch({ results: [] }),
      }),
    )
    .catch([]),
})

const TEXT_LENGTH_MAX = 2000

/** Formats a trajectory for reading, one block per step. Long texts are cut; `--json` prints all of it. */
export function formatTrajectory(trajectory: unknown): string[] {
  const { agent, steps } = PrintedTrajectory.parse(trajectory)
  const heading = [agent.name, agent.version, agent.model_name].filter(Boolean).join(' ')
  return [
    heading,
    ...steps.flatMap((step, index) => [
      '',
      `[${index + 1}] ${step.source}`,
      ...indent('thinking: ', step.reasoning_content ?? ''),
      ...indent('', step.message),
      ...step.tool_calls.flatMap((call) => indent(`${call.function_name}: `, JSON.stringify(call.arguments ?? {}))),
      ...step.observation.results.flatMap(({ content }) => indent('> ', content)),
    ]),
  ]
}

/** Formats a text as indented lines after a label. An empty text gives no lines. */
function indent(label: string, text: string): string[] {
  if (text === '') return []
  const shownText = text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)} …` : text
  return `${label}${shownText}`
    .trimEnd()
    .split('\n')
    .map((line) => `  ${line}`)
}

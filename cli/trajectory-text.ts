import { z } from 'zod'

const text = z.string().catch('')

/** The parts of an ATIF trajectory that are printed. The file is untrusted: anything else is ignored. */
const PrintedTrajectory = z.object({
  agent: z.object({ name: text, version: text, model_name: text.optional() }).catch({ name: '', version: '' }),
  steps: z
    .array(
      z.object({
        source: text,
        message: text,
        reasoning_content: text.optional(),
        tool_calls: z.array(z.object({ function_name: text, arguments: z.unknown() })).catch([]),
        observation: z.object({ results: z.array(z.object({ content: text })).catch([]) }).catch({ results: [] }),
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

function indent(label: string, content: string): string[] {
  if (content === '') return []
  const cut = content.length > TEXT_LENGTH_MAX ? `${content.slice(0, TEXT_LENGTH_MAX)} …` : content
  return `${label}${cut}`
    .trimEnd()
    .split('\n')
    .map((line) => `  ${line}`)
}

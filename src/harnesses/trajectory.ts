import { isObject, type JsonObject, parseJson } from './json.ts'

/** An action of an agent, as reported by its program. */
export type TrajectoryEvent =
  | { kind: 'message' | 'thought'; text: string }
  | { kind: 'call'; id: string; name: string; arguments: JsonObject }
  | { kind: 'result'; id: string; text: string }
  /** The model starts a new turn, which becomes a new step. */
  | { kind: 'turn' }

type TrajectoryStep = {
  step_id: number
  source: 'user' | 'agent'
  message: string
  reasoning_content?: string | undefined
  tool_calls?: { tool_call_id: string; function_name: string; arguments: JsonObject }[]
  observation?: { results: { source_call_id: string; content: string }[] }
}

/** Trajectory in Harbor's format ATIF. */
type Trajectory = {
  schema_version: 'ATIF-v1.7'
  agent: { name: string; version: string; model_name?: string | undefined }
  steps: TrajectoryStep[]
  notes?: string | undefined
}

type OutputParser = {
  id: string
  version: string
  trajectoryEvents?: ((line: JsonObject) => TrajectoryEvent[]) | undefined
}
type AgentOutput = { instruction: string; output: string; model: string | undefined }

const STEPS_MAX = 10_000
const TEXT_LENGTH_MAX = 100_000
const LINE_LENGTH_MAX = 4_000_000

/** Builds a trajectory from a program's output. Returns undefined if it contains no events. Never throws. */
export function buildTrajectory(
  parser: OutputParser,
  { instruction, output, model }: AgentOutput,
): Trajectory | undefined {
  const { trajectoryEvents, id, version } = parser
  if (!trajectoryEvents) return undefined
  const steps: TrajectoryStep[] = [{ step_id: 1, source: 'user', message: capText(instruction) }]
  const draft = { steps, callers: new Map<string, TrajectoryStep>() }
  for (const line of readJsonLines(output)) {
    for (const event of parseEvents(trajectoryEvents, line)) addEvent(draft, event)
    if (steps.length >= STEPS_MAX) break
  }
  if (steps.length === 1) return undefined
  return {
    schema_version: 'ATIF-v1.7',
    agent: { name: id, version, model_name: model },
    steps: steps.filter(hasContent).map((step, index) => ({ ...capStep(step), step_id: index + 1 })),
    notes: steps.length >= STEPS_MAX ? `Only the first ${STEPS_MAX} steps.` : undefined,
  }
}

/** Yields the lines that start with `{`, without splitting the entire output at once. */
function* readJsonLines(output: string): Generator<string> {
  for (let from = 0; from < output.length; ) {
    const end = output.indexOf('\n', from)
    const to = end < 0 ? output.length : end
    if (output[from] === '{' && to - from <= LINE_LENGTH_MAX) yield output.slice(from, to)
    from = to + 1
  }
}

function parseEvents(trajectoryEvents: (line: JsonObject) => TrajectoryEvent[], line: string): TrajectoryEvent[] {
  const value = parseJson(line)
  if (!isObject(value)) return []
  try {
    return trajectoryEvents(value)
  } catch {
    return [] // The parser does not expect such a line.
  }
}

const capText = (text: string): string =>
  (text.length <= TEXT_LENGTH_MAX ? text : `${text.slice(0, TEXT_LENGTH_MAX)}…`).toWellFormed()

const hasContent = ({ source, message, reasoning_content, tool_calls }: TrajectoryStep): boolean =>
  source === 'user' || message !== '' || Boolean(reasoning_content) || Boolean(tool_calls)

/** `callers` maps a call id to the step that made the call. */
type TrajectoryDraft = { steps: TrajectoryStep[]; callers: Map<string, TrajectoryStep> }

function addEvent({ steps, callers }: TrajectoryDraft, event: TrajectoryEvent): void {
  if (event.kind === 'result') {
    addResult(callers.get(event.id), event)
    return
  }
  const last = steps.at(-1)
  // A step ends with the results of its calls.
  const startsStep = event.kind === 'turn' || !last || last.source === 'user' || last.observation !== undefined
  const step: TrajectoryStep = startsStep ? { step_id: 0, source: 'agent', message: '' } : last
  if (startsStep) steps.push(step)
  if (event.kind === 'message') step.message = appendText(step.message, event.text)
  if (event.kind === 'thought') step.reasoning_content = appendText(step.reasoning_content ?? '', event.text)
  if (event.kind !== 'call') return
  step.tool_calls ??= []
  step.tool_calls.push({ tool_call_id: event.id, function_name: event.name, arguments: event.arguments })
  callers.set(event.id, step)
}

/** Appends without cutting: copying the text for each of thousands of small pieces would take quadratic time. */
const appendText = (text: string, more: string): string => (text.length > TEXT_LENGTH_MAX ? text : text + more)

const capStep = ({ message, reasoning_content, ...step }: TrajectoryStep): TrajectoryStep => ({
  ...step,
  message: capText(message),
  reasoning_content: reasoning_content === undefined ? undefined : capText(reasoning_content),
})

/** Adds a result to the step that made the call. Results without a call are dropped. */
function addResult(step: TrajectoryStep | undefined, { id, text }: { id: string; text: string }): void {
  if (!step) return
  step.observation ??= { results: [] }
  step.observation.results.push({ source_call_id: id, content: capText(text) })
}

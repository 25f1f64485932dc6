import { isObject, type JsonObject, parseJson } from './json.ts'

/** One thing that an agent did, as its program told it. */
export type Moment =
  | { kind: 'message' | 'thought'; text: string }
  | { kind: 'call'; id: string; name: string; arguments: JsonObject }
  | { kind: 'result'; id: string; text: string }
  /** The model begins to speak again: what comes is another step. */
  | { kind: 'turn' }

type Step = {
  step_id: number
  source: 'user' | 'agent'
  message: string
  reasoning_content?: string
  tool_calls?: { tool_call_id: string; function_name: string; arguments: JsonObject }[]
  observation?: { results: { source_call_id: string; content: string }[] }
}

/** Harbor's format for what an agent did. */
export type Trajectory = {
  schema_version: 'ATIF-v1.7'
  agent: { name: string; version: string; model_name?: string }
  steps: Step[]
  notes?: string
}

type Teller = { id: string; version: string; moments?: (line: JsonObject) => Moment[] }
type Told = { instruction: string; output: string; model: string | undefined }

const STEPS_MAX = 10_000
const TEXT_LENGTH_MAX = 100_000
const LINE_LENGTH_MAX = 4_000_000

/** What the lines of a program's output tell. Undefined when that is nothing. It never fails, whatever they are. */
export function trajectoryOf(teller: Teller, { instruction, output, model }: Told): Trajectory | undefined {
  const { moments, id, version } = teller
  if (!moments) return undefined
  const steps: Step[] = [{ step_id: 1, source: 'user', message: capped(instruction) }]
  const story = { steps, callers: new Map<string, Step>() }
  for (const line of linesOf(output)) {
    for (const moment of momentsOf(moments, line)) add(story, moment)
    if (steps.length >= STEPS_MAX) break
  }
  if (steps.length === 1) return undefined
  return {
    schema_version: 'ATIF-v1.7',
    agent: { name: id, version, ...(model === undefined ? {} : { model_name: model }) },
    steps: steps.filter(isTelling).map((step, index) => ({ ...cappedStep(step), step_id: index + 1 })),
    ...(steps.length >= STEPS_MAX ? { notes: `Only the first ${STEPS_MAX} steps.` } : {}),
  }
}

/** Without cutting the whole into pieces at once. */
function* linesOf(output: string): Generator<string> {
  for (let from = 0; from < output.length; ) {
    const end = output.indexOf('\n', from)
    const to = end < 0 ? output.length : end
    if (output[from] === '{' && to - from <= LINE_LENGTH_MAX) yield output.slice(from, to)
    from = to + 1
  }
}

function momentsOf(moments: (line: JsonObject) => Moment[], line: string): Moment[] {
  const value = parseJson(line)
  if (!isObject(value)) return []
  try {
    return moments(value)
  } catch {
    return [] // of a converter that does not expect such a line
  }
}

const capped = (text: string): string =>
  (text.length <= TEXT_LENGTH_MAX ? text : `${text.slice(0, TEXT_LENGTH_MAX)}…`).toWellFormed()

const isTelling = ({ source, message, reasoning_content, tool_calls }: Step): boolean =>
  source === 'user' || message !== '' || Boolean(reasoning_content) || Boolean(tool_calls)

/** With the step that made each call. */
type Story = { steps: Step[]; callers: Map<string, Step> }

function add({ steps, callers }: Story, moment: Moment): void {
  if (moment.kind === 'result') {
    addResult(callers.get(moment.id), moment)
    return
  }
  const last = steps.at(-1)
  const isNew = moment.kind === 'turn' || !last || last.source === 'user' || last.observation !== undefined
  const step: Step = isNew ? { step_id: 0, source: 'agent', message: '' } : last
  if (isNew) steps.push(step)
  if (moment.kind === 'message') step.message = extended(step.message, moment.text)
  if (moment.kind === 'thought') step.reasoning_content = extended(step.reasoning_content ?? '', moment.text)
  if (moment.kind !== 'call') return
  step.tool_calls ??= []
  step.tool_calls.push({ tool_call_id: moment.id, function_name: moment.name, arguments: moment.arguments })
  callers.set(moment.id, step)
}

/** Only appends: copying a text for each of thousands of small pieces would take quadratic time. */
const extended = (text: string, more: string): string => (text.length > TEXT_LENGTH_MAX ? text : text + more)

const cappedStep = ({ message, reasoning_content, ...step }: Step): Step => ({
  ...step,
  message: capped(message),
  ...(reasoning_content === undefined ? {} : { reasoning_content: capped(reasoning_content) }),
})

/** Belongs to the step that made the call. A result of no call is nobody's. */
function addResult(step: Step | undefined, { id, text }: { id: string; text: string }): void {
  if (!step) return
  step.observation ??= { results: [] }
  step.observation.results.push({ source_call_id: id, content: capped(text) })
}

import { StepSplitter } from './step-splitter.ts'

/** Filters of a trajectory: each selects some of its events. */
export const EVENT_FILTERS = ['messages', 'reasoning', 'tools', 'errors'] as const
export type EventFilter = (typeof EVENT_FILTERS)[number]

/** A message, a tool call or its result. The texts are untrusted. */
export type TraceEvent = {
  /** Number of the step, from 1. */
  step: number
  kind: 'message' | 'reasoning' | 'call' | 'result'
  /** Author of a message or name of a tool. */
  label: string
  text: string
  isError: boolean
  /** Usage of the step. All events of a step have the same value. */
  usage?: StepUsage | undefined
}

/** Tokens and cost of a step, as its agent reported them. */
export type StepUsage = { input: number; output: number; costUsd: number | undefined }

export type ParsedTrajectory = {
  agent: string
  events: TraceEvent[]
  /** Number of events that each filter selects. */
  counts: Record<EventFilter, number>
  /** Remarks of the agent about the trajectory, untrusted. */
  notes: string
}

/** Reads a trajectory in Harbor's format ATIF. The file is untrusted: anything unexpected is left out. */
export function parseTrajectory(json: string): ParsedTrajectory {
  const parsed = toObject(JSON.parse(json))
  return toParsedTrajectory(parsed, listEvents(toArray(parsed.steps), 0))
}

/** Returns the events of consecutive steps that follow `stepsBefore` others. */
const listEvents = (steps: readonly unknown[], stepsBefore: number): TraceEvent[] =>
  steps.flatMap((step, index) => toEvents(stepsBefore + index + 1, toObject(step)))

function toParsedTrajectory({ agent, notes }: JsonObject, events: TraceEvent[]): ParsedTrajectory {
  const { name, version, model_name: model } = toObject(agent)
  const program = [toText(name), toText(version)].filter(Boolean).join(' ')
  return {
    agent: [program, toText(model)].filter(Boolean).join(' · '),
    events,
    counts: countByFilter((filter) => events.filter((event) => isSelectedBy(filter, event)).length),
    notes: toText(notes),
  }
}

/** Number of events in the first part: more than a screen shows. */
const FIRST_PART_EVENTS = 100
/** Number of events in the other parts, small enough that receiving one does not delay a frame for long. */
const PART_EVENTS = 4000

/**
 * Reads a trajectory from a stream and emits it in parts: the first events as soon as they have arrived, the others in
 * larger parts. Waits for `emit` before the next part. Only the last part has the agent and the notes.
 */
export async function readTrajectory(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  emit: (part: ParsedTrajectory) => Promise<void>,
): Promise<void> {
  const splitter = new StepSplitter()
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let events: TraceEvent[] = []
  let stepCount = 0
  let partLength = FIRST_PART_EVENTS
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
    const steps = splitter.push(chunk.value)
    events = events.concat(listEvents(steps, stepCount))
    stepCount += steps.length
    while (events.length >= partLength) {
      await emit(toParsedTrajectory({}, events.splice(0, partLength)))
      partLength = PART_EVENTS
    }
  }
  await emit(toParsedTrajectory(toObject(splitter.end()), events))
}

/** Appends the next part of a trajectory. */
export function appendPart(previous: ParsedTrajectory | undefined, part: ParsedTrajectory): ParsedTrajectory {
  if (!previous) return part
  return {
    ...part,
    events: previous.events.concat(part.events),
    counts: countByFilter((filter) => previous.counts[filter] + part.counts[filter]),
  }
}

const countByFilter = (count: (filter: EventFilter) => number): Record<EventFilter, number> => ({
  messages: count('messages'),
  reasoning: count('reasoning'),
  tools: count('tools'),
  errors: count('errors'),
})

type JsonObject = Record<string, unknown>

function toEvents(step: number, record: JsonObject): TraceEvent[] {
  const events: TraceEvent[] = []
  const usage = findUsage(record.metrics)
  const add = (kind: TraceEvent['kind'], label: string, text: string) => {
    if (text !== '') events.push({ step, kind, label, text, isError: kind === 'result' && isErrorText(text), usage })
  }
  add('reasoning', 'reasoning', toText(record.reasoning_content))
  add('message', toText(record.source) || 'agent', toText(record.message))
  for (const call of toArray(record.tool_calls).map(toObject))
    add('call', toText(call.function_name) || 'tool', formatArguments(call.arguments))
  for (const result of toArray(toObject(record.observation).results).map(toObject))
    add('result', 'result', toText(result.content))
  return events
}

function findUsage(metrics: unknown): StepUsage | undefined {
  const { prompt_tokens: input, completion_tokens: output, cost_usd: cost } = toObject(metrics)
  if (typeof input !== 'number' || typeof output !== 'number') return undefined
  return { input, output, costUsd: typeof cost === 'number' ? cost : undefined }
}

/** Formats the arguments of a tool call: a single command as a shell prompt shows it, others as JSON. */
function formatArguments(value: unknown): string {
  const { command, ...others } = toObject(value)
  if (typeof command === 'string' && Object.keys(others).length === 0) return `$ ${command}`
  try {
    return JSON.stringify(value ?? {}, undefined, 1)
  } catch {
    return 'The arguments are nested too deeply to be shown.'
  }
}

/** Matches a line that begins like an error message, a non-zero exit code, or a command that was not found. */
const ERROR_TEXT =
  /^\s*(?:\S*(?:Error|Exception)\b|error\b|fatal:|panic:|Traceback \(|bash: )|exit(?:ed with)? (?:code|status):? [1-9]|command not found/im
/** Characters at the beginning and at the end of an output that are searched. */
const SEARCHED_LENGTH = 2000

/** Guesses whether the output of a tool reports an error. */
const isErrorText = (text: string): boolean =>
  ERROR_TEXT.test(text.slice(0, SEARCHED_LENGTH)) ||
  (text.length > SEARCHED_LENGTH && ERROR_TEXT.test(text.slice(-SEARCHED_LENGTH)))

const FILTERS_BY_KIND = { message: 'messages', reasoning: 'reasoning', call: 'tools', result: 'tools' } as const

const isSelectedBy = (filter: EventFilter, event: TraceEvent): boolean =>
  filter === 'errors' ? event.isError : FILTERS_BY_KIND[event.kind] === filter

/** Returns the events that a filter selects and that contain a text, in any case. */
export function filterEvents(
  events: readonly TraceEvent[],
  filter: EventFilter | undefined,
  search: string,
): readonly TraceEvent[] {
  if (filter === undefined && search === '') return events
  // Every special character is escaped, because the text is not a regular expression.
  const pattern = search === '' ? undefined : new RegExp(search.replaceAll(/[^\w\s]/g, '\\$&'), 'i')
  return events.filter(
    (event) =>
      (filter === undefined || isSelectedBy(filter, event)) &&
      (pattern === undefined || pattern.test(event.text) || pattern.test(event.label)),
  )
}

const toObject = (value: unknown): JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {}
const toArray = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
const toText = (value: unknown): string => (typeof value === 'string' ? value : '')

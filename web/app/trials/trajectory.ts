import { StepSplitter } from './step-splitter.ts'

/** Kinds of events by which a trajectory is filtered. */
export const EVENT_KINDS = ['messages', 'reasoning', 'tools', 'errors'] as const
export type EventKind = (typeof EVENT_KINDS)[number]

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
  /** Number of events of each kind. */
  counts: Record<EventKind, number>
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
    counts: countByKind((kind) => events.filter((event) => isOfKind(event, kind)).length),
    notes: toText(notes),
  }
}

/** Events of the first part: more than a screen shows. */
const FIRST_PART_EVENTS = 100
/** Events of the other parts. Receiving one must not delay a frame for long. */
const PART_EVENTS = 4000

/**
 * Reads a trajectory from a stream and emits it in parts: a few events as soon as they are there, the others as they
 * arrive. Waits for `emit` before the next part. The last part names the agent.
 */
export async function readTrajectory(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  emit: (part: ParsedTrajectory) => Promise<void>,
): Promise<void> {
  const splitter = new StepSplitter()
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let events: TraceEvent[] = []
  let [stepCount, partLength] = [0, FIRST_PART_EVENTS]
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
    counts: countByKind((kind) => previous.counts[kind] + part.counts[kind]),
  }
}

const countByKind = (count: (kind: EventKind) => number): Record<EventKind, number> => ({
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

/** Shows a command as it was run, and other arguments as JSON. */
function formatArguments(value: unknown): string {
  const { command, ...others } = toObject(value)
  if (typeof command === 'string' && Object.keys(others).length === 0) return `$ ${command}`
  try {
    return JSON.stringify(value ?? {}, undefined, 1)
  } catch {
    return 'The arguments are nested too deeply to be shown.'
  }
}

const ERROR_TEXT =
  /^\s*(?:\S*(?:Error|Exception)\b|error\b|fatal:|panic:|Traceback \(|bash: )|exit(?:ed with)? (?:code|status):? [1-9]|command not found/im
const ERROR_LENGTH_MAX = 2000

/** Guesses from its beginning and end whether a tool's output reports an error. */
const isErrorText = (text: string): boolean =>
  ERROR_TEXT.test(text.slice(0, ERROR_LENGTH_MAX)) ||
  (text.length > ERROR_LENGTH_MAX && ERROR_TEXT.test(text.slice(-ERROR_LENGTH_MAX)))

const FILTER_KINDS = { message: 'messages', reasoning: 'reasoning', call: 'tools', result: 'tools' } as const

const isOfKind = (event: TraceEvent, kind: EventKind): boolean =>
  kind === 'errors' ? event.isError : FILTER_KINDS[event.kind] === kind

/** Returns the events of a kind that contain a text, in any case. */
export function filterEvents(
  events: readonly TraceEvent[],
  kind: EventKind | undefined,
  search: string,
): readonly TraceEvent[] {
  if (kind === undefined && search === '') return events
  const pattern = search === '' ? undefined : new RegExp(search.replaceAll(/[^\w\s]/g, '\\$&'), 'i')
  return events.filter(
    (event) =>
      (kind === undefined || isOfKind(event, kind)) &&
      (pattern === undefined || pattern.test(event.text) || pattern.test(event.label)),
  )
}

const toObject = (value: unknown): JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {}
const toArray = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
const toText = (value: unknown): string => (typeof value === 'string' ? value : '')

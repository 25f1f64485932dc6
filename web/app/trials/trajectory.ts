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
}

/** Tokens and cost of a step, as its agent reported them. */
export type StepUsage = { input: number; output: number; costUsd: number | undefined }

export type ParsedTrajectory = { agent: string; events: TraceEvent[]; usage: Map<number, StepUsage>; notes: string }

/** Reads a trajectory in Harbor's format ATIF. The file is untrusted: anything unexpected is left out. */
export function parseTrajectory(json: string): ParsedTrajectory {
  const parsed = toObject(JSON.parse(json))
  const steps: ParsedSteps = { events: [], usage: new Map(), count: 0 }
  addSteps(steps, toArray(parsed.steps))
  return describe(parsed, steps)
}

type ParsedSteps = Pick<ParsedTrajectory, 'events' | 'usage'> & { count: number }

function addSteps(parsed: ParsedSteps, steps: readonly unknown[]): void {
  for (const step of steps) {
    parsed.count += 1
    addStep(parsed.events, parsed.count, toObject(step))
    const spent = findUsage(toObject(step).metrics)
    if (spent) parsed.usage.set(parsed.count, spent)
  }
}

function describe({ agent, notes }: JsonRecord, { events, usage }: ParsedSteps): ParsedTrajectory {
  const { name, version, model_name: model } = toObject(agent)
  return { agent: [name, version, model].map(toText).filter(Boolean).join(' '), events, usage, notes: toText(notes) }
}

const PART_LENGTH = 4 * 1024 * 1024

/**
 * Reads a trajectory from a stream and emits it in parts: the first events as soon as they are there, the others as they
 * arrive. The last part names the agent.
 */
export async function readTrajectory(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  emit: (part: ParsedTrajectory) => void,
): Promise<void> {
  const splitter = new StepSplitter()
  const parsed: ParsedSteps = { events: [], usage: new Map(), count: 0 }
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let length = PART_LENGTH
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
    addSteps(parsed, splitter.push(chunk.value))
    length += chunk.value.length
    if (length < PART_LENGTH || parsed.events.length === 0) continue
    length = 0
    emit(describe({}, parsed))
    parsed.events = []
    parsed.usage = new Map()
  }
  emit(describe(toObject(splitter.end()), parsed))
}

/** Appends the next part of a trajectory. */
export const appendPart = (before: ParsedTrajectory | undefined, part: ParsedTrajectory): ParsedTrajectory =>
  before
    ? { ...part, events: [...before.events, ...part.events], usage: new Map([...before.usage, ...part.usage]) }
    : part

type JsonRecord = Record<string, unknown>

function addStep(events: TraceEvent[], step: number, record: JsonRecord): void {
  const add = (kind: TraceEvent['kind'], label: string, text: string) => {
    if (text !== '') events.push({ step, kind, label, text, isError: kind === 'result' && isErrorText(text) })
  }
  add('reasoning', 'reasoning', toText(record.reasoning_content))
  add('message', toText(record.source) || 'agent', toText(record.message))
  for (const call of toArray(record.tool_calls).map(toObject))
    add('call', toText(call.function_name) || 'tool', formatArguments(call.arguments))
  for (const result of toArray(toObject(record.observation).results).map(toObject))
    add('result', 'result', toText(result.content))
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

const KIND_OF = { message: 'messages', reasoning: 'reasoning', call: 'tools', result: 'tools' } as const

export const isOfKind = (event: TraceEvent, kind: EventKind): boolean =>
  kind === 'errors' ? event.isError : KIND_OF[event.kind] === kind

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

const toObject = (value: unknown): JsonRecord =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonRecord) : {}
const toArray = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
const toText = (value: unknown): string => (typeof value === 'string' ? value : '')

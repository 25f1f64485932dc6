import { type ZodType, z } from 'zod'
import type { Message, ModelReply } from '../../harnesses/conversation.ts'
import { isObject, type Json, type JsonObject, parseJson } from '../../harnesses/json.ts'
import type { StageDeferral } from '../stage-result.ts'
import type { ModelQuestion, SpentBudget, StageModel } from './stage-model.ts'

type TypedQuestion<T> = {
  system: string
  /** System prompt of the retry after a refusal. Describes the same work in more neutral words. */
  neutral: string
  prompt: string
  shape: ModelQuestion['shape']
  schema: ZodType<T>
  /** Faults of a well-formed answer; each is sent to the model verbatim. */
  faults(value: T): string[]
  repairsMax: number
}

export type TypedAnswer<T> =
  | { kind: 'value'; value: T; rounds: number }
  /** The answer is not JSON of this schema, even after all repairs. */
  | { kind: 'invalid'; detail: string }
  /** The answer matches the schema but has faults, even after all repairs. */
  | { kind: 'faulty'; value: T; detail: string }
  | { kind: 'refused'; detail: string }
  | SpentBudget
  | StageDeferral

const ANSWER_LENGTH_MAX = 60_000
/** Longer answers are not sent back to the model. */
const REPEATED_ANSWER_LENGTH_MAX = 8_000
const FAULTS_MAX = 30
const DETAIL_LENGTH_MAX = 500

/** Asks a model for a value of a schema. Retries a refusal once with the neutral system prompt. */
export async function askTyped<T>(
  model: StageModel,
  question: TypedQuestion<T>,
  signal: AbortSignal,
): Promise<TypedAnswer<T>> {
  const answer = await askWithRepairs(model, question, signal)
  return answer.kind === 'refused' ? askWithRepairs(model, { ...question, system: question.neutral }, signal) : answer
}

/** Asks, and repeats the request with the list of faults up to `repairsMax` times. */
async function askWithRepairs<T>(
  model: StageModel,
  question: TypedQuestion<T>,
  signal: AbortSignal,
): Promise<TypedAnswer<T>> {
  const { system, shape, repairsMax } = question
  let messages: Message[] = [{ role: 'user', text: question.prompt }]
  for (let round = 1; ; round++) {
    const answer = await model.ask({ system, messages, shape }, signal)
    if (answer.kind !== 'answered') return answer
    const { reply } = answer
    if (reply.stop === 'refusal')
      return { kind: 'refused', detail: reply.text.slice(0, DETAIL_LENGTH_MAX).toWellFormed() }
    const { outcome, faults } = judgeAnswer(question, reply, round)
    if (faults.length === 0 || round > repairsMax) return outcome
    messages = continueConversation(messages, question.prompt, reply, buildRepair(faults))
  }
}

/** Returns the messages of the next request. A long answer is left out: the question is repeated with the faults. */
const continueConversation = (
  before: readonly Message[],
  prompt: string,
  { text, raw }: ModelReply,
  repair: string,
): Message[] =>
  text.length > REPEATED_ANSWER_LENGTH_MAX
    ? [{ role: 'user', text: `${prompt}\n\n${repair}` }]
    : [...before, { role: 'model', raw }, { role: 'user', text: repair }]

type AnswerJudgement<T> = { outcome: TypedAnswer<T>; faults: string[] }

function judgeAnswer<T>(
  { schema, faults: listFaults }: TypedQuestion<T>,
  reply: ModelReply,
  round: number,
): AnswerJudgement<T> {
  const invalid = (faults: string[]): AnswerJudgement<T> => ({
    outcome: { kind: 'invalid', detail: faults.join(' ').slice(0, DETAIL_LENGTH_MAX).toWellFormed() },
    faults,
  })
  if (reply.stop === 'length' || reply.text.length > ANSWER_LENGTH_MAX) return invalid(['The answer is too long.'])
  const value = findJsonValue(reply.text)
  if (value === undefined) return invalid(['The answer is not JSON.'])
  const { data, error } = schema.safeParse(value)
  if (error) return invalid(error.issues.map(({ path, message }) => `${path.join('.') || 'The answer'}: ${message}.`))
  const faults = listFaults(data).slice(0, FAULTS_MAX)
  if (faults.length === 0) return { outcome: { kind: 'value', value: data, rounds: round }, faults }
  return {
    outcome: { kind: 'faulty', value: data, detail: faults.join(' ').slice(0, DETAIL_LENGTH_MAX).toWellFormed() },
    faults,
  }
}

const buildRepair = (faults: readonly string[]): string =>
  `This answer cannot be used. Answer again, whole, in the same form. Change what is wrong and nothing else:\n${faults.map((fault) => `- ${fault}`).join('\n')}`

/** Finds the JSON value in an answer, also inside other text or a code fence. Returns undefined if there is none. */
export function findJsonValue(text: string): Json | undefined {
  for (const candidate of [text, readFence(text), readBraces(text)]) {
    const value = parseJson(candidate)
    if (value !== undefined) return value
  }
  return undefined
}

const FENCE = '```'

function readFence(text: string): string {
  const from = text.indexOf('\n', text.indexOf(FENCE))
  const to = text.indexOf(FENCE, from)
  return from >= 0 && to > from ? text.slice(from, to) : ''
}

function readBraces(text: string): string {
  const from = text.search(/[[{]/)
  const to = Math.max(text.lastIndexOf('}'), text.lastIndexOf(']'))
  return from >= 0 && to > from ? text.slice(from, to + 1) : ''
}

/** Keywords of JSON Schema that every provider accepts. Others are removed; the answer is validated in full by us. */
const ACCEPTED_KEYWORDS = [
  'type',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'enum',
  'anyOf',
  'description',
]

/** Converts a schema to the subset of JSON Schema that every provider accepts. */
export function toAnswerShape(name: string, schema: ZodType): { name: string; schema: JsonObject } {
  const full: JsonObject = JSON.parse(JSON.stringify(z.toJSONSchema(schema)))
  return { name, schema: trimSchema(full) }
}

function trimSchema(schema: JsonObject): JsonObject {
  const accepted = Object.entries(schema).filter(([key]) => ACCEPTED_KEYWORDS.includes(key))
  return Object.fromEntries(
    accepted.map(([key, value]) => [key, key === 'properties' ? trimProperties(value) : trimValue(value)]),
  )
}

const trimProperties = (value: Json): Json =>
  isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, property]) => [name, trimValue(property)]))
    : value

function trimValue(value: Json): Json {
  if (Array.isArray(value)) return value.map(trimValue)
  return isObject(value) ? trimSchema(value) : value
}

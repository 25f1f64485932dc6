import type { ZodType } from 'zod'
import { valueIn } from '../../gateway/client/value-in.ts'
import type { Message, Reply } from '../../harnesses/conversation.ts'
import type { StageDeferral } from '../stage-result.ts'
import type { Spent } from './failures.ts'
import type { Model, Question } from './stage-model.ts'

export type Typed<T> = {
  system: string
  /** Said instead where a model declines: a plainer word for the same work. */
  neutral: string
  prompt: string
  shape: Question['shape']
  schema: ZodType<T>
  /** What else is wrong with an answer of the right form. Each is told to the model as it is. */
  faults(value: T): string[]
  repairsMax: number
}

export type TypedAnswer<T> =
  | { kind: 'value'; value: T; rounds: number }
  /** No JSON of this form, after all repairs. */
  | { kind: 'invalid'; detail: string }
  /** Of the right form, and not right. */
  | { kind: 'faulty'; value: T; detail: string }
  | { kind: 'refused'; detail: string }
  | Spent
  | StageDeferral

const ANSWER_LENGTH_MAX = 60_000
const SENT_BACK_MAX = 8_000
const FAULTS_MAX = 30
const DETAIL_MAX = 500

/** One refusal is answered with other words, from the beginning. */
export async function askTyped<T>(model: Model, typed: Typed<T>, signal: AbortSignal): Promise<TypedAnswer<T>> {
  const answer = await converse(model, typed, signal)
  return answer.kind === 'refused' ? converse(model, { ...typed, system: typed.neutral }, signal) : answer
}

/** Asks, and asks again with exactly what was wrong, as often as it may. */
async function converse<T>(model: Model, typed: Typed<T>, signal: AbortSignal): Promise<TypedAnswer<T>> {
  const { system, shape, repairsMax } = typed
  let messages: Message[] = [{ role: 'user', text: typed.prompt }]
  for (let round = 1; ; round++) {
    const answered = await model.ask({ system, messages, shape }, signal)
    if (answered.kind !== 'answered') return answered
    const { reply } = answered
    if (reply.stop === 'refusal') return { kind: 'refused', detail: reply.text.slice(0, DETAIL_MAX).toWellFormed() }
    const { outcome, faults } = judged(typed, reply, round)
    if (faults.length === 0 || round > repairsMax) return outcome
    messages = continued(messages, typed.prompt, reply, repairOf(faults))
  }
}

/** A long answer is not worth its price a second time: the question is put anew, with what was wrong. */
const continued = (before: readonly Message[], prompt: string, { text, said }: Reply, repair: string): Message[] =>
  text.length > SENT_BACK_MAX
    ? [{ role: 'user', text: `${prompt}\n\n${repair}` }]
    : [...before, { role: 'model', said }, { role: 'user', text: repair }]

type Judged<T> = { outcome: TypedAnswer<T>; faults: string[] }

function judged<T>({ schema, faults: faultsOf }: Typed<T>, reply: Reply, round: number): Judged<T> {
  const invalid = (faults: string[]): Judged<T> => ({
    outcome: { kind: 'invalid', detail: faults.join(' ').slice(0, DETAIL_MAX).toWellFormed() },
    faults,
  })
  if (reply.stop === 'length' || reply.text.length > ANSWER_LENGTH_MAX) return invalid(['The answer is too long.'])
  const value = valueIn(reply.text)
  if (value === undefined) return invalid(['The answer is not JSON.'])
  const { data, error } = schema.safeParse(value)
  if (error) return invalid(error.issues.map(({ path, message }) => `${path.join('.') || 'The whole'}: ${message}.`))
  const faults = faultsOf(data).slice(0, FAULTS_MAX)
  if (faults.length === 0) return { outcome: { kind: 'value', value: data, rounds: round }, faults }
  return {
    outcome: { kind: 'faulty', value: data, detail: faults.join(' ').slice(0, DETAIL_MAX).toWellFormed() },
    faults,
  }
}

const repairOf = (faults: readonly string[]): string =>
  `This answer cannot be used. Answer again, whole, in the same form. Change what is wrong and nothing else:\n${faults.map((fault) => `- ${fault}`).join('\n')}`

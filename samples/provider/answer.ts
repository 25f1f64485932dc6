import type { Conversation, MockAnswer, Speech } from './conversation.ts'
import { type CallFault, type MockTurn, type ProviderScript, turnOf, usageOf } from './script.ts'
import { BYTES_PER_TOKEN } from './tokens.ts'
import { filledLine, namedCall, shellCall } from './tools.ts'

export type MockError = { status: number; message: string; headers?: Record<string, string> | undefined }

/** Returns the error response, or undefined if the call is answered. */
export function refusalOf(
  { keys, models }: ProviderScript,
  fault: CallFault,
  { model }: Conversation,
  key: string | null,
): MockError | undefined {
  if (keys && !keys.includes(key ?? '')) return { status: 401, message: 'Invalid API key.' }
  if (models && !models.includes(model)) return { status: 404, message: `Unknown model ${model}.` }
  if (fault.status === undefined) return undefined
  return {
    status: fault.status,
    message: fault.message ?? `Scripted fault with status ${fault.status}.`,
    headers: fault.retryAfter === undefined ? undefined : { 'retry-after': fault.retryAfter },
  }
}

type AnswerContext = { speech: Speech; id: string; size: number }

export function answerOf(
  script: ProviderScript,
  fault: CallFault,
  asked: Conversation,
  { speech, id, size }: AnswerContext,
): MockAnswer {
  const turn = turnOf(script, asked)
  const isRefusal = turn.refuse === true || fault.refuse === true
  const call = isRefusal ? null : callOf(turn, asked)
  const text = textOf(turn, isRefusal, call === null)
  const said = text.length + (turn.run ?? '').length
  const whole = {
    id,
    text,
    call,
    isRefusal,
    isTruncated: false,
    model: script.served[asked.model] ?? asked.model,
    usage: speech.sayable(usageOf(turn, asked, { asked: size, said })),
    wantsUsage: asked.wantsUsage,
  }
  return asked.outputMax !== null && whole.usage.output > asked.outputMax ? truncated(whole, asked.outputMax) : whole
}

/** Cuts an answer at its output limit. Reasoning counts first; an incomplete tool call is dropped. */
function truncated(answer: MockAnswer, outputMax: number): MockAnswer {
  const reasoning = Math.min(answer.usage.reasoning, outputMax)
  const text = answer.text.slice(0, BYTES_PER_TOKEN * (outputMax - reasoning))
  return { ...answer, text, call: null, isTruncated: true, usage: { ...answer.usage, output: outputMax, reasoning } }
}

function callOf({ run, use }: MockTurn, { tools, lastResult }: Conversation) {
  if (use) return namedCall(tools, use.tool, use.input)
  return run === undefined ? null : shellCall(tools, filledLine(run, lastResult))
}

function textOf({ say, run, use }: MockTurn, isRefusal: boolean, isLast: boolean): string {
  if (isRefusal) return say ?? 'I will not do that.'
  if (use && isLast) return `I have no tool ${use.tool}.`
  if (run !== undefined && isLast) return 'I have no tool that runs a line of shell.'
  return say ?? (isLast ? 'Done.' : '')
}

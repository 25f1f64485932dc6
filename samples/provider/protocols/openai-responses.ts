import { listOf, objectOf, textOf, tokensOf } from '../../../src/gateway/protocols/fields.ts'
import type { JsonObject } from '../../../src/harnesses/json.ts'
import {
  answerPieces,
  type Conversation,
  event,
  inputText,
  type MockAnswer,
  type MockUsage,
  piecesOf,
  type Speech,
  type Tool,
  textIn,
} from '../conversation.ts'
import { openaiProblem } from './openai-problem.ts'

export const openaiResponses: Speech = {
  protocol: 'openai-responses',
  read,
  // OpenAI has a single class of cache writes.
  sayable: (usage) => ({ ...usage, cacheWrite5m: usage.cacheWrite5m + usage.cacheWrite1h, cacheWrite1h: 0 }),
  whole: (answer) => responseOf(answer, endOf(answer)),
  events: eventsOf,
  pieces: answerPieces,
  problem: openaiProblem,
}

function read(_path: string, body: JsonObject): Conversation {
  const items =
    typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : listOf(body.input).map(objectOf)
  const brought = items
    .filter(({ type }) => BRINGING.includes(textOf(type) ?? ''))
    .flatMap(({ tools }) => listOf(tools))
  return {
    model: textOf(body.model) ?? '',
    isStream: body.stream === true,
    level: textOf(objectOf(body.reasoning).effort),
    tools: [...listOf(body.tools), ...brought].map(objectOf).flatMap((tool) => toolsIn(tool)),
    prompt: items
      .filter(({ role }) => role === 'user')
      .map(({ content }) => textIn(content))
      .join('\n'),
    results: items.filter(isResult).length,
    lastResult: textIn(items.findLast(isResult)?.output),
    wantsUsage: true,
    outputMax: tokensOf(body.max_output_tokens) ?? null,
  }
}

/** Lists tools that are added during the conversation, directly or by a tool search. */
const BRINGING = ['additional_tools', 'tool_search_output']

const isResult = ({ type }: JsonObject): boolean => typeof type === 'string' && type.endsWith('_call_output')

/** Returns the tools of a namespace, which is not a tool itself. */
function toolsIn(tool: JsonObject): Tool[] {
  if (tool.type === 'namespace') {
    const inner = listOf(tool.tools).map(objectOf)
    return inner.map((each) => ({ ...toolOf(each), namespace: textOf(tool.name) }))
  }
  return [toolOf(tool)]
}

const toolOf = ({ type, name, parameters }: JsonObject): Tool => ({
  name: textOf(name) ?? textOf(type) ?? '',
  kind: textOf(type) ?? 'function',
  schema: objectOf(parameters),
  namespace: null,
})

type ResponseStatus = 'in_progress' | 'completed' | 'incomplete'

const endOf = ({ isTruncated }: MockAnswer): ResponseStatus => (isTruncated ? 'incomplete' : 'completed')

const responseOf = (answer: MockAnswer, status: ResponseStatus): JsonObject => ({
  id: `resp_${answer.id}`,
  object: 'response',
  created_at: 1_700_000_000,
  model: answer.model,
  status,
  error: null,
  incomplete_details: detailsOf(status),
  parallel_tool_calls: true,
  tool_choice: 'auto',
  tools: [],
  output: status === 'in_progress' ? [] : partsOf(answer).map(({ item }) => item),
  usage: status === 'in_progress' ? null : usageOf(answer.usage),
  service_tier: 'default',
})

const detailsOf = (status: ResponseStatus) => (status === 'incomplete' ? { reason: 'max_output_tokens' } : null)

const usageOf = (usage: MockUsage): JsonObject => {
  const input = usage.input + usage.cacheRead + usage.cacheWrite5m
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage.cacheRead, cache_write_tokens: usage.cacheWrite5m },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: usage.reasoning },
    total_tokens: input + usage.output,
  }
}

/** An output item, and the events between its start and its end. */
type OutputPart = { item: JsonObject; empty: JsonObject; between: JsonObject[] }

const partsOf = (answer: MockAnswer): OutputPart[] => [
  ...(answer.text === '' ? [] : [messagePart(answer)]),
  ...(answer.call ? [callPart(answer, answer.call.tool, inputText(answer.call))] : []),
]

function messagePart({ id, text, isRefusal }: MockAnswer): OutputPart {
  const [type, field] = isRefusal ? ['refusal', 'refusal'] : ['output_text', 'text']
  const content = (value: string): JsonObject => ({ type, [field]: value, ...(isRefusal ? {} : { annotations: [] }) })
  const item = { id: `msg_${id}`, type: 'message', role: 'assistant', status: 'completed', content: [content(text)] }
  return {
    item,
    empty: { ...item, status: 'in_progress', content: [] },
    between: [
      { type: 'response.content_part.added', content_index: 0, part: content('') },
      ...piecesOf(text).map((delta) => ({ type: `response.${type}.delta`, content_index: 0, delta })),
      { type: `response.${type}.done`, content_index: 0, [field]: text },
      { type: 'response.content_part.done', content_index: 0, part: content(text) },
    ],
  }
}

function callPart({ id, call }: MockAnswer, tool: Tool, input: string): OutputPart {
  const base = {
    call_id: `call_${id}`,
    name: tool.name,
    status: 'completed',
    ...(tool.namespace === null ? {} : { namespace: tool.namespace }),
  }
  if (tool.kind === 'local_shell') {
    const action = { type: 'exec', command: objectOf(call?.input).command ?? [], env: {} }
    const item = { id: `lsh_${id}`, type: 'local_shell_call', call_id: base.call_id, status: 'completed', action }
    return { item, empty: { ...item, status: 'in_progress' }, between: [] }
  }
  if (tool.kind === 'tool_search') {
    const asked = { call_id: base.call_id, execution: 'client', arguments: call?.input ?? {}, status: 'completed' }
    const item = { id: `tsc_${id}`, type: 'tool_search_call', ...asked }
    return { item, empty: { ...item, status: 'in_progress' }, between: [] }
  }
  const [type, field, prefix, events] =
    tool.kind === 'custom'
      ? ['custom_tool_call', 'input', 'ctc', 'response.custom_tool_call_input']
      : ['function_call', 'arguments', 'fc', 'response.function_call_arguments']
  const item = { id: `${prefix}_${id}`, type, ...base, [field]: input }
  return {
    item,
    empty: { ...item, status: 'in_progress', [field]: '' },
    between: [
      ...piecesOf(input).map((delta) => ({ type: `${events}.delta`, delta })),
      { type: `${events}.done`, [field]: input },
    ],
  }
}

function eventsOf(answer: MockAnswer): string[] {
  const items = partsOf(answer).flatMap(({ item, empty, between }, index) => [
    { type: 'response.output_item.added', output_index: index, item: empty },
    ...between.map((data) => ({ ...data, item_id: item.id ?? '', output_index: index })),
    { type: 'response.output_item.done', output_index: index, item },
  ])
  const all: JsonObject[] = [
    { type: 'response.created', response: responseOf(answer, 'in_progress') },
    { type: 'response.in_progress', response: responseOf(answer, 'in_progress') },
    ...items,
    { type: `response.${endOf(answer)}`, response: responseOf(answer, endOf(answer)) },
  ]
  return all.map((data, place) => event(String(data.type), { ...data, sequence_number: place }))
}

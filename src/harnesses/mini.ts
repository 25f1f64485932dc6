import {
  type AskModel,
  type Message,
  ModelCallFailed,
  type ModelReply,
  type ToolCall,
  type ToolDefinition,
} from './conversation.ts'
import { type Harness, type HarnessConversation, HarnessUnfit, requireModelAccess } from './harness.ts'
import { type JsonObject, objectAt, textAt } from './json.ts'
import { findProtocol, type LevelMapping } from './model-access.ts'
import type { TrajectoryEvent } from './trajectory.ts'

/** A minimal agent loop with a shell tool. Installs nothing; the sandbox has no access to the model. */
export const mini: Harness = {
  id: 'mini',
  name: 'mini',
  version: '1',
  protocols: ['anthropic-messages', 'openai-responses', 'gemini', 'openai-chat'],
  auxiliaryModels: [],
  protocolFor: (model, _level, wire) => findProtocol(SUPPORTED_LEVELS, mini.protocols, model, wire),
  plan(_step, { mcpServers }, access) {
    requireModelAccess(mini, access)
    if (mcpServers.length > 0) throw new HarnessUnfit('mini does not support MCP, which this task requires.')
    return { command: ['true'], env: [], folders: [], input: '' }
  },
  converse,
  trajectoryEvents,
}

const ALL_LEVELS = { efforts: 'any', budgets: true, off: true, unset: true } as const
const SUPPORTED_LEVELS: LevelMapping = {
  'anthropic-messages': ALL_LEVELS,
  'openai-responses': { ...ALL_LEVELS, budgets: false, off: false },
  gemini: ALL_LEVELS,
  'openai-chat': { ...ALL_LEVELS, budgets: false },
}

const TURNS_MAX = 200

const SYSTEM = `You work on a task in a Linux sandbox, by yourself: nobody answers questions.
The tool "shell" runs a line with sh in the working folder. Each call is a new shell: folders and variables that you set are forgotten, files stay. Nothing can be typed into a running command. A command that takes too long is given up; put what must go on into the background. Long output is cut in its middle.
Look around first, do what the task asks, and check your work. When it is done, answer with a short summary and no tool call.`

const SHELL: ToolDefinition = {
  name: 'shell',
  description: 'Runs a line of shell in the sandbox, and gives back its output and its exit code.',
  schema: {
    type: 'object',
    properties: { command: { type: 'string', description: 'The line, as for sh -c.' } },
    required: ['command'],
    additionalProperties: false,
  },
}

/** Runs until the model stops calling tools or a limit is reached. Returns 0 if the model finished, otherwise 1. */
async function converse({ instruction, exec, ask, emit, signal }: HarnessConversation): Promise<number> {
  const messages: Message[] = [{ role: 'user', text: instruction }]
  for (let turn = 1; turn <= TURNS_MAX; turn++) {
    const reply = await requestReply(ask, messages, signal)
    if (typeof reply === 'string') return endWithError(emit, reply)
    messages.push({ role: 'model', raw: reply.raw })
    emit({ type: 'turn', turn, text: reply.text, thought: reply.thought, stop: reply.stop })
    const next = await buildNextMessage(reply, exec, emit)
    if (!next) return 0
    messages.push(next)
  }
  return endWithError(emit, `The task was not finished after ${TURNS_MAX} turns.`)
}

function endWithError(emit: HarnessConversation['emit'], error: string): number {
  emit({ type: 'end', error })
  return 1
}

/** Returns the reply, or the error message if the budget is spent or the provider does not answer. */
async function requestReply(ask: AskModel, messages: Message[], signal: AbortSignal): Promise<ModelReply | string> {
  try {
    return await ask({ system: SYSTEM, messages, tools: [SHELL], signal })
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ModelCallFailed) return error.message
    throw error
  }
}

/** Runs the requested tool calls and returns the next message, or undefined if the model is done. */
async function buildNextMessage(
  { calls, stop }: ModelReply,
  exec: HarnessConversation['exec'],
  emit: HarnessConversation['emit'],
): Promise<Message | undefined> {
  if (calls.length === 0)
    return stop === 'length' ? { role: 'user', text: 'Your answer was cut off. Go on.' } : undefined
  const results = []
  for (const call of calls) {
    emit({ type: 'call', id: call.id, name: call.name, arguments: call.arguments })
    const text = await runToolCall(call, exec)
    emit({ type: 'result', id: call.id, text })
    results.push({ id: call.id, name: call.name, text })
  }
  return { role: 'results', results }
}

/** Longer lines do not fit into the arguments of a process. */
const LINE_BYTES_MAX = 100_000

async function runToolCall({ name, arguments: args }: ToolCall, exec: HarnessConversation['exec']): Promise<string> {
  if (name !== SHELL.name) return `There is no tool of this name. There is one: ${SHELL.name}.`
  const line = textAt(args, 'command')
  if (line.trim() === '') return 'There is nothing to run: "command" must be a line of shell.'
  if (line.includes('\0')) return 'A line of shell cannot hold a zero byte.'
  if (Buffer.byteLength(line) > LINE_BYTES_MAX) return 'This line is too long. Write files in several steps.'
  const { output, code } = await exec(line)
  return `${shortenOutput(output)}\n[${code === null ? 'given up: it took too long' : `exit code ${code}`}]`
}

const OUTPUT_LENGTH_MAX = 16_000

/** Cuts the middle: the relevant lines are usually at the beginning or the end. */
function shortenOutput(output: string): string {
  if (output.length <= OUTPUT_LENGTH_MAX) return output
  const half = OUTPUT_LENGTH_MAX / 2
  const omitted = output.length - OUTPUT_LENGTH_MAX
  return `${output.slice(0, half)}\n[… ${omitted} characters are left out …]\n${output.slice(-half)}`.toWellFormed()
}

/** Parses the lines that `converse` emits. */
function trajectoryEvents(line: JsonObject): TrajectoryEvent[] {
  if (line.type === 'result') return [{ kind: 'result', id: textAt(line, 'id'), text: textAt(line, 'text') }]
  if (line.type === 'call') {
    return [
      { kind: 'call', id: textAt(line, 'id'), name: textAt(line, 'name'), arguments: objectAt(line, 'arguments') },
    ]
  }
  if (line.type !== 'turn') return []
  const [text, thought] = [textAt(line, 'text'), textAt(line, 'thought')]
  return [
    { kind: 'turn' },
    ...(thought === '' ? [] : [{ kind: 'thought' as const, text: thought }]),
    ...(text === '' ? [] : [{ kind: 'message' as const, text }]),
  ]
}

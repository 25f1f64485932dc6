import { type Ask, type Message, ModelSilent, type Reply, type Tool, type ToolCall } from './conversation.ts'
import { type Conversation, type Harness, requireAccess } from './harness.ts'
import { HarnessUnfit } from './harness-unfit.ts'
import { type JsonObject, objectAt, textAt } from './json.ts'
import { sayableIn, type Vocabularies } from './levels.ts'
import type { Moment } from './trajectory.ts'

/** A plain loop of a model and a shell. Nothing is installed, and nothing of the model is in the sandbox. */
export const mini: Harness = {
  id: 'mini',
  name: 'mini',
  version: '1',
  protocols: ['anthropic-messages', 'openai-responses', 'gemini', 'openai-chat'],
  helpers: [],
  protocolFor: (model, _level, wire) => sayableIn(VOCABULARIES, mini.protocols, model, wire),
  plan(_step, { mcpServers }, access) {
    requireAccess(mini, access)
    if (mcpServers.length > 0) throw new HarnessUnfit('mini knows no MCP, and this task has servers of tools.')
    return { command: ['true'], env: [], folders: [], input: '' }
  },
  converse,
  moments,
}

const EVERYTHING = { efforts: 'any', budgets: true, off: true, silence: true } as const
const VOCABULARIES: Vocabularies = {
  'anthropic-messages': EVERYTHING,
  'openai-responses': { ...EVERYTHING, budgets: false, off: false },
  gemini: EVERYTHING,
  'openai-chat': { ...EVERYTHING, budgets: false },
}

const TURNS_MAX = 200

const SYSTEM = `You work on a task in a Linux sandbox, by yourself: nobody answers questions.
The tool "shell" runs a line with sh in the working folder. Each call is a new shell: folders and variables that you set are forgotten, files stay. Nothing can be typed into a running command. A command that takes too long is given up; put what must go on into the background. Long output is cut in its middle.
Look around first, do what the task asks, and check your work. When it is done, answer with a short summary and no tool call.`

const SHELL: Tool = {
  name: 'shell',
  description: 'Runs a line of shell in the sandbox, and gives back its output and its exit code.',
  schema: {
    type: 'object',
    properties: { command: { type: 'string', description: 'The line, as for sh -c.' } },
    required: ['command'],
    additionalProperties: false,
  },
}

/** Until the model has nothing more to do, or may do nothing more. Answers an exit code: 0 when it came to its own end. */
async function converse({ instruction, exec, ask, tell, signal }: Conversation): Promise<number> {
  const messages: Message[] = [{ role: 'user', text: instruction }]
  for (let turn = 1; turn <= TURNS_MAX; turn++) {
    const reply = await replyTo(ask, messages, signal)
    if (typeof reply === 'string') return ended(tell, reply)
    messages.push({ role: 'model', said: reply.said })
    tell({ type: 'turn', turn, text: reply.text, thought: reply.thought, stop: reply.stop })
    const next = await nextOf(reply, exec, tell)
    if (!next) return 0
    messages.push(next)
  }
  return ended(tell, `It was not done after ${TURNS_MAX} turns.`)
}

function ended(tell: Conversation['tell'], error: string): number {
  tell({ type: 'end', error })
  return 1
}

/** Or why there is none: what was paid for is spent, or the provider does not answer. */
async function replyTo(ask: Ask, messages: Message[], signal: AbortSignal): Promise<Reply | string> {
  try {
    return await ask({ system: SYSTEM, messages, tools: [SHELL], signal })
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ModelSilent) return error.message
    throw error
  }
}

/** What the model hears next. Undefined: it is at its end. */
async function nextOf(
  { calls, stop }: Reply,
  exec: Conversation['exec'],
  tell: Conversation['tell'],
): Promise<Message | undefined> {
  if (calls.length === 0)
    return stop === 'length' ? { role: 'user', text: 'Your answer was cut off. Go on.' } : undefined
  const results = []
  for (const call of calls) {
    tell({ type: 'call', id: call.id, name: call.name, arguments: call.arguments })
    const text = await resultOf(call, exec)
    tell({ type: 'result', id: call.id, text })
    results.push({ id: call.id, name: call.name, text })
  }
  return { role: 'results', results }
}

/** Longer ones do not fit into the arguments of a program. */
const LINE_BYTES_MAX = 100_000

async function resultOf({ name, arguments: given }: ToolCall, exec: Conversation['exec']): Promise<string> {
  if (name !== SHELL.name) return `There is no tool of this name. There is one: ${SHELL.name}.`
  const line = textAt(given, 'command')
  if (line.trim() === '') return 'There is nothing to run: "command" must be a line of shell.'
  if (line.includes('\0')) return 'A line of shell cannot hold a zero byte.'
  if (Buffer.byteLength(line) > LINE_BYTES_MAX) return 'This line is too long. Write files in several steps.'
  const { output, code } = await exec(line)
  return `${shortened(output)}\n[${code === null ? 'given up: it took too long' : `exit code ${code}`}]`
}

const OUTPUT_LENGTH_MAX = 16_000

/** What matters is mostly at the beginning or at the end. */
function shortened(output: string): string {
  if (output.length <= OUTPUT_LENGTH_MAX) return output
  const half = OUTPUT_LENGTH_MAX / 2
  const left = output.length - OUTPUT_LENGTH_MAX
  return `${output.slice(0, half)}\n[… ${left} characters are left out …]\n${output.slice(-half)}`.toWellFormed()
}

/** Reads the lines that `converse` told. */
function moments(line: JsonObject): Moment[] {
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

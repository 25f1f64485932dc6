// Client of the Agent Client Protocol (JSON-RPC over standard input and output, one message per line). It runs in the
// agent's sandbox: starts the agent, sends the instruction as one prompt, allows every action, and prints one JSON line per
// event. Uses nothing but Node.
//
// node acp-client.mjs [--set <option>=<value> …] -- <agent> [argument …] < instruction
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'

const PROTOCOL_VERSION = 1
/** Error code of an agent that requires authentication first. */
const AUTH_REQUIRED = -32000
const METHOD_NOT_FOUND = -32601

const words = process.argv.slice(2)
const [program, ...args] = words.slice(words.indexOf('--') + 1)
/** Options of the session to set, as `option=value`. */
const settings = words.slice(0, words.indexOf('--')).filter((word) => word !== '--set')
const instruction = await text(process.stdin)
const agent = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
/** Requests to the agent that have no response yet, by id. */
const pendingRequests = new Map()
/** Tool calls that were announced and not printed yet, by id. */
const announcedCalls = new Map()
let lastRequestId = 0
/** Text of the message or thought that the agent is streaming. */
let streamed = { type: '', text: '' }

const emit = (event) => process.stdout.write(`${JSON.stringify(event)}\n`)
const send = (message) => agent.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)

function request(method, params) {
  lastRequestId += 1
  const id = lastRequestId
  send({ id, method, params })
  return new Promise((resolve, reject) => pendingRequests.set(id, { resolve, reject }))
}

/** Prints the text that the agent has streamed so far. */
function flush() {
  if (streamed.text !== '') emit(streamed)
  streamed = { type: '', text: '' }
}

function addText(type, part) {
  if (streamed.type !== type) flush()
  streamed = { type, text: streamed.text + part }
}

/** Returns the text of a content block, or of a list of them. A changed file counts with its new text. */
const textOf = (content) => {
  if (!Array.isArray(content)) return content?.text ?? ''
  return content.map((part) => part?.content?.text ?? part?.newText ?? part?.text ?? '').join('')
}

function emitCall(id, { kind, title, rawInput }) {
  const announcement = announcedCalls.get(id)
  announcedCalls.delete(id)
  const name = kind ?? announcement.kind ?? 'other'
  const newestTitle = title ?? announcement.title
  emit({ type: 'call', id, name, title: newestTitle, arguments: rawInput ?? { title: newestTitle } })
}

function onUpdate(update) {
  const { sessionUpdate: kind, toolCallId: id } = update
  if (kind === 'agent_message_chunk') return addText('message', textOf(update.content))
  if (kind === 'agent_thought_chunk') return addText('thought', textOf(update.content))
  if (kind !== 'tool_call' && kind !== 'tool_call_update') return
  flush()
  const isEnded = ['completed', 'failed'].includes(update.status)
  if (kind === 'tool_call') announcedCalls.set(id, update)
  // Some agents announce a call before they know its arguments.
  if (announcedCalls.has(id) && (update.rawInput !== undefined || isEnded)) emitCall(id, update)
  const output = textOf(update.content ?? [])
  if (isEnded) emit({ type: 'result', id, status: update.status, text: output })
}

/** Answers a request of the agent. Only permissions are asked for, because the client declares no other capability. */
function onRequest({ id, method, params }) {
  if (method !== 'session/request_permission')
    return send({ id, error: { code: METHOD_NOT_FOUND, message: `${method} is not supported.` } })
  const options = params?.options ?? []
  const allowed = ['allow_always', 'allow_once'].flatMap((kind) => options.filter((option) => option.kind === kind))
  const [option] = [...allowed, ...options]
  send({
    id,
    result: { outcome: option ? { outcome: 'selected', optionId: option.optionId } : { outcome: 'cancelled' } },
  })
}

function onMessage(message) {
  if (message.method === 'session/update') return onUpdate(message.params?.update ?? {})
  if (message.method !== undefined && message.id !== undefined) return onRequest(message)
  const pending = pendingRequests.get(message.id)
  if (!pending) return
  pendingRequests.delete(message.id)
  if (message.error)
    pending.reject(
      Object.assign(new Error(message.error.message), { code: message.error.code, data: message.error.data }),
    )
  else pending.resolve(message.result)
}

createInterface({ input: agent.stdout }).on('line', (line) => {
  try {
    onMessage(JSON.parse(line))
  } catch {
    process.stderr.write(`${line}\n`)
  }
})

/** Opens a session. Authenticates first if the agent requires it. */
async function openSession() {
  const newSession = () => request('session/new', { cwd: process.cwd(), mcpServers: [] })
  try {
    return await newSession()
  } catch (error) {
    if (error.code !== AUTH_REQUIRED) throw error
    const [authMethod] = agentDescription.authMethods ?? []
    if (!authMethod) throw error
    await request('authenticate', { methodId: authMethod.id })
    return newSession()
  }
}

function end(code) {
  flush()
  for (const id of announcedCalls.keys()) emitCall(id, {})
  agent.kill('SIGTERM')
  process.exit(code)
}

agent.on('error', (error) => {
  emit({ type: 'end', error: `The agent could not be started: ${error.message}` })
  end(127)
})
agent.on('exit', (code, signal) => {
  emit({ type: 'end', error: `The agent ended with ${code ?? signal} before its answer.` })
  end(1)
})
agent.stdin.on('error', () => {})

const clientCapabilities = { fs: { readTextFile: false, writeTextFile: false }, terminal: false }
/** Response of the agent to `initialize`. */
let agentDescription = {}
try {
  agentDescription = await request('initialize', { protocolVersion: PROTOCOL_VERSION, clientCapabilities })
  const { sessionId } = await openSession()
  for (const setting of settings) {
    const [configId, value] = setting.split('=')
    await request('session/set_config_option', { sessionId, configId, value })
  }
  const { stopReason } = await request('session/prompt', { sessionId, prompt: [{ type: 'text', text: instruction }] })
  flush()
  emit({ type: 'end', stopReason })
  end(stopReason === 'end_turn' ? 0 : 1)
} catch (error) {
  flush()
  emit({ type: 'end', error: error.message, code: error.code, data: error.data })
  end(1)
}

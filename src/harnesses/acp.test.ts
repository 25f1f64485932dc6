import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, expect, test } from 'vitest'
import { acpClientFile, acpCommand, parseAcpEvents } from './acp.ts'
import { type JsonObject, parseJson } from './json.ts'

const folder = mkdtempSync(join(tmpdir(), 'assay-acp-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** An agent of the protocol that asks for permission, reports a tool call and speaks in two pieces. */
const AGENT = `
import { createInterface } from 'node:readline'
const [mode] = process.argv.slice(2)
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
const update = (update) => send({ method: 'session/update', params: { sessionId: 's', update } })
let isSignedIn = false
let prompt
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params, result } = JSON.parse(line)
  if (method === 'initialize') return send({ id, result: { protocolVersion: 1, authMethods: [{ id: 'key' }] } })
  if (method === 'authenticate') { isSignedIn = params.methodId === 'key'; return send({ id, result: {} }) }
  if (method === 'session/new') {
    return isSignedIn ? send({ id, result: { sessionId: 's' } }) : send({ id, error: { code: -32000, message: 'Sign in' } })
  }
  if (method === 'session/set_config_option') { process.stderr.write(params.configId + ' is ' + params.value + '\\n'); return send({ id, result: {} }) }
  if (method === 'session/prompt') {
    if (mode === 'dies') process.exit(3)
    prompt = { id, text: params.prompt[0].text }
    const options = [{ optionId: 'no', kind: 'reject_once' }, { optionId: 'yes', kind: 'allow_once' }]
    return send({ id: 'p', method: 'session/request_permission', params: { sessionId: 's', options } })
  }
  if (id !== 'p') return
  const rawInput = { command: 'date' }
  if (mode === 'announces') {
    update({ sessionUpdate: 'tool_call', toolCallId: 't', title: 'sh', kind: 'execute', status: 'pending' })
    update({ sessionUpdate: 'tool_call_update', toolCallId: 't', status: 'in_progress', rawInput })
  } else update({ sessionUpdate: 'tool_call', toolCallId: 't', title: 'sh', kind: 'execute', rawInput })
  update({ sessionUpdate: 'tool_call_update', toolCallId: 't', status: 'completed', content: [{ type: 'content', content: { type: 'text', text: result.outcome.optionId } }] })
  for (const part of ['You said: ', prompt.text])
    update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: part } })
  send({ id: prompt.id, result: { stopReason: 'end_turn' } })
})
`

async function runClient(mode: string) {
  const agent = join(folder, 'agent.mjs')
  const client = join(folder, 'client.mjs')
  writeFileSync(agent, AGENT)
  writeFileSync(client, acpClientFile().text)
  const [, , ...words] = acpCommand([process.execPath, agent, mode], { approval: 'full' })
  const child = spawn(process.execPath, [client, ...words])
  child.stdin.end('Do it.')
  const [out, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  const lines = out
    .trim()
    .split('\n')
    .map((line) => parseJson(line) as JsonObject)
  return { code, errors, lines }
}

test.each(['works', 'announces'])(
  'the client signs in, sets options, allows actions and reports what an agent that %s does',
  async (mode) => {
    const { code, errors, lines } = await runClient(mode)
    expect(code).toBe(0)
    expect(errors).toContain('approval is full')
    expect(lines.at(-1)).toEqual({ type: 'end', stopReason: 'end_turn' })
    expect(lines.flatMap(parseAcpEvents)).toEqual([
      { kind: 'call', id: 't', name: 'execute', arguments: { command: 'date' } },
      { kind: 'result', id: 't', text: 'yes' },
      { kind: 'turn' },
      { kind: 'message', text: 'You said: Do it.' },
    ])
  },
)

test('an agent that ends before its answer is a failure', async () => {
  const { code, lines } = await runClient('dies')
  expect(code).toBe(1)
  expect(lines).toEqual([{ type: 'end', error: 'The agent ended with 3 before its answer.' }])
})

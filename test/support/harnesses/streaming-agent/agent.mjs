// A coding agent that reads its answers as streams and never repeats a call: a broken connection ends it.
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { text } from 'node:stream/consumers'

if (process.argv[2] === '--version') {
  console.log('streaming-agent 1')
  process.exit(0)
}
const [url, model, effort] = process.argv.slice(2)
const { token } = JSON.parse(await readFile(`${homedir()}/.agent/settings.json`, 'utf8'))
const parameters = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] }
const tools = [{ type: 'function', function: { name: 'bash', description: 'Runs a line of shell.', parameters } }]
const messages = [{ role: 'user', content: await text(process.stdin) }]

for (;;) {
  const message = await ask()
  messages.push(message)
  console.log(JSON.stringify({ said: message.content }))
  if (!message.tool_calls) break
  for (const { id, function: call } of message.tool_calls) {
    const content = await shell(JSON.parse(call.arguments).command)
    messages.push({ role: 'tool', tool_call_id: id, content })
  }
}

async function ask() {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ model, reasoning_effort: effort, messages, tools, stream: true }),
  })
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
  const events = (await answer.text()).split('\n').filter((line) => line.startsWith('data: {'))
  const message = { role: 'assistant', content: '' }
  for (const { delta } of events.flatMap((line) => JSON.parse(line.slice(6)).choices)) addDelta(message, delta)
  return message
}

function addDelta(message, { content, tool_calls: calls = [] }) {
  message.content += content ?? ''
  for (const { index, id, function: piece } of calls) {
    message.tool_calls ??= []
    message.tool_calls[index] ??= { id, type: 'function', function: { name: piece.name, arguments: '' } }
    message.tool_calls[index].function.arguments += piece.arguments ?? ''
  }
}

function shell(line) {
  return new Promise((resolve) => {
    execFile('sh', ['-c', line], (_error, stdout, stderr) => resolve(`${stdout}${stderr}`))
  })
}

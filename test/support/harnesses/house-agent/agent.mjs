// A small coding agent, as a workspace might upload it: a loop of a model and a shell that reports its work in JSON lines.
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { text } from 'node:stream/consumers'

if (process.argv[2] === '--version') {
  console.log('house-agent 1')
  process.exit(0)
}
const [url, model, effort] = process.argv.slice(2)
const { token } = JSON.parse(await readFile(`${homedir()}/.house/settings.json`, 'utf8'))
const tell = (line) => console.log(JSON.stringify(line))
const parameters = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] }
const tools = [{ type: 'function', function: { name: 'bash', description: 'Runs a line of shell.', parameters } }]
const messages = [{ role: 'user', content: await text(process.stdin) }]

for (;;) {
  const { content, tool_calls: calls = [] } = await ask()
  messages.push({ role: 'assistant', content, ...(calls.length > 0 ? { tool_calls: calls } : {}) })
  tell({ event: 'said', text: content ?? '', calls: calls.map(({ id, function: asked }) => ({ id, ...asked })) })
  if (calls.length === 0) break
  for (const call of calls) {
    const output = await shell(JSON.parse(call.function.arguments).command)
    tell({ event: 'done', call: call.id, output })
    messages.push({ role: 'tool', tool_call_id: call.id, content: output })
  }
}

async function ask() {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ model, reasoning_effort: effort, messages, tools }),
  })
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
  return (await answer.json()).choices[0].message
}

function shell(line) {
  return new Promise((resolve) => {
    execFile('sh', ['-c', line], (_error, stdout, stderr) => resolve(`${stdout}${stderr}`))
  })
}

import { expect, test } from 'vitest'
import type { TaskStep } from '../harbor/task.ts'
import { type AskModel, ModelCallFailed, type ModelReply, type ModelRequest, type ToolCall } from './conversation.ts'
import { HarnessUnfit, type TaskResources } from './harness.ts'
import type { JsonObject } from './json.ts'
import { mini } from './mini.ts'
import type { ModelAccess } from './model-access.ts'
import { buildTrajectory } from './trajectory.ts'

const reply = (over: Partial<ModelReply> = {}): ModelReply => ({
  text: '',
  thought: '',
  calls: [],
  raw: 'opaque',
  stop: 'done',
  ...over,
})
const shell = (given: JsonObject, over: Partial<ToolCall> = {}): ModelReply =>
  reply({ calls: [{ id: 'c-1', name: 'shell', arguments: given, ...over }], stop: 'tools' })

type MiniRun = { code: number; lines: JsonObject[]; ran: string[]; requests: ModelRequest['messages'][] }

/** Runs mini with a model that returns these replies in order and a shell that always returns `answer`. */
async function run(
  replies: (ModelReply | Error)[],
  answer = { output: 'out', code: 0 as number | null },
): Promise<MiniRun> {
  const lines: JsonObject[] = []
  const ran: string[] = []
  const requests: ModelRequest['messages'][] = []
  const ask: AskModel = async ({ messages }) => {
    requests.push([...messages])
    const next = replies[Math.min(requests.length, replies.length) - 1] ?? reply()
    if (next instanceof Error) throw next
    return next
  }
  const exec = async (line: string) => {
    ran.push(line)
    return answer
  }
  const signal = new AbortController().signal
  const code = await mini.converse?.({ instruction: 'Do it.', ask, exec, emit: (line) => lines.push(line), signal })
  return { code: code ?? -1, lines, ran, requests }
}

const lastResult = ({ requests }: MiniRun): string => {
  const last = requests.at(-1)?.at(-1)
  return last?.role === 'results' ? (last.results[0]?.text ?? '') : ''
}

test('runs requested commands, returns their output and ends when the model is done', async () => {
  const ran = await run([shell({ command: 'ls' }), reply({ text: 'Done.' })], { output: 'a\nb\n', code: 3 })
  expect(ran).toMatchObject({ code: 0, ran: ['ls'] })
  expect(ran.requests.at(-1)).toEqual([
    { role: 'user', text: 'Do it.' },
    { role: 'model', raw: 'opaque' },
    { role: 'results', results: [{ id: 'c-1', name: 'shell', text: 'a\nb\n\n[exit code 3]' }] },
  ])
})

test.each([
  [shell({ command: 'ls' }, { name: 'eval' }), 'no tool of this name'],
  [shell({}), 'nothing to run'],
  [shell({ command: ['ls'] }), 'nothing to run'],
  [shell({ command: ' \n' }), 'nothing to run'],
  [shell({ command: 'a\0b' }), 'zero byte'],
  [shell({ command: 'x'.repeat(100_001) }), 'too long'],
])('does not run an invalid command and tells the model why', async (asked, hint) => {
  const ran = await run([asked, reply()])
  expect(ran.ran).toEqual([])
  expect(lastResult(ran)).toContain(hint)
  expect(ran.code).toBe(0)
})

test('cuts the middle of long output and keeps it well-formed', async () => {
  const output = `first${'\u{1F600}'.repeat(20_001)}last`
  const text = lastResult(await run([shell({ command: 'yes' }), reply()], { output, code: 0 }))
  expect(text.length).toBeLessThan(17_000)
  expect(text).toMatch(/^first.*\[… \d+ characters are left out …\].*last\n\[exit code 0\]$/su)
  expect(text.isWellFormed()).toBe(true)
})

test('tells the model when a command timed out', async () => {
  const text = lastResult(await run([shell({ command: 'sleep 9999' }), reply()], { output: '', code: null }))
  expect(text).toContain('given up')
})

test('asks the model to continue an answer that was cut off', async () => {
  const ran = await run([reply({ stop: 'length' }), reply()])
  expect(ran.requests).toHaveLength(2)
  expect(ran.requests.at(-1)?.at(-1)).toMatchObject({ role: 'user' })
})

test('ends after 200 turns', async () => {
  const ran = await run([shell({ command: 'true' })])
  expect(ran.code).toBe(1)
  expect(ran.requests).toHaveLength(200)
  expect(ran.lines.at(-1)).toEqual({ type: 'end', error: 'The task was not finished after 200 turns.' })
})

test.each([402, 500, null])('ends with the reason when a model call fails (%s)', async (status) => {
  const ran = await run([shell({ command: 'true' }), new ModelCallFailed(status, 'nothing left')])
  expect(ran).toMatchObject({ code: 1, ran: ['true'] })
  expect(ran.lines.at(-1)).toEqual({ type: 'end', error: 'nothing left' })
})

test('rethrows unexpected errors', async () => {
  await expect(run([new TypeError('a bug')])).rejects.toThrow('a bug')
})

test('passes nothing of the model to the sandbox, and refuses to run without a model or with MCP servers', () => {
  const step = { instruction: 'Do it.' } as TaskStep
  const resources: TaskResources = { solutionEnv: [], mcpServers: [], skillsDir: null }
  const access = { model: 'm-1', token: 't-1' } as ModelAccess
  expect(mini.plan(step, resources, access)).toEqual({ command: ['true'], env: [], folders: [], input: '' })
  expect(() => mini.plan(step, resources)).toThrow(HarnessUnfit)
  const server = { name: 's', transport: 'stdio' as const, command: 'x', args: [] }
  expect(() => mini.plan(step, { ...resources, mcpServers: [server] }, access)).toThrow(HarnessUnfit)
})

test('converts its log to a trajectory', async () => {
  const { lines } = await run([
    { ...shell({ command: 'ls' }), text: 'I look.', thought: 'Hm.' },
    reply({ text: 'Done.' }),
  ])
  const output = lines.map((line) => `${JSON.stringify(line)}\n`).join('')
  expect(buildTrajectory(mini, { instruction: 'Do it.', output, model: 'm-1' })?.steps).toMatchObject([
    { source: 'user', message: 'Do it.' },
    {
      source: 'agent',
      message: 'I look.',
      reasoning_content: 'Hm.',
      tool_calls: [{ function_name: 'shell', arguments: { command: 'ls' } }],
      observation: { results: [{ content: 'out\n[exit code 0]' }] },
    },
    { source: 'agent', message: 'Done.' },
  ])
})
